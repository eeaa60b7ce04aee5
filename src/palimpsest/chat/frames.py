"""The chat protocol's frames: what clients send, parsed and checked; what they are sent, built.

Names and fields are those of the ``agents`` client protocol (wire protocol document, sections 2.4
and 2.8). Parsing is pure and total: every mapping gives a frame, None (not a chat frame, or not
one for us), or a :class:`FrameError` that says which field is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import Any, cast

from palimpsest.errors import PalimpsestError
from palimpsest.json_input import load_json
from palimpsest.messages import Message, dump_json

MAX_FRAME_ID_LENGTH = 256
"""The longest request, probe or tool call id that a client may choose, in characters."""

MAX_CLIENT_TOOLS = 128
"""The most tools that one client may bring to a turn."""

TRIGGERS = ("submit-message", "regenerate-message")

CHAT_REQUEST = "cf_agent_use_chat_request"
CHAT_RESPONSE = "cf_agent_use_chat_response"
CHAT_CANCEL = "cf_agent_chat_request_cancel"
CHAT_CLEAR = "cf_agent_chat_clear"
CHAT_MESSAGES = "cf_agent_chat_messages"
MESSAGE_UPDATED = "cf_agent_message_updated"
RESUME_REQUEST = "cf_agent_stream_resume_request"
RESUME_ACK = "cf_agent_stream_resume_ack"
RESUME_NONE = "cf_agent_stream_resume_none"
STREAM_RESUMING = "cf_agent_stream_resuming"
STREAM_PENDING = "cf_agent_stream_pending"
TOOL_RESULT = "cf_agent_tool_result"
TOOL_APPROVAL = "cf_agent_tool_approval"
CHAT_RECOVERING = "cf_agent_chat_recovering"
SESSION = "cf_agent_session"
SESSION_ERROR = "cf_agent_session_error"


class FrameError(PalimpsestError, ValueError):
    """A chat frame with a missing or wrong field; ``request_id`` is the request it belongs to."""

    def __init__(self, text: str, request_id: str | None = None) -> None:
        super().__init__(text)
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A turn is asked for. ``messages`` is the transcript as the client sees it."""

    request_id: str
    messages: list[Message]
    trigger: str
    client_tools: list[dict[str, Any]]
    body: dict[str, Any]
    """The client's own keys, without ``messages``, ``trigger`` and ``clientTools``."""


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """Stop the turn of this request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ClearRequest:
    """Remove the session's messages."""


@dataclass(frozen=True, slots=True)
class SetMessages:
    """The client replaced its transcript."""

    messages: list[Message]


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """Is there a stream to take up? Older clients send no probe id."""

    probe_id: str | None


@dataclass(frozen=True, slots=True)
class ResumeAck:
    """The client is ready for the replay of this request's stream."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The client ran a tool of its own."""

    tool_call_id: str
    tool_name: str
    state: str
    output: Any
    error_text: str | None
    auto_continue: bool
    client_tools: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """A person allowed or refused a tool call."""

    tool_call_id: str
    approved: bool
    auto_continue: bool
    reason: str | None = None


ClientFrame = (
    ChatRequest
    | CancelRequest
    | ClearRequest
    | SetMessages
    | ResumeRequest
    | ResumeAck
    | ToolResult
    | ToolApproval
)


def parse_client_frame(frame: Mapping[str, Any]) -> ClientFrame | None:
    """The chat frame in a parsed JSON object; None if it is none.

    :raises FrameError: it is a chat frame with a missing or wrong field.
    """
    kind = frame.get("type")
    parse = _PARSERS.get(kind) if isinstance(kind, str) else None
    return None if parse is None else parse(frame)


def parse_chat_body(body: Mapping[str, Any], request_id: str) -> ChatRequest:
    """The turn that a request body asks for (the socket frame's and the HTTP endpoint's).

    :raises FrameError: ``messages``, ``trigger`` or ``clientTools`` are not what they must be.
    """
    own = dict(body)
    messages = _messages(own.pop("messages", None), request_id)
    trigger = own.pop("trigger", None)
    if trigger is None:
        trigger = "submit-message"
    if trigger not in TRIGGERS:
        raise FrameError(f"'trigger' must be one of {', '.join(TRIGGERS)}", request_id)
    tools = _client_tools(own.pop("clientTools", None), request_id)
    return ChatRequest(request_id, messages, str(trigger), tools, own)


