"""A conversation as text for a summarizer.

Everything a summary needs stays visible: who spoke, tool names, inputs and outputs as JSON, and
whether a tool failed, was denied or never answered. Media become short markers, and long tool
payloads are shortened in the middle, saying how much was left out. Reasoning is left out: it is
the model's scratch paper and may be provider-encrypted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from palimpsest.compaction.tool_pairs import has_result
from palimpsest.messages import dump_json, is_tool_part, tool_name
from palimpsest.tokens import count_string_tokens

MAX_PAYLOAD_CHARS = 2_000
"""The longest tool input or output in a transcript, in characters."""

_MAX_ERROR_CHARS = 1_000
_MIN_PIECE_CHARS = 200
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,\s]{0,100},[A-Za-z0-9+/=_%-]{64,}")


def clip(text: str, limit: int) -> str:
    """``text`` with its middle left out where it is longer than ``limit`` characters."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]} [... {len(text) - limit} characters left out ...] {text[-tail:]}"


def render_value(value: Any, limit: int = MAX_PAYLOAD_CHARS) -> str:
    """A tool's input or output: JSON, or the text itself, with media and excess left out."""
    if isinstance(value, str):
        text = value
    else:
        try:
            text = dump_json(value)
        except (TypeError, ValueError):
            text = str(value)
    text = _DATA_URL.sub(lambda found: f"[media {found.group(1) or 'data'}]", text)
    return clip(text, limit)


def render_part(part: Mapping[str, Any], limit: int = MAX_PAYLOAD_CHARS) -> str:
    """One part as text; '' where it has nothing for a summary."""
    kind = str(part.get("type", ""))
    if kind == "text":
        return str(part.get("text") or "").strip()
    if kind in ("reasoning", "step-start", "step-finish"):
        return ""
    if is_tool_part(part):
        return _render_tool(part, limit)
    if kind in ("file", "image", "audio", "source-document"):
        return _render_media(part, kind)
    if kind == "source-url":
        return f"[source {part.get('title') or ''} {part.get('url') or ''}]"
    for key in ("text", "data", "result"):
        if part.get(key) is not None:
            return f"[{kind}] {render_value(part[key], limit)}"
    return ""


def _render_tool(part: Mapping[str, Any], limit: int) -> str:
    name = tool_name(part) or "unknown"
    lines = [f"[tool {name}]"]
    if part.get("input") is not None:
        lines.append(f"input: {render_value(part['input'], limit)}")
    state = part.get("state")
    if part.get("errorText") is not None or state == "output-error":
        lines.append(f"ERROR: {clip(str(part.get('errorText') or 'failed'), _MAX_ERROR_CHARS)}")
    elif state == "output-denied":
        lines.append("DENIED by the user")
    elif has_result(part):
        output = part.get("output")
        lines.append(
            f"output: {render_value(part.get('result') if output is None else output, limit)}"
        )
    elif state == "approval-requested":
        lines.append("(waiting for the user's approval)")
    else:
        lines.append("(no result)")
    return "\n".join(lines)


def _render_media(part: Mapping[str, Any], kind: str) -> str:
    name = part.get("filename") or part.get("name") or part.get("title")
    media_type = part.get("mediaType") or part.get("mimeType") or kind
    return f"[file {media_type}{f' {name}' if name else ''}]"


def render_message(message: Mapping[str, Any], limit: int = MAX_PAYLOAD_CHARS) -> str:
    """One message: its role in brackets, then its parts; '' when nothing is left to show."""
    parts = [text for part in message.get("parts", ()) if (text := render_part(part, limit))]
    if not parts:
        return ""
    return f"[{message.get('role', 'unknown')}]\n" + "\n".join(parts)


def render_transcript(messages: Iterable[Mapping[str, Any]], limit: int = MAX_PAYLOAD_CHARS) -> str:
    """Messages one below the other, with a line of dashes between them."""
    return "\n---\n".join(text for message in messages if (text := render_message(message, limit)))


def split_transcript(
    messages: Iterable[Mapping[str, Any]], max_tokens: int, limit: int = MAX_PAYLOAD_CHARS
) -> Iterator[str]:
    """The transcript in pieces of at most about ``max_tokens`` each, in order, nothing left out.

    Pieces end between messages. A message larger than a piece is itself given in parts.
    """
    max_tokens = max(50, max_tokens)
    piece: list[str] = []
    used = 0
    for message in messages:
        text = render_message(message, limit)
        if not text:
            continue
        cost = count_string_tokens(text) + 2
        if piece and used + cost > max_tokens:
            yield "\n---\n".join(piece)
            piece, used = [], 0
        if cost > max_tokens:
            yield from _split_text(text, max_tokens)
            continue
        piece.append(text)
        used += cost
    if piece:
        yield "\n---\n".join(piece)


def _split_text(text: str, max_tokens: int) -> Iterator[str]:
    """Parts of one long text, each within ``max_tokens``."""
    header, _, body = text.partition("\n")
    # Scripts differ in characters for a token: measured on this text.
    chars_per_token = len(body) / max(1, count_string_tokens(body))
    size = max(_MIN_PIECE_CHARS, int(max_tokens * chars_per_token * 0.8))
    for number, start in enumerate(range(0, len(body), size)):
        label = header if number == 0 else f"{header} (continued)"
        yield f"{label}\n{body[start : start + size]}"
