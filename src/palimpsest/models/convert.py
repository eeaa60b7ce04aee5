"""Stored messages into what every provider understands: turns that alternate, calls with results.

Providers refuse a whole conversation for one call without a result, one result without a call, a
repeated id or an empty message. Histories have all of these: turns are interrupted, clients send
odd copies, compaction cuts. Here they are repaired in the request; what is stored stays as it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from urllib.parse import unquote_to_bytes

from palimpsest.messages import Message, Part, dump_json, is_tool_part, tool_name

NO_RESULT = "(no result: the call was interrupted)"
"""What a model is told of a call that never got a result."""

CONTINUE = "(Continue.)"
"""What follows an answer that is to be continued: providers answer a user, not themselves."""

EARLIER = "(The beginning of this conversation is not shown.)"
"""What precedes a conversation that begins with an answer."""

_BAD_NAME = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_ID = 40
_DATA_URL = re.compile(r"data:([^;,]*)((?:;[^;,]*)*),", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Text of a turn; never blank."""

    text: str


@dataclass(frozen=True, slots=True)
class FileBlock:
    """A file that a user sent; ``url`` may be a ``data:`` URL."""

    media_type: str
    url: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class ReasoningBlock:
    """Reasoning of an assistant's turn, with what its provider wants back."""

    text: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallBlock:
    """A call to a tool."""

    call_id: str
    name: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """The result of the call with the same id, as text."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


Block = TextBlock | FileBlock | ReasoningBlock | CallBlock | ResultBlock


@dataclass(slots=True)
class Turn:
    """What one side said; two neighbours never have the same role.

    A turn of role ``tool`` has the results of all calls of the assistant's turn before it.
    """

    role: Literal["user", "assistant", "tool"]
    blocks: list[Block] = field(default_factory=lambda: list[Block]())


def to_turns(messages: Sequence[Message]) -> list[Turn]:
    """The conversation as turns: it begins and ends with the user, or ends with results."""
    reader = _Reader(messages)
    for message in messages:
        reader.take(message)
    turns = _merge(reader.turns)
    if not turns or turns[0].role != "user":
        turns.insert(0, Turn("user", [TextBlock(EARLIER)]))
    if turns[-1].role == "assistant":
        turns.append(Turn("user", [TextBlock(CONTINUE)]))
    return turns


class _Reader:
    def __init__(self, messages: Sequence[Message]) -> None:
        self.turns: list[Turn] = []
        self._ids: set[str] = set()
        self._separate = _separate_results(messages)

    def take(self, message: Message) -> None:
        parts: Sequence[Part] = message.get("parts") or ()
        if message.get("role") == "assistant":
            for step in _steps(parts):
                self._take_step(step)
            return
        blocks: list[Block] = []
        for part in parts:
            blocks += _user_blocks(part)
        if blocks and message.get("role") not in ("user", "assistant"):
            blocks.insert(0, TextBlock(f"[{message.get('role')}]"))
        if blocks:
            self.turns.append(Turn("user", blocks))

    def _take_step(self, parts: Iterable[Part]) -> None:
        blocks: list[Block] = []
        results: list[Block] = []
        for part in parts:
            if is_tool_part(part):
                pair = self._pair(part)
                if pair is not None:
                    blocks.append(pair[0])
                    results.append(pair[1])
            else:
                blocks += _assistant_blocks(part)
        if any(not isinstance(block, ReasoningBlock) for block in blocks):
            self.turns.append(Turn("assistant", blocks))
        if results:
            self.turns.append(Turn("tool", results))

    def _pair(self, part: Part) -> tuple[CallBlock, ResultBlock] | None:
        """A call and its result; None for a part that only carries an earlier call's result."""
        fields = _plain_tool_fields(part)
        if part.get("type") == "tool-result":
            return None
        given = str(fields.get("toolCallId") or "call")
        identifier = _safe_id(given)
        number = 1
        while identifier in self._ids:
            number += 1
            identifier = _safe_id(f"{given}-{number}")
        self._ids.add(identifier)
        name = _BAD_NAME.sub("_", tool_name(fields))[:64] or "tool"
        text, is_error = _result_text(fields, self._separate.get(given))
        call = CallBlock(identifier, name, _input_object(fields.get("input")))
        return call, ResultBlock(identifier, name, text, is_error)


def _steps(parts: Sequence[Part]) -> list[list[Part]]:
    """An answer's parts by model step.

    Without ``step-start`` marks, whatever follows a call's result begins a new step.
    """
    marked = any(part.get("type") == "step-start" for part in parts)
    steps: list[list[Part]] = [[]]
    for part in parts:
        if part.get("type") == "step-start":
            steps.append([])
            continue
        follows_call = bool(steps[-1]) and is_tool_part(steps[-1][-1])
        if not marked and follows_call and not is_tool_part(part):
            steps.append([])
        steps[-1].append(part)
    return steps