def _chat_request(frame: Mapping[str, Any]) -> ChatRequest | None:
    request_id = _identifier(frame, "id")
    init = frame.get("init")
    if not isinstance(init, Mapping):
        raise FrameError("'init' must be an object", request_id)
    settings = cast("Mapping[str, Any]", init)
    if settings.get("method") != "POST":
        return None
    text = settings.get("body")
    if not isinstance(text, str):
        raise FrameError("'init.body' must be a string of JSON", request_id)
    try:
        body = load_json(text)
    except ValueError as error:
        raise FrameError(f"'init.body' is not JSON: {error}", request_id) from None
    if not isinstance(body, dict):
        raise FrameError("'init.body' must hold a JSON object", request_id)
    return parse_chat_body(cast("dict[str, Any]", body), request_id)


def _cancel(frame: Mapping[str, Any]) -> CancelRequest:
    return CancelRequest(_identifier(frame, "id"))


def _clear(_frame: Mapping[str, Any]) -> ClearRequest:
    return ClearRequest()


def _set_messages(frame: Mapping[str, Any]) -> SetMessages:
    return SetMessages(_messages(frame.get("messages"), None))


def _resume_request(frame: Mapping[str, Any]) -> ResumeRequest:
    if frame.get("probeId") is None:
        return ResumeRequest(None)
    return ResumeRequest(_identifier(frame, "probeId"))


def _resume_ack(frame: Mapping[str, Any]) -> ResumeAck:
    return ResumeAck(_identifier(frame, "id"))


def _tool_result(frame: Mapping[str, Any]) -> ToolResult:
    state = frame.get("state", "output-available")
    if state not in ("output-available", "output-error"):
        raise FrameError("'state' must be output-available or output-error")
    error_text = frame.get("errorText")
    if error_text is not None and not isinstance(error_text, str):
        raise FrameError("'errorText' must be a string")
    name = frame.get("toolName", "")
    if not isinstance(name, str):
        raise FrameError("'toolName' must be a string")
    return ToolResult(
        tool_call_id=_identifier(frame, "toolCallId"),
        tool_name=name,
        state=str(state),
        output=frame.get("output"),
        error_text=error_text,
        auto_continue=frame.get("autoContinue") is True,
        client_tools=_client_tools(frame.get("clientTools"), None),
    )


def _tool_approval(frame: Mapping[str, Any]) -> ToolApproval:
    approved = frame.get("approved")
    if not isinstance(approved, bool):
        raise FrameError("'approved' must be true or false")
    reason = frame.get("reason")
    return ToolApproval(
        tool_call_id=_identifier(frame, "toolCallId"),
        approved=approved,
        auto_continue=frame.get("autoContinue") is True,
        reason=reason if isinstance(reason, str) else None,
    )


_PARSERS = {
    CHAT_REQUEST: _chat_request,
    CHAT_CANCEL: _cancel,
    CHAT_CLEAR: _clear,
    CHAT_MESSAGES: _set_messages,
    RESUME_REQUEST: _resume_request,
    RESUME_ACK: _resume_ack,
    TOOL_RESULT: _tool_result,
    TOOL_APPROVAL: _tool_approval,
}


def check_frame_id(value: Any, field: str, longest: int = MAX_FRAME_ID_LENGTH) -> str:
    """The id, if a client may choose it.

    :raises FrameError: it is no text, empty, too long, or holds a lone surrogate.
    """
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise FrameError(f"{field!r} must be a string of 1 to {longest} characters")
    if not _is_well_formed(value):
        raise FrameError(f"{field!r} must be well-formed text")
    return value


def _identifier(frame: Mapping[str, Any], field: str) -> str:
    return check_frame_id(frame.get(field), field)


