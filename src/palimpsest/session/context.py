"""Context blocks: labelled sections of the system prompt that outlive compaction.

Blocks are read from their providers, rendered once and frozen, so that a model's prompt cache
holds; writes reach the provider at once and the prompt at the next refresh, or as a reminder
(Sessions document, "Context blocks").
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, cast

from palimpsest.errors import ContextBlockError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, Part, dump_json, tool_name, tool_parts
from palimpsest.session.providers import (
    AgentContextProvider,
    as_provider,
    is_search_provider,
    is_skill_provider,
    is_writable_provider,
    resolve,
)
from palimpsest.store.context import PROMPT_KEY, ContextStore
from palimpsest.tokens import count_string_tokens, estimate_string_tokens

RULE = "\u2550" * 46
"""The line above and below a block's header."""

LOADED_KEY = "loaded_skills"
"""The setting that lists the loaded skills of a session, as JSON pairs of label and key."""

UNLOADING_KEY = "unloading_skills"
"""The setting that lists skills whose content still has to leave the history."""

WhenChanged = Literal["keep", "remind"]

T = TypeVar("T")

RewriteHistory = Callable[[Callable[[Part], Part | None]], Awaitable[None]]
"""Applies a function to every tool part that the next turn would show, storing what it changes."""


class ContextSettings(Protocol):
    """Where the settings of a session are kept: which skills are loaded, the frozen prompt."""

    def get_config(self, session_id: str, key: str) -> str | None:
        """A setting, or None."""
        ...

    def set_config(self, session_id: str, key: str, value: str | None) -> None:
        """Write a setting; None removes it."""
        ...

    def transaction(self, body: Callable[[], T]) -> T:
        """Run ``body``, whose writes are all kept or none."""
        ...


@dataclass(frozen=True, slots=True)
class ContextBlock:
    """One block as it stands. ``tokens`` and ``max_tokens`` are in heuristic tokens."""

    label: str
    description: str | None
    content: str
    tokens: int
    max_tokens: int | None
    writable: bool
    is_skill: bool
    is_searchable: bool

    @property
    def is_keyed(self) -> bool:
        """Whether its entries are addressed by key."""
        return self.is_skill or self.is_searchable

    @property
    def tag(self) -> str:
        """How the prompt names what can be done with the block."""
        if self.is_searchable:
            return "[searchable]"
        if self.is_skill:
            return "[loadable]"
        return "[writable]" if self.writable else "[readonly]"

    @property
    def usage(self) -> str:
        """The used share of the block's limit, e.g. ``12% (132/1100 tokens)``."""
        if self.max_tokens is None:
            return f"{self.tokens} tokens"
        percent = round(100 * self.tokens / self.max_tokens)
        return f"{percent}% ({self.tokens}/{self.max_tokens} tokens)"

    def render(self) -> str:
        """The block as the prompt shows it, never longer than its limit; '' to leave it out."""
        if not self.content and self.tag == "[readonly]":
            return ""
        header = self.label.upper()
        if self.description:
            header += f" ({self.description})"
        if self.max_tokens is not None:
            percent = round(100 * self.tokens / self.max_tokens)
            header += f" [{percent}% \u2014 {self.tokens}/{self.max_tokens} tokens]"
        content = fit_tokens(self.content, self.max_tokens)
        return f"{RULE}\n{header} {self.tag}\n{RULE}\n{content}"