def _separate_results(messages: Sequence[Message]) -> dict[str, Part]:
    """Results that stand in parts of their own, by call."""
    return {
        str(part.get("toolCallId")): part
        for message in messages
        for part in message.get("parts") or ()
        if part.get("type") == "tool-result"
    }


def _plain_tool_fields(part: Part) -> Part:
    """A tool part of an older AI SDK in today's fields."""
    inner = part.get("toolInvocation")
    fields: Part = dict(cast("Part", inner)) if isinstance(inner, Mapping) else dict(part)
    fields.setdefault("type", part.get("type"))
    for old, new in (("args", "input"), ("result", "output")):
        if new not in fields and old in fields:
            fields[new] = fields[old]
    return fields


def _result_text(fields: Part, separate: Part | None) -> tuple[str, bool]:
    state = fields.get("state")
    error = fields.get("errorText")
    if state == "output-denied":
        approval = fields.get("approval")
        reason = (
            cast("Mapping[str, Any]", approval).get("reason")
            if isinstance(approval, Mapping)
            else None
        )
        return "The user denied this call." + (f" Reason: {reason}" if reason else ""), True
    if state == "output-error" or (error and "output" not in fields):
        return f"Error: {error or 'the tool failed'}", True
    if "output" in fields:
        return _output_text(fields["output"]), False
    if separate is not None:
        output = separate.get("output", separate.get("result"))
        return _output_text(output), bool(separate.get("isError"))
    return NO_RESULT, True


def _output_text(output: Any) -> str:
    if isinstance(output, str):
        return output or "(empty)"
    try:
        return dump_json(output)
    except (TypeError, ValueError):
        return str(output)


def _input_object(value: Any) -> dict[str, Any]:
    """Arguments as an object: providers refuse anything else, even in a call that failed."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    return {} if value is None else {"value": value}


def _safe_id(identifier: str) -> str:
    if len(identifier) <= _MAX_ID and not _BAD_NAME.search(identifier):
        return identifier
    digest = hashlib.sha256(identifier.encode("utf-8", "surrogatepass")).hexdigest()
    return f"call_{digest[:24]}"


def _assistant_blocks(part: Part) -> list[Block]:
    kind, text = part.get("type"), part.get("text")
    if kind == "text" and isinstance(text, str) and text.strip():
        return [TextBlock(text)]
    if kind == "reasoning":
        metadata = _mapping(part.get("providerMetadata"))
        return [ReasoningBlock(text if isinstance(text, str) else "", metadata)]
    if kind == "file":
        return [TextBlock(f"[file made: {_file_label(part)}]")]
    return []


def _user_blocks(part: Part) -> list[Block]:
    kind, text = part.get("type"), part.get("text")
    if kind == "text":
        return [TextBlock(text)] if isinstance(text, str) and text.strip() else []
    if kind != "file":
        return []
    url, media_type = part.get("url"), str(part.get("mediaType") or part.get("mimeType") or "")
    if not isinstance(url, str) or not url:
        return [TextBlock(f"[file: {_file_label(part)}, its content is not available]")]
    name = str(part.get("filename") or "")
    if media_type.startswith("text/") or media_type in ("application/json", "application/xml"):
        content = read_data_url(url)
        if content is not None:
            label = name or media_type
            return [TextBlock(f"[file {label}]\n{content[1].decode('utf-8', 'replace')}")]
    return [FileBlock(media_type or "application/octet-stream", url, name)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _file_label(part: Part) -> str:
    name = part.get("filename")
    kind = part.get("mediaType") or "unknown type"
    return f"{name} ({kind})" if name else str(kind)


def file_marker(block: FileBlock) -> TextBlock:
    """What stands for a file that a model cannot take."""
    label = f"{block.name} ({block.media_type})" if block.name else block.media_type
    return TextBlock(f"[file: {label}; this model cannot read it]")


def read_data_url(url: str) -> tuple[str, bytes] | None:
    """The media type and content of a ``data:`` URL; None for any other or a broken one."""
    match = _DATA_URL.match(url)
    if match is None:
        return None
    content = url[match.end() :]
    try:
        if ";base64" in match.group(2):
            return match.group(1), base64.b64decode(unquote_to_bytes(content), validate=False)
        return match.group(1), unquote_to_bytes(content)
    except (binascii.Error, ValueError):
        return None


def base64_of(url: str) -> tuple[str, str] | None:
    """The media type and base64 text of a ``data:`` URL; None for any other."""
    match = _DATA_URL.match(url)
    if match is None:
        return None
    if ";base64" in match.group(2):
        return match.group(1), url[match.end() :]
    read = read_data_url(url)
    return None if read is None else (read[0], base64.b64encode(read[1]).decode())


def _merge(turns: Sequence[Turn]) -> list[Turn]:
    """Neighbours of one role become one turn. Results stay with their own calls."""
    merged: list[Turn] = []
    for turn in turns:
        if merged and merged[-1].role == turn.role and turn.role != "tool":
            merged[-1].blocks += turn.blocks
        else:
            merged.append(Turn(turn.role, list(turn.blocks)))
    return merged