def _is_well_formed(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _messages(value: Any, request_id: str | None) -> list[Message]:
    if not isinstance(value, list):
        raise FrameError("'messages' must be an array", request_id)
    for index, item in enumerate(cast("list[Any]", value)):
        if not isinstance(item, dict):
            raise FrameError(f"message {index} must be an object", request_id)
        identifier = cast("dict[str, Any]", item).get("id")
        if not isinstance(identifier, str) or not _is_well_formed(identifier):
            raise FrameError(f"message {index} must have an 'id' of well-formed text", request_id)
    return cast("list[Message]", value)


def _client_tools(value: Any, request_id: str | None) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise FrameError("'clientTools' must be an array", request_id)
    tools = cast("list[Any]", value)
    if len(tools) > MAX_CLIENT_TOOLS:
        raise FrameError(
            f"'clientTools' has {len(tools)} tools, at most {MAX_CLIENT_TOOLS}", request_id
        )
    for index, tool in enumerate(tools):
        name = cast("dict[str, Any]", tool).get("name") if isinstance(tool, dict) else None
        if not isinstance(name, str) or not name:
            raise FrameError(f"client tool {index} must be an object with a 'name'", request_id)
    return cast("list[dict[str, Any]]", tools)


def quote(text: str) -> str:
    """A JSON string literal; lone surrogates stay escaped, for UTF-8 cannot carry them."""
    if text.isascii():
        return encode_basestring_ascii(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return encode_basestring_ascii(text)
    return encode_basestring(text)


def encode_chunk(chunk: Mapping[str, Any]) -> str:
    """The JSON of one UI message chunk.

    A text delta, nearly every chunk of a turn, is put together without the general encoder.

    :raises ValueError: the chunk holds NaN or an infinity.
    :raises TypeError: the chunk holds something that JSON has no form for.
    """
    if len(chunk) == 3 and chunk["type"] == "text-delta":
        identifier, delta = chunk.get("id"), chunk.get("delta")
        if isinstance(identifier, str) and isinstance(delta, str):
            return f'{{"type":"text-delta","id":{quote(identifier)},"delta":{quote(delta)}}}'
    return dump_json(chunk)


class ResponseFrames:
    """Builds the ``cf_agent_use_chat_response`` frames of one request."""

    __slots__ = ("_head", "_tail", "continuation", "request_id")

    def __init__(self, request_id: str, *, continuation: bool = False) -> None:
        self.request_id = request_id
        self.continuation = continuation
        self._head = f'{{"type":"{CHAT_RESPONSE}","id":{quote(request_id)},"body":'
        self._tail = ',"continuation":true}' if continuation else "}"

    def chunk(self, body: str, sequence: int) -> str:
        """The frame of a live chunk; ``body`` is the chunk's JSON."""
        return f'{self._head}{quote(body)},"done":false,"seq":{sequence}{self._tail}'

    def replayed(self, body: str, sequence: int) -> str:
        """The frame of a stored chunk."""
        return f'{self._head}{quote(body)},"done":false,"replay":true,"seq":{sequence}{self._tail}'

    def replay_complete(self) -> str:
        """All stored chunks were sent; live frames follow."""
        return f'{self._head}"","done":false,"replay":true,"replayComplete":true{self._tail}'

    def done(self, outcome: str, message_ids: Sequence[str] = (), *, replay: bool = False) -> str:
        """The terminal frame. Outcomes: completed, error, aborted, skipped, recovering."""
        fields = f'"done":true,"outcome":"{outcome}"'
        if message_ids:
            fields += f',"messageIds":{dump_json(list(message_ids))}'
        if replay:
            fields += ',"replay":true'
        return f'{self._head}"",{fields}{self._tail}'

    def done_with(self, text: str, message_ids: Sequence[str] = ()) -> str:
        """The terminal frame of a turn that gave no chunk; ``text`` says so."""
        ids = f',"messageIds":{dump_json(list(message_ids))}' if message_ids else ""
        return f'{self._head}{quote(text)},"done":true,"outcome":"completed"{ids}{self._tail}'

    def error(self, text: str, message_ids: Sequence[str] = (), *, replay: bool = False) -> str:
        """The terminal frame of a failed turn: ``text`` is shown to people."""
        fields = '"error":true,"done":true,"outcome":"error"'
        if message_ids:
            fields += f',"messageIds":{dump_json(list(message_ids))}'
        if replay:
            fields += ',"replay":true'
        return f"{self._head}{quote(text)},{fields}{self._tail}"


def chat_messages(messages_json: Sequence[str], *, connect: bool = False) -> str:
    """The transcript, of messages that are JSON already."""
    tail = ',"connect":true}' if connect else "}"
    return f'{{"type":"{CHAT_MESSAGES}","messages":[{",".join(messages_json)}]{tail}'


def message_updated(message: Message) -> str:
    """One message changed."""
    return f'{{"type":"{MESSAGE_UPDATED}","message":{dump_json(message)}}}'


def chat_clear() -> str:
    """The messages were removed."""
    return f'{{"type":"{CHAT_CLEAR}"}}'


def resume_none(probe_id: str | None = None, reason: str | None = None) -> str:
    """There is no stream to take up. Reasons: idle, continuation-owned."""
    return _frame(RESUME_NONE, reason=reason, probeId=probe_id)


def stream_resuming(request_id: str, probe_id: str | None = None) -> str:
    """A stream can be taken up: answer with an acknowledgement."""
    return _frame(STREAM_RESUMING, id=request_id, probeId=probe_id)


def stream_pending(request_id: str | None = None, probe_id: str | None = None) -> str:
    """A turn was accepted whose stream has not begun."""
    return _frame(STREAM_PENDING, id=request_id, probeId=probe_id)


def chat_recovering(recovering: bool, request_id: str | None = None) -> str:
    """An interrupted turn is being taken up again, or no longer."""
    return _frame(CHAT_RECOVERING, recovering=recovering, id=request_id)


def _frame(kind: str, **fields: Any) -> str:
    present = {name: value for name, value in fields.items() if value is not None}
    return dump_json({"type": kind, **present})
