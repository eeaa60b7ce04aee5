"""Clients that come back: is there a stream to take up, one to wait for, or an end to be told?"""

from __future__ import annotations

from palimpsest.actor.connections import Connection
from palimpsest.chat import frames
from palimpsest.chat.frames import ResponseFrames
from palimpsest.chat.lane import Lane
from palimpsest.chat.running import ActiveTurn
from palimpsest.chat.streams import replay
from palimpsest.chat.turns import APPEND_ONLY, CONTINUE
from palimpsest.store import turns as rows
from palimpsest.store.turns import StoredTurn

INTERRUPTED = "The answer was interrupted; what was written of it has been kept."


def live_turn(lane: Lane) -> ActiveTurn | None:
    """The running turn, while its stream has not ended."""
    active = lane.active
    return None if active is None or active.live.ended else active


async def greet(lane: Lane, connection: Connection) -> None:
    """Tell a new connection where the session stands."""
    known = lane.agent.turns.see_client(lane.session_id, connection.id, lane.agent.host.now())
    if lane.recovering is not None:
        connection.send(frames.chat_recovering(True, lane.recovering))
    active = live_turn(lane)
    if active is not None:
        active.live.targets_changed()
        if not _owned_by_another(lane, active, connection):
            active.live.offer(connection)
            connection.send(frames.stream_resuming(active.row.request_id))
        return
    waiting = _expected(lane)
    if waiting is not None:
        lane.parked[connection.socket] = (connection, None)
        connection.send(frames.stream_pending(waiting))
        return
    ended = undelivered(lane)
    if ended is None and not known:
        ended = await failed_last(lane)
        if ended is not None:
            lane.owed[connection.socket] = ended
    if ended is not None:
        connection.send(frames.stream_resuming(ended.request_id))
    elif known:
        # It missed what happened while it was away.
        connection.send(await lane.conversation.transcript_frame(connect=True))


def answer_probe(lane: Lane, connection: Connection, probe_id: str | None) -> None:
    """Answer ``cf_agent_stream_resume_request`` (wire protocol document, section 2.7)."""
    active = live_turn(lane)
    if active is not None:
        if _owned_by_another(lane, active, connection):
            connection.send(frames.resume_none(probe_id, "continuation-owned"))
            return
        active.live.offer(connection)
        connection.send(frames.stream_resuming(active.row.request_id, probe_id))
        return
    waiting = _expected(lane)
    if waiting is not None:
        lane.parked[connection.socket] = (connection, probe_id)
        connection.send(frames.stream_pending(waiting, probe_id))
        return
    ended = undelivered(lane) or lane.owed.get(connection.socket)
    if ended is not None:
        connection.send(frames.stream_resuming(ended.request_id, probe_id))
        return
    connection.send(frames.resume_none(probe_id, "idle"))


async def acknowledge(lane: Lane, connection: Connection, request_id: str) -> None:
    """Replay the stream that the connection acknowledged, then let it follow live."""
    active = live_turn(lane)
    if active is not None and active.row.request_id == request_id:
        if not await active.live.join(connection):
            row = lane.agent.turns.get(lane.session_id, request_id)
            if row is not None:
                await _send_end(lane, connection, row)
        return
    row = lane.agent.turns.get(lane.session_id, request_id)
    if row is None:
        connection.send(ResponseFrames(request_id).done(rows.COMPLETED, replay=True))
        return
    if row.is_open:
        return  # the turn's own frames follow
    owed = lane.owed.pop(connection.socket, None)
    told_again = row.delivered and owed is not None and owed.turn == row.turn
    if row.trigger != CONTINUE and not told_again:  # a new view has what was stored of the answer
        await replay(lane.agent.streams.read(row.turn), connection, ResponseFrames(request_id))
    await _send_end(lane, connection, row)


async def _send_end(lane: Lane, connection: Connection, row: StoredTurn) -> None:
    """Tell a connection how a turn ended that it was replayed.

    After a continuation the conversation is sent, too, and its chunks are not where it had ended
    already: its text is part of an earlier message, and a client that has that message whole would
    show the chunks a second time.
    """
    answer = ResponseFrames(row.request_id, continuation=row.trigger == CONTINUE)
    if row.trigger == CONTINUE:
        connection.send(await lane.conversation.transcript_frame(lane.waiting_messages()))
    if row.status == rows.ERROR:
        text = row.error or INTERRUPTED
        connection.send(answer.error(text, row.message_ids, replay=True))
    else:
        connection.send(answer.done(row.status, row.message_ids, replay=True))
    lane.agent.turns.mark_delivered(row.turn)


def undelivered(lane: Lane) -> StoredTurn | None:
    """The session's newest turn, if it failed and nobody has been told."""
    newest = lane.agent.turns.newest(lane.session_id)
    if newest is None or newest.status != rows.ERROR or newest.delivered:
        return None
    return newest


async def failed_last(lane: Lane) -> StoredTurn | None:
    """The session's newest turn, if it failed and the conversation still ends there.

    A view that is opened later, a page that is loaded anew say, is told of it once: otherwise it
    would show a question without an answer, and no reason.
    """
    newest = lane.agent.turns.newest(lane.session_id)
    if newest is None or newest.status != rows.ERROR:
        return None
    leaf = await lane.conversation.leaf_id()
    asked = newest.message_ids[-1] if newest.message_ids else None
    if leaf in (asked, newest.message_id):
        return newest
    # Where even the question could not be stored, the error is all that is left of it.
    is_lost = asked is not None and await lane.conversation.session.get_message(asked) is None
    return newest if is_lost else None


def _expected(lane: Lane) -> str | None:
    """The request whose stream is to begin next."""
    if lane.recovering is not None:
        return lane.recovering
    waiting = (turn for turn in lane.waiting() if turn.trigger != APPEND_ONLY)
    return next((turn.request_id for turn in waiting), None)


def _owned_by_another(lane: Lane, active: ActiveTurn, connection: Connection) -> bool:
    """Whether the running continuation belongs to another connection that is still there."""
    owner = active.row.connection_id
    if active.row.trigger != CONTINUE or owner is None or owner == connection.id:
        return False
    return any(other.id == owner for other in lane.connections)
