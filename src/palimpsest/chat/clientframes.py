"""What clients send: each chat frame, and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palimpsest.actor.connections import Connection
from palimpsest.chat import frames
from palimpsest.chat.frames import (
    CancelRequest,
    ChatRequest,
    ClearRequest,
    FrameError,
    ResponseFrames,
    ResumeAck,
    ResumeRequest,
    SetMessages,
    ToolApproval,
    ToolResult,
    parse_client_frame,
)
from palimpsest.chat.lane import Lane
from palimpsest.chat.reconcile import apply_approval, apply_result, waits_for_client
from palimpsest.chat.resume import acknowledge, answer_probe, live_turn
from palimpsest.errors import InvalidMessageError
from palimpsest.messages import Part, is_compaction_message, validate_message

if TYPE_CHECKING:
    from palimpsest.chat.agent import ChatAgent

READONLY = "This connection may read along, but not write."
"""What a readonly connection is told that sends a message."""


async def take(agent: ChatAgent, connection: Connection, frame: Mapping[str, Any]) -> bool:
    """Do what a frame asks for; whether it was one of the chat's."""
    try:
        parsed = parse_client_frame(frame)
    except FrameError as error:
        agent.events.count("chat.frame.invalid")
        if error.request_id is not None:
            connection.send(ResponseFrames(error.request_id).error(str(error)))
        return True
    if parsed is None:
        return False
    if connection.readonly and not isinstance(parsed, ResumeRequest | ResumeAck):
        agent.events.count("chat.frame.readonly")
        if isinstance(parsed, ChatRequest):
            connection.send(ResponseFrames(parsed.request_id).error(READONLY))
        return True
    lane = agent.lane(connection.session_id)
    match parsed:
        case ChatRequest():
            await _submit(lane, connection, parsed)
        case CancelRequest(request_id=request_id):
            lane.cancel(request_id)
        case ClearRequest():
            await clear(lane, [connection.id])
        case SetMessages():
            await set_messages(lane, connection, parsed)
        case ResumeRequest(probe_id=probe_id):
            answer_probe(lane, connection, probe_id)
        case ResumeAck(request_id=request_id):
            await acknowledge(lane, connection, request_id)
        case ToolResult():
            await take_tool_result(lane, connection, parsed)
        case ToolApproval():
            await take_approval(lane, connection, parsed)
    return True


async def _submit(lane: Lane, connection: Connection, request: ChatRequest) -> None:
    """Whatever fails, the client that asked is told: it would wait for its answer for ever."""
    try:
        await lane.submit(request, connection)
    except Exception as error:
        await lane.agent.report("chat.request.failed", error, connection)
        frame = ResponseFrames(request.request_id).error(lane.agent.error_text(error))
        connection.send(frame)


async def clear(lane: Lane, exclude: list[str] | None = None) -> None:
    """Stop what runs, remove the messages and their streams, and tell the others.

    What is sent while the running turn still ends came after, and is answered afterwards.
    """
    with lane.paused():
        await lane.stop_all()
        await lane.conversation.session.clear_messages()
        lane.agent.turns.clear(lane.session_id, keep_waiting=True)
        lane.broadcast(frames.chat_clear(), exclude or [])
    lane.agent.tell_sessions_changed(lane.session_id)


async def set_messages(lane: Lane, connection: Connection, frame: SetMessages) -> None:
    """A client shows another transcript: the branch that ends with its last known message.

    Nothing is deleted: messages that it left out stay reachable as another branch. An empty list
    clears the session. Messages that the store lacks are appended.
    """
    if not frame.messages:
        await clear(lane, [connection.id])
        return
    if lane.is_busy:
        return  # the running turn's own transcript follows
    session = lane.conversation.session
    known: str | None = None
    added: list[dict[str, Any]] = []
    for message in frame.messages:
        if is_compaction_message(message):
            continue
        stored = await session.get_message(str(message["id"]))
        if stored is not None:
            known = str(message["id"])
            added.clear()
        else:
            added.append(message)
    try:
        for message in added:
            validate_message(message)
    except InvalidMessageError:
        connection.send(await lane.conversation.transcript_frame())
        return
    if added:
        lane.agent.keep_session(lane.session_id)
        await lane.conversation.append(added, known)
    elif known is not None:
        lane.conversation.show(known)
    await lane.broadcast_transcript([connection.id])


async def take_tool_result(lane: Lane, connection: Connection, result: ToolResult) -> None:
    """A client's tool has run: the first result stands, a second one changes nothing."""

    def apply(part: Part) -> Part | None:
        if lane.conversation.runs_here(part):
            return None
        return apply_result(part, result.state, result.output, result.error_text)

    active = live_turn(lane)
    if active is not None:
        part = active.live.accumulator.tool_part(result.tool_call_id)
        if part is not None and not active.live.accumulator.is_of_base(result.tool_call_id):
            if result.tool_call_id in active.turn.own_calls:
                return
            answered = apply(part)
            if answered is not None:
                active.live.emit(_result_chunk(answered))
            active.answered_by(connection.id, result.auto_continue)
            return
    await _answer_call(lane, connection, result.tool_call_id, apply, result)


async def take_approval(lane: Lane, connection: Connection, approval: ToolApproval) -> None:
    """A person has allowed or refused a call."""

    def apply(part: Part) -> Part | None:
        return apply_approval(part, approval.approved, approval.reason)

    await _answer_call(lane, connection, approval.tool_call_id, apply, approval)


async def _answer_call(
    lane: Lane,
    connection: Connection,
    tool_call_id: str,
    apply: Any,
    frame: ToolResult | ToolApproval,
) -> None:
    found = await lane.conversation.find_tool_call(tool_call_id)
    if found is None:
        return
    answered = apply(found.part)
    if answered is None:
        connection.send(frames.message_updated(found.message))
        return
    message = found.with_part(answered)
    await lane.conversation.session.update_message(message)
    lane.broadcast(frames.message_updated(message))
    if frame.auto_continue and not waits_for_client(message):
        tools = frame.client_tools if isinstance(frame, ToolResult) else []
        await lane.continue_answer(message, connection, tools)


def _result_chunk(answered: Part) -> dict[str, Any]:
    chunk: dict[str, Any] = {"toolCallId": answered["toolCallId"]}
    if answered["state"] == "output-error":
        return {"type": "tool-output-error", **chunk, "errorText": answered["errorText"]}
    return {"type": "tool-output-available", **chunk, "output": answered["output"]}