def fit_tokens(text: str, limit: int | None) -> str:
    """The text, or its longest beginning within ``limit`` tokens with a note of what is missing."""
    if limit is None or estimate_string_tokens(text) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_string_tokens(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return f"{text[:low]}\n[{len(text) - low} more characters exceed this block's limit]"


@dataclass(slots=True)
class _Definition:
    label: str
    description: str | None
    max_tokens: int | None
    provider: Any
    when_changed: WhenChanged
    block: ContextBlock | None = None


class ContextBlocks:
    """The blocks of one session, its frozen prompt and its loaded skills.

    :param host: the object's host.
    :param session_id: the session.
    :param owner: given to built-in providers; an agent or the host.
    :param rewrite_history: how the session changes stored tool parts when a skill is unloaded.
    :param settings: where loaded skills are noted; None for the object's own database.
    """

    def __init__(
        self,
        host: Host,
        session_id: str,
        *,
        owner: Any = None,
        rewrite_history: RewriteHistory | None = None,
        settings: ContextSettings | None = None,
    ) -> None:
        self._owner = host if owner is None else owner
        self._session_id = session_id
        self._rewrite_history = rewrite_history
        self._store = ContextStore.open(host.sql) if settings is None else settings
        self._definitions: dict[str, _Definition] = {}
        self._prompt: str | None = None
        self._counted: tuple[str | None, int] = (None, 0)
        self._prompt_store: Any = None
        self._write_lock = asyncio.Lock()

    # -- building ---------------------------------------------------------------------------

    def add(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: Any = None,
        when_changed: WhenChanged = "keep",
    ) -> None:
        """Declare a block. Without a provider it is writable and kept in the agent's database.

        :param max_tokens: limit of the content, in heuristic tokens; None for no limit.
        :param when_changed: ``"remind"`` tells the model of changes by :meth:`reminder`.
        :raises ContextBlockError: the label is empty or taken, or the limit is not positive.
        """
        if not label.strip():
            raise ContextBlockError("a context block needs a label")
        if label in self._definitions:
            raise ContextBlockError(f'Block "{label}" already exists')
        if max_tokens is not None and max_tokens <= 0:
            raise ContextBlockError(f"max_tokens must be positive, got {max_tokens}")
        if provider is None:
            provider = AgentContextProvider(self._owner, label)
        self._definitions[label] = _Definition(
            label, description, max_tokens, as_provider(provider, self._session_id), when_changed
        )

    def remove(self, label: str) -> bool:
        """Withdraw a block and forget which of its skills are loaded; whether it existed."""
        if self._definitions.pop(label, None) is None:
            return False
        kept = [pair for pair in self._pairs(LOADED_KEY) if pair[0] != label]
        self._set_pairs(LOADED_KEY, kept)
        return True

    def use_cached_prompt(self, provider: Any = None) -> None:
        """Keep the frozen prompt across evictions: in the database, or with a provider."""
        self._prompt_store = (
            _StoredPrompt(self._store, self._session_id)
            if provider is None
            else as_provider(provider, self._session_id)
        )

    def labels(self) -> list[str]:
        """The labels, in order of declaration."""
        return list(self._definitions)

    # -- reading ----------------------------------------------------------------------------

    async def block(self, label: str) -> ContextBlock | None:
        """One block, read from its provider; None for an unknown label."""
        definition = self._definitions.get(label)
        return None if definition is None else await self._read(definition)

    async def blocks(self) -> list[ContextBlock]:
        """All blocks, read from their providers, in order of declaration."""
        return [await self._read(definition) for definition in list(self._definitions.values())]

    async def _ready(self, definition: _Definition) -> Any:
        """The provider, told its label before it is used in any way."""
        if callable(init := getattr(definition.provider, "init", None)):
            await resolve(init(definition.label))
        return definition.provider

    async def _read(self, definition: _Definition) -> ContextBlock:
        provider = await self._ready(definition)
        content = await resolve(provider.get())
        text = "" if content is None else str(content)
        definition.block = ContextBlock(
            label=definition.label,
            description=definition.description,
            content=text,
            tokens=estimate_string_tokens(text),
            max_tokens=definition.max_tokens,
            writable=is_writable_provider(provider),
            is_skill=is_skill_provider(provider),
            is_searchable=is_search_provider(provider),
        )
        return definition.block

    # -- the frozen prompt ------------------------------------------------------------------

    async def freeze(self) -> str:
        """The system prompt: the frozen one where there is one, else rendered and frozen now."""
        await self._finish_unloading()
        frozen = await self.frozen()
        return await self.refresh() if frozen is None else frozen

    async def frozen(self) -> str | None:
        """The frozen prompt where there is one; nothing is rendered."""
        if self._prompt_store is not None:
            stored = await resolve(self._prompt_store.get())
            if stored is not None:
                self._prompt = str(stored)
        return self._prompt

    async def refresh(self) -> str:
        """Read every provider again, render, freeze and return the system prompt."""
        rendered = [block.render() for block in await self.blocks()]
        self._prompt = "\n\n".join(text for text in rendered if text)
        if self._prompt_store is not None:
            await resolve(self._prompt_store.set(self._prompt))
        return self._prompt

    def frozen_tokens(self) -> int:
        """Heuristic tokens of the frozen prompt, without rendering it; 0 before a first freeze."""
        if self._prompt is None and isinstance(self._prompt_store, _StoredPrompt):
            self._prompt = self._prompt_store.get()
        if self._prompt is None:
            return 0
        if self._counted[0] is not self._prompt:  # asked at every append, and the same each time
            self._counted = (self._prompt, count_string_tokens(self._prompt))
        return self._counted[1]

    async def reminder(self) -> str | None:
        """Blocks that changed since the prompt was frozen, for the newest user message.

        Only blocks declared with ``when_changed="remind"`` are compared; the frozen prompt stays
        as it is, so the cached prefix holds. None when nothing changed.
        """
        frozen = await self.freeze()
        changed: list[str] = []
        for definition in list(self._definitions.values()):
            if definition.when_changed == "remind":
                section = (await self._read(definition)).render()
                if section and section not in frozen:
                    changed.append(section)
        if not changed:
            return None
        lead = "These sections of your context changed; they replace the versions shown above."
        return "\n\n".join([lead, *changed])

    # -- writing ----------------------------------------------------------------------------

    async def replace(self, label: str, text: str) -> ContextBlock:
        """Replace a plain block's content.

        :raises ContextBlockError: unknown, read-only or keyed block, or over its limit.
        """
        async with self._write_lock:
            return await self._write(self._plain(label), text)

    async def append(self, label: str, text: str) -> ContextBlock:
        """Add to a plain block's content, on a line of its own.

        :raises ContextBlockError: unknown, read-only or keyed block, or over its limit.
        """
        async with self._write_lock:
            definition = self._plain(label)
            content = (await self._read(definition)).content
            glue = "" if not content or text.startswith("\n") else "\n"
            return await self._write(definition, content + glue + text)

    def _plain(self, label: str) -> _Definition:
        definition = self._definitions.get(label)
        if definition is None:
            raise ContextBlockError(f'Block "{label}" not found')
        provider = definition.provider
        if is_skill_provider(provider) or is_search_provider(provider):
            raise ContextBlockError(
                f'Block "{label}" is a keyed provider: write its entries by key'
            )
        if not is_writable_provider(provider):
            raise ContextBlockError(f'Block "{label}" is readonly')
        return definition

    async def _write(self, definition: _Definition, text: str) -> ContextBlock:
        """Write through: the provider first, so that memory never claims what was not stored."""
        _check_limit(definition, text)
        provider = await self._ready(definition)
        await resolve(provider.set(text))
        return await self._read(definition)

    async def set_entry(
        self, label: str, key: str, content: str, description: str | None = None
    ) -> None:
        """Write one entry of a keyed block.

        :raises ContextBlockError: the block is unknown, not keyed or read-only, or the entry
            exceeds the block's limit.
        """
        definition = self._definitions.get(label)
        if definition is None:
            raise ContextBlockError(f'Block "{label}" not found')
        provider = await self._ready(definition)
        if not is_skill_provider(provider) and not is_search_provider(provider):
            raise ContextBlockError(f'Block "{label}" is not a keyed provider')
        if not is_writable_provider(provider):
            raise ContextBlockError(f'Block "{label}" does not support writes')
        _check_limit(definition, content)
        if is_skill_provider(provider):
            await resolve(provider.set(key, content, description))
        else:
            await resolve(provider.set(key, content))

    # -- skills and search ------------------------------------------------------------------

    async def load_skill(self, label: str, key: str) -> str | None:
        """The content of a skill, from now on loaded; None where there is none.

        :raises ContextBlockError: the block is no skill block.
        """
        provider = await self._keyed(label, is_skill_provider, "a skill")
        content = await resolve(provider.load(key))
        if content is None:
            return None
        self._set_pairs(LOADED_KEY, [*self._without(LOADED_KEY, label, key), (label, key)])
        self._set_pairs(UNLOADING_KEY, self._without(UNLOADING_KEY, label, key))
        return str(content)

    async def unload_skill(self, label: str, key: str) -> bool:
        """Free the space of a loaded skill: its content leaves the history; whether it was loaded.

        :raises ContextBlockError: the block is no skill block.
        """
        await self._keyed(label, is_skill_provider, "a skill")
        pairs = self._pairs(LOADED_KEY)
        if (label, key) not in pairs:
            return False

        def note() -> None:
            self._set_pairs(LOADED_KEY, self._without(LOADED_KEY, label, key))
            unloading = self._without(UNLOADING_KEY, label, key)
            self._set_pairs(UNLOADING_KEY, [*unloading, (label, key)])

        self._store.transaction(note)
        return True

    def loaded_skill_keys(self) -> set[str]:
        """The loaded skills as ``label:key``; they survive eviction."""
        return {f"{label}:{key}" for label, key in self._pairs(LOADED_KEY)}

    async def search(self, label: str, query: str) -> str | None:
        """What a searchable block finds, as text; None for nothing.

        :raises ContextBlockError: the block is not searchable.
        """
        provider = await self._keyed(label, is_search_provider, "a search")
        found = await resolve(provider.search(query))
        return None if found is None else str(found)

    async def _keyed(self, label: str, test: Callable[[object], bool], kind: str) -> Any:
        definition = self._definitions.get(label)
        if definition is None:
            raise ContextBlockError(f'Block "{label}" not found')
        if not test(definition.provider):
            raise ContextBlockError(f'Block "{label}" is not {kind} provider')
        return await self._ready(definition)

    async def _finish_unloading(self) -> None:
        """Take unloaded skills out of the history.

        It happens when the next turn's prompt is asked for, since the turn that unloads a skill
        may be the one that loaded it, and is stored only at its end.
        """
        unloading = self._pairs(UNLOADING_KEY)
        if not unloading or self._rewrite_history is None:
            return
        markers = {pair: f"[skill unloaded: {pair[1]}]" for pair in unloading}

        def rewrite(part: Part) -> Part | None:
            if tool_name(part) != "load_context" or part.get("state") != "output-available":
                return None
            given: Any = part.get("input")
            if not isinstance(given, dict):
                return None
            named = cast("dict[str, Any]", given)
            marker = markers.get((str(named.get("label")), str(named.get("key"))))
            if marker is None or part.get("output") == marker:
                return None
            return {**part, "output": marker}

        await self._rewrite_history(rewrite)
        self._set_pairs(UNLOADING_KEY, [])

    def _without(self, setting: str, label: str, key: str) -> list[tuple[str, str]]:
        return [pair for pair in self._pairs(setting) if pair != (label, key)]

    def _pairs(self, setting: str) -> list[tuple[str, str]]:
        stored = self._store.get_config(self._session_id, setting)
        return [(str(a), str(b)) for a, b in json.loads(stored)] if stored else []

    def _set_pairs(self, setting: str, pairs: list[tuple[str, str]]) -> None:
        self._store.set_config(self._session_id, setting, dump_json(pairs) if pairs else None)

    # -- the end of a session ---------------------------------------------------------------

    def forget_prompt(self) -> None:
        """Drop the frozen prompt, so that the next turn renders a new one."""
        self._prompt = None
        if isinstance(self._prompt_store, _StoredPrompt):
            self._prompt_store.clear()

    def clear_skills(self) -> None:
        """Forget all loaded skills, as when the messages that hold them are cleared."""
        self._set_pairs(LOADED_KEY, [])
        self._set_pairs(UNLOADING_KEY, [])


class _StoredPrompt:
    """The frozen prompt in the session's own settings."""

    def __init__(self, store: ContextSettings, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    def get(self) -> str | None:
        return self._store.get_config(self._session_id, PROMPT_KEY)

    def set(self, prompt: str) -> None:
        self._store.set_config(self._session_id, PROMPT_KEY, prompt)

    def clear(self) -> None:
        self._store.set_config(self._session_id, PROMPT_KEY, None)


def _check_limit(definition: _Definition, text: str) -> None:
    tokens = estimate_string_tokens(text)
    if definition.max_tokens is not None and tokens > definition.max_tokens:
        raise ContextBlockError(
            f'Block "{definition.label}" exceeds maxTokens: {tokens} > {definition.max_tokens}'
        )


def rewritten(message: Message, change: Callable[[Part], Part | None]) -> Message | None:
    """A copy of the message with changed tool parts, or None where nothing changes."""
    tools = {id(part) for part in tool_parts(message)}
    parts: list[Part] = []
    changed = False
    for part in message.get("parts", ()):
        new = change(part) if id(part) in tools else None
        changed = changed or new is not None
        parts.append(part if new is None else new)
    return {**message, "parts": parts} if changed else None


def with_reminder(message: Message, reminder: str) -> Message:
    """The message with a reminder as one more text part, as the model is shown it."""
    return {**message, "parts": [*message["parts"], {"type": "text", "text": reminder}]}
