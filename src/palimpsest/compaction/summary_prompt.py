"""The budget-ratio policy's summary prompt: text-only model messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from palimpsest.compaction.projection import (
    CompactionProjectionMessage,
    ModelMessage,
    create_user_message,
    zero_usage,
)


def build_summary_prompt(
    projection: Sequence[CompactionProjectionMessage],
    compacted_to: int,
    model: Mapping[str, Any] | str | None = None,
    timestamp: int = 0,
) -> list[ModelMessage]:
    """The earlier summary and everything below the boundary as user and assistant texts.

    Tool calls and results become bracketed text, because a summarizer declares no tools and
    providers refuse tool blocks then. A failed tool stays visible as such. Neighbours of one role
    are joined.

    :param compacted_to: entries from this sequence on are left out.
    :param model: ``{"api", "provider", "id"}`` (or the model's id) for the assistant texts.
    """
    merged: list[tuple[str, str]] = []
    for entry in projection:
        if entry.sequence is not None and entry.sequence >= compacted_to:
            continue
        text = flatten_model_message(entry.message)
        if not text:
            continue
        role = "assistant" if entry.message.get("role") == "assistant" else "user"
        if merged and merged[-1][0] == role:
            merged[-1] = (role, f"{merged[-1][1]}\n{text}")
        else:
            merged.append((role, text))
    return [
        _assistant_text(text, model, timestamp)
        if role == "assistant"
        else create_user_message(text, timestamp)
        for role, text in merged
    ]


def _assistant_text(
    text: str, model: Mapping[str, Any] | str | None, timestamp: int
) -> ModelMessage:
    described: Mapping[str, Any] = {"id": model} if isinstance(model, str) else (model or {})
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "api": described.get("api", ""),
        "provider": described.get("provider", ""),
        "model": described.get("id", described.get("model", "")),
        "usage": zero_usage(),
        "stopReason": "stop",
        "timestamp": timestamp,
    }


def flatten_model_message(message: Mapping[str, Any]) -> str:
    """One model message as plain text; '' when nothing is left."""
    content = message.get("content", message.get("parts"))
    role = message.get("role")
    if role in ("toolResult", "tool"):
        outcome = "error" if message.get("isError") else "result"
        name = message.get("toolName") or "unknown"
        body = "\n".join(filter(None, _flatten_parts(content)))
        return f"[tool {name} {outcome}]{f' {body}' if body else ''}"
    return "\n".join(filter(None, _flatten_parts(content)))


def _flatten_parts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list | tuple):
        return []
    return [_flatten_part(part) for part in cast("Sequence[Any]", content)]


def _flatten_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        return ""
    block = cast("Mapping[str, Any]", part)
    kind = str(block.get("type", ""))
    if kind == "text":
        return str(block.get("text") or "")
    if kind in ("thinking", "reasoning"):
        if block.get("redacted"):
            return ""
        return str(block.get("thinking") or block.get("text") or "")
    if kind in ("image", "file"):
        media = block.get("mimeType") or block.get("mediaType") or "unknown"
        return f"[{kind} {media}]"
    if kind in ("toolResult", "tool-result"):
        return f"[tool {block.get('toolName') or 'unknown'} result] {_json(block.get('output'))}"
    if kind in ("toolCall", "tool-call", "tool_use") or kind.startswith("tool-"):
        name = block.get("name") or block.get("toolName") or kind.removeprefix("tool-")
        arguments = block.get("arguments", block.get("input"))
        text = f"[tool call {name}] {_json({} if arguments is None else arguments)}"
        if block.get("errorText") is not None:
            text += f"\n[tool {name} error] {block['errorText']}"
        elif block.get("output") is not None:
            text += f"\n[tool {name} result] {_json(block['output'])}"
        return text
    return ""


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
