"""The tools that a session gives to the model (Sessions document, "AI tools")."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from palimpsest.session.context import ContextBlock, ContextBlocks
from palimpsest.tools import Tool, ToolContext

_PLAIN_TITLE = re.compile(r"[A-Za-z0-9]+( [A-Za-z0-9]+)*")

_SLUG_LENGTH = 60


def slug(text: str) -> str:
    """Lower-case letters and digits of the first 60 characters, joined by hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text[:_SLUG_LENGTH].lower()).strip("-")


def entry_key(title: str | None, content: str) -> str:
    """The key of an entry: stable for a title, else made from the content.

    A title that the slug would change beyond letter case (``C++``, ``C#``, other scripts, over
    60 characters) gets a digest of the title appended, so that two titles never share a key.
    """
    if title is not None and title.strip():
        title = title.strip()
        if len(title) <= _SLUG_LENGTH and _PLAIN_TITLE.fullmatch(title):
            return slug(title)
        return f"{slug(title) or 'entry'}-{_digest(title)}"
    return f"{slug(content) or 'entry'}-{_digest(content)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]


async def context_tools(context: ContextBlocks) -> dict[str, Tool]:
    """The tools that the session's blocks call for; none where no block qualifies.

    Each returns text; whatever a provider raises becomes ``Error: ...``, so that no call is left
    without its result.
    """
    blocks = await context.blocks()
    tools: list[Tool] = []
    if any(block.writable for block in blocks):
        tools.append(_set_context(context, [block for block in blocks if block.writable]))
    if skills := [block.label for block in blocks if block.is_skill]:
        tools.append(_load_context(context, skills))
        tools.append(_unload_context(context, skills))
    if searchable := [block.label for block in blocks if block.is_searchable]:
        tools.append(_search_context(context, searchable))
    return {tool.name: tool for tool in tools}


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required}


def _label(labels: list[str]) -> dict[str, Any]:
    return {"type": "string", "enum": labels, "description": "Which block."}


def text_tool(
    name: str,
    description: str,
    parameters: dict[str, Any],
    run: Callable[[dict[str, Any]], Awaitable[str]],
) -> Tool:
    """A tool whose every failure is told to the model as ``Error: ...``."""

    async def execute(arguments: dict[str, Any], context: ToolContext) -> str:
        del context
        try:
            return await run(arguments)
        except Exception as error:
            return f"Error: {error}"

    return Tool(name=name, description=description, parameters=parameters, execute=execute)


def _text(arguments: dict[str, Any], field: str) -> str:
    value = arguments.get(field)
    if not isinstance(value, str):
        raise TypeError(f"{field} must be text")
    return value


def _kind(block: ContextBlock) -> str:
    if block.is_skill:
        return "a collection of skills, one entry for each title"
    if block.is_searchable:
        return "a searchable collection, one entry for each title"
    return "text that you can replace or extend"


def _set_context(context: ContextBlocks, blocks: list[ContextBlock]) -> Tool:
    labels = [block.label for block in blocks]
    listing = "\n".join(
        f'- "{block.label}": {_kind(block)}; {block.description or "no description"}'
        for block in blocks
    )
    parameters = _object(
        ["label", "content"],
        label=_label(labels),
        content={"type": "string", "description": "The text to store."},
        action={
            "type": "string",
            "enum": ["replace", "append"],
            "default": "replace",
            "description": "Whether the text replaces what a plain block holds or is added to it.",
        },
    )
    if any(block.is_keyed for block in blocks):
        parameters["properties"]["metadata"] = {
            "type": "object",
            "description": "For collections: the entry's title, by which it is found and replaced, "
            "and a short description.",
            "properties": {"title": {"type": "string"}, "description": {"type": "string"}},
        }

    async def run(arguments: dict[str, Any]) -> str:
        label, content = _text(arguments, "label"), _text(arguments, "content")
        block = await context.block(label)
        if block is None:
            return f'Error: block "{label}" not found'
        if block.is_keyed:
            metadata: Any = arguments.get("metadata") or {}
            title: str | None = metadata.get("title")
            key = entry_key(title, content)
            await context.set_entry(label, key, content, metadata.get("description") or title)
            return f'Indexed "{key}" in {label}.'
        action = arguments.get("action", "replace")
        if action not in ("replace", "append"):
            return f'Error: action must be "replace" or "append", got {action!r}'
        write = context.append if action == "append" else context.replace
        return f"Written to {label}. Usage: {(await write(label, content)).usage}"

    description = (
        "Write to your durable context. What you write here is kept when older messages are "
        f"summarized and in later conversations. Blocks:\n{listing}"
    )
    return text_tool("set_context", description, parameters, run)


def _wrong_label(label: str, labels: list[str], problem: str, kind: str) -> str:
    return f'Error: "{label}" is not {problem}. {kind} blocks: {", ".join(labels)}'


def _load_context(context: ContextBlocks, labels: list[str]) -> Tool:
    async def run(arguments: dict[str, Any]) -> str:
        label, key = _text(arguments, "label"), _text(arguments, "key")
        if label not in labels:
            return _wrong_label(label, labels, "a skill block", "Skill")
        content = await context.load_skill(label, key)
        return f"Not found: {key}" if content is None else content

    description = (
        f"Load the full text of one entry of {', '.join(labels)}. The keys stand in your system "
        "prompt. Unload what you no longer need."
    )
    return text_tool("load_context", description, _keyed_parameters(labels), run)


def _unload_context(context: ContextBlocks, labels: list[str]) -> Tool:
    async def run(arguments: dict[str, Any]) -> str:
        label, key = _text(arguments, "label"), _text(arguments, "key")
        if label not in labels:
            return _wrong_label(label, labels, "a skill block", "Skill")
        if await context.unload_skill(label, key):
            return f'Unloaded "{key}" from {label}. Context reclaimed.'
        return f'Skill "{key}" is not currently loaded in "{label}".'

    loaded = ", ".join(sorted(context.loaded_skill_keys())) or "none"
    description = (
        "Free the space of an entry that was loaded; it can be loaded again at any time. "
        f"Loaded now: {loaded}."
    )
    return text_tool("unload_context", description, _keyed_parameters(labels), run)


def _keyed_parameters(labels: list[str]) -> dict[str, Any]:
    key = {"type": "string", "description": "The entry's key."}
    return _object(["label", "key"], label=_label(labels), key=key)


def _search_context(context: ContextBlocks, labels: list[str]) -> Tool:
    async def run(arguments: dict[str, Any]) -> str:
        label, query = _text(arguments, "label"), _text(arguments, "query")
        if label not in labels:
            return _wrong_label(label, labels, "searchable", "Searchable")
        return await context.search(label, query) or "No results found."

    query = {"type": "string", "description": "Plain words; no search syntax is needed."}
    description = (
        f"Search in {', '.join(labels)}; no other block can be searched with this. "
        "Returns the ten best entries."
    )
    parameters = _object(["label", "query"], label=_label(labels), query=query)
    return text_tool("search_context", description, parameters, run)
