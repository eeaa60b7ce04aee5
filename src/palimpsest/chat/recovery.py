"""Turns that an eviction, a deploy or a crash cut off.

At the next wake they are found as rows that still say ``running``. What was stored of the answer is
shown at once. Then, by policy, the turn is closed with an honest error, or taken up again in its
own place: finished steps with their tool results stay, a text that broke off is written anew. A
turn that is cut off again and again is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from json import loads
from typing import TYPE_CHECKING, Any, Literal, cast

from palimpsest.chat import frames
from palimpsest.chat.accumulator import INTERRUPTED_TOOL, Chunk, MessageAccumulator
from palimpsest.chat.frames import ResponseFrames, encode_chunk
from palimpsest.chat.lane import Lane
from palimpsest.chat.resume import INTERRUPTED
from palimpsest.chat.running import drive, open_turn
from palimpsest.chat.turns import BASE_PARTS, BEGUN, CONTINUE, Turn
from palimpsest.messages import Message, Part
from palimpsest.store import turns as rows
from palimpsest.store.turns import StoredTurn

if TYPE_CHECKING:
    from palimpsest.chat.agent import ChatAgent

Recovery = Literal["continue", "close"]

MAX_ATTEMPTS = 3
"""How often a turn is taken up again before it is closed."""


@dataclass(slots=True)
class Kept:
    """What stays of an interrupted answer."""

    bodies: list[str]
    """Its stored chunks that stay, as JSON."""
    finished: bool
    """Whether the answer was whole: only its end was not recorded."""
    resumable: bool
    """Whether finished steps are among them."""


def what_stays(bodies: list[str]) -> Kept:
    """Cut a broken-off stream back to the point from which it can be taken up.

    A last step that called a tool stays, for the tool may have done its work; a last step that is
    only text or reasoning goes, and is written anew.
    """
    kinds = [_kind(body) for body in bodies]
    if "finish" in kinds:
        return Kept(bodies, finished=True, resumable=True)
    boundary = 0
    for index, kind in enumerate(kinds):
        if kind == "finish-step":
            boundary = index + 1
    called = any(kind.startswith("tool-") for kind in kinds[boundary:])
    if called:
        return Kept(bodies, finished=False, resumable=True)
    if boundary:
        return Kept(bodies[:boundary], finished=False, resumable=True)
    head = next((index for index, kind in enumerate(kinds) if kind == "start"), -1)
    return Kept(bodies[: head + 1], finished=False, resumable=False)


async def recover(agent: ChatAgent) -> None:
    """Find what was cut off and close it or take it up; wake the lanes in which turns wait."""
    sessions: dict[str, Lane] = {}
    for row in agent.turns.open_turns():
        lane = sessions.setdefault(row.session_id, agent.lane(row.session_id))
        if row.status == rows.RUNNING:
            await _recover_turn(lane, row)
    for lane in sessions.values():
        if lane.recovering is None:
            lane.wake()


async def _recover_turn(lane: Lane, row: StoredTurn) -> None:
    agent = lane.agent
    stored = list(agent.streams.read(row.turn))
    bodies = [body for _, body in stored]
    message_id = row.message_id or agent.new_answer_id()
    parent, base = await _place(lane, row)
    whole = _accumulated(message_id, bodies, base)
    kept = what_stays(bodies)
    resumed = agent.recovery == "continue" and row.attempts < MAX_ATTEMPTS
    if not whole.is_empty or base is not None:
        partial = MessageAccumulator(message_id, base)
        _feed(partial, bodies)
        partial.interrupt_tools(True)
        await lane.conversation.save_answer(partial.message(), parent)
    if kept.finished or not resumed:
        await _close(lane, row, kept, whole)
        return
    agent.turns.interrupted(row.turn, row.base_id)
    lane.begin_recovery(row.request_id)
    agent.host.spawn(
        _take_up(lane, row, kept, message_id, parent, base, stored),
        name=f"chat:{lane.session_id}:recovery",
    )


async def _place(lane: Lane, row: StoredTurn) -> tuple[str | None, Message | None]:
    """The message that the answer stands behind, and the answer that the turn continued."""
    request = lane.agent.turns.request(row.turn)
    session = lane.conversation.session
    if row.base_id is not None:
        base = await session.get_message(row.base_id)
        if base is None:
            return None, None
        # What is stored may hold what this very turn added: its chunks will add it again.
        before = {**base, "parts": base["parts"][: request.get(BASE_PARTS)]}
        return await session.get_parent_id(row.base_id), _settled(before, request.get(BEGUN, []))
    messages: list[Message] = request.get("messages", [])
    if messages:
        return str(messages[-1]["id"]), None
    answer_to = request.get("answerTo")
    return (answer_to if isinstance(answer_to, str) else None), None


def _settled(base: Message, begun: Sequence[str]) -> Message:
    """The message, with an error for each approved call that had begun and whose result is lost."""

    def settled(part: Part) -> Part:
        if part.get("state") != "approval-responded" or part.get("toolCallId") not in begun:
            return part
        return {**part, "state": "output-error", "errorText": INTERRUPTED_TOOL}

    return {**base, "parts": [settled(part) for part in base["parts"]]}


async def _close(lane: Lane, row: StoredTurn, kept: Kept, whole: MessageAccumulator) -> None:
    """End the turn: completed if its answer was whole, else with an error that clients get."""
    agent = lane.agent
    now = agent.host.now()
    answer = ResponseFrames(row.request_id, continuation=row.trigger == CONTINUE)
    if kept.finished:
        agent.turns.finish(row.turn, rows.COMPLETED, now)
        terminal = answer.done(rows.COMPLETED, row.message_ids)
    else:
        closing = [encode_chunk(chunk) for chunk in whole.interrupt_tools(True)]
        if closing:
            agent.streams.append(row.turn, _next_number(lane, row), closing)
        agent.turns.finish(row.turn, rows.ERROR, now, error=INTERRUPTED, delivered=False)
        terminal = answer.error(INTERRUPTED, row.message_ids)
    if lane.connections:  # sockets that slept through an eviction
        await lane.broadcast_transcript()
        lane.broadcast(terminal)
        agent.turns.mark_delivered(row.turn)
    agent.events.count("chat.turn.closed")
    agent.plan_sweep()


def _next_number(lane: Lane, row: StoredTurn) -> int:
    last = -1
    for number, _ in lane.agent.streams.read(row.turn):
        last = number
    return last + 1


async def _take_up(
    lane: Lane,
    row: StoredTurn,
    kept: Kept,
    message_id: str,
    parent: str | None,
    base: Message | None,
    stored: list[tuple[int, str]],
) -> None:
    """Run the turn again from what stays of it."""
    agent = lane.agent
    if agent.turns.get(row.session_id, row.request_id) is None:
        lane.end_recovery()  # the session was cleared meanwhile
        return
    lane.broadcast(frames.chat_recovering(True, row.request_id))
    first = stored[-1][0] + 1 if stored else 0
    agent.streams.truncate(row.turn, len(kept.bodies))
    accumulator = _accumulated(message_id, kept.bodies, base, row.started_at)
    closing: list[Chunk] = []
    if kept.resumable:
        closing = accumulator.interrupt_tools(True)
        await lane.conversation.save_answer(accumulator.message(), parent)
    request: dict[str, Any] = agent.turns.request(row.turn)
    messages: list[Message] = request.get("messages", [])
    resumed_base = accumulator.message() if kept.resumable or base is not None else None
    turn = Turn(
        session=lane.conversation.session,
        session_id=lane.session_id,
        request_id=row.request_id,
        trigger=row.trigger,
        message=messages[-1] if messages else None,
        message_id=message_id,
        leaf_id=parent if resumed_base is None else message_id,
        base=resumed_base,
        client_tools=request.get("clientTools", []),
        body=request.get("body", {}),
        recovering=True,
    )
    active = open_turn(lane, row, turn, parent, resync=True, accumulator=accumulator, first=first)
    if len(kept.bodies) < len(stored):
        # Clients that slept through the interruption have the text that broke off: newer ones
        # drop it at this chunk, the others when the whole answer is shown at the end.
        active.live.send_frame(active.live.frames.chunk('{"type":"reset-step"}', first))
        active.live.count = first + 1
    for chunk in closing:
        active.live.emit_accepted(chunk)
    lane.recovering = None
    try:
        with agent.jobs.lease():
            await drive(lane, active)
    finally:
        lane.broadcast(frames.chat_recovering(False))
        lane.end_recovery()


def _accumulated(
    message_id: str, bodies: list[str], base: Message | None, created_at: int | None = None
) -> MessageAccumulator:
    accumulator = MessageAccumulator(message_id, base, created_at)
    _feed(accumulator, bodies)
    return accumulator


def _feed(accumulator: MessageAccumulator, bodies: list[str]) -> None:
    for body in bodies:
        try:
            accumulator.accept(loads(body))
        except ValueError:
            continue


def _kind(body: str) -> str:
    try:
        chunk = loads(body)
    except ValueError:
        return ""
    kind = cast("Chunk", chunk).get("type") if isinstance(chunk, dict) else None
    return kind if isinstance(kind, str) else ""
