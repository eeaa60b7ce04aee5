"""The list of sessions over plain HTTP: list, new, rename, fork, delete with undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palimpsest.actor.http import json_response
from palimpsest.chat.clientframes import clear
from palimpsest.chat.conversation import NEW_NAME
from palimpsest.chat.endpoints import Call, RequestError, Route, route
from palimpsest.errors import UnknownSessionError
from palimpsest.hosts.interface import HttpResponse
from palimpsest.jobs import Job
from palimpsest.messages import text_of
from palimpsest.session.manager import MAX_PAGE
from palimpsest.store.sessions import SessionInfo

if TYPE_CHECKING:
    from palimpsest.chat.agent import ChatAgent

UNDO_MS = 30_000
"""How long a deleted session can be brought back, in ms."""

DELETE_JOB = "chat:delete"


async def list_sessions(call: Call) -> HttpResponse:
    """A page of sessions, the one used last first; the default session is always to be found.

    ``next`` in the answer is the query parameter ``after`` of the page that follows, or null.
    """
    limit = call.number("limit", MAX_PAGE, 1, MAX_PAGE)
    try:
        page = await call.agent.sessions.list(limit=limit, after=call.query.get("after") or None)
    except ValueError as error:
        raise RequestError(400, "bad_request", str(error)) from None
    more = page[-1].cursor if len(page) == limit else None
    hidden = call.agent.turns.deleted_sessions()
    infos = [info for info in page if info.id not in hidden]
    described = [await _described(call.agent, info) for info in infos]
    if more is None and "" not in hidden and await call.agent.sessions.get("") is None:
        described.append(await _unregistered(call.agent))
    return json_response({"sessions": described, "next": more})


async def create(call: Call) -> HttpResponse:
    """A new session."""
    body = call.json_object()
    name = call.text(body, "name", required=False) or NEW_NAME
    wanted = call.text(body, "id", required=False)
    info = await call.agent.sessions.create(name, session_id=wanted)
    call.agent.tell_sessions_changed(info.id)
    return json_response(await _described(call.agent, info), status=201)


async def rename(call: Call) -> HttpResponse:
    """Give a session another name."""
    body = call.json_object()
    identifier = _identifier(call, body)
    name = str(call.text(body, "name"))
    await call.agent.sessions.ensure(identifier, NEW_NAME)
    await call.agent.sessions.rename(identifier, name)
    call.agent.tell_sessions_changed(identifier)
    return json_response(await _known(call.agent, identifier))


async def fork(call: Call) -> HttpResponse:
    """A new session with the history up to a message."""
    body = call.json_object()
    identifier = _identifier(call, body)
    at = call.text(body, "messageId", required=False)
    if at is None:
        at = await call.agent.lane(identifier).conversation.leaf_id()
    if at is None:
        raise RequestError(400, "bad_request", "there is no message to fork from")
    name = call.text(body, "name", required=False)
    if name is None:
        source = await call.agent.sessions.get(identifier)
        name = f"{NEW_NAME if source is None else source.name} (fork)"
    info = await call.agent.sessions.fork(identifier, at, name)
    call.agent.tell_sessions_changed(info.id)
    return json_response(await _described(call.agent, info), status=201)


async def delete(call: Call) -> HttpResponse:
    """Hide a session; it is deleted some time later unless it is restored."""
    agent = call.agent
    identifier = _identifier(call, call.json_object())
    if identifier != "" and await agent.sessions.get(identifier) is None:
        raise UnknownSessionError(f"no session {identifier!r}")
    now = agent.host.now()
    # Marked before the running turn is awaited: what is said meanwhile brings the session back.
    agent.turns.set_deleted(identifier, now)
    agent.jobs.put(
        id=f"{DELETE_JOB}:{identifier}",
        kind=DELETE_JOB,
        at_ms=now + UNDO_MS,
        payload={"sessionId": identifier},
    )
    await agent.lane(identifier).stop_all()
    agent.tell_sessions_changed(identifier)
    return json_response({"ok": True, "undoToken": identifier, "undoUntil": now + UNDO_MS})


async def restore(call: Call) -> HttpResponse:
    """Bring a session back that was deleted a moment ago."""
    identifier = _identifier(call, call.json_object())
    if not call.agent.turns.is_deleted(identifier):
        raise UnknownSessionError(f"session {identifier!r} is not waiting to be deleted")
    undelete(call.agent, identifier)
    return json_response(await _known(call.agent, identifier))


def undelete(agent: ChatAgent, session_id: str) -> None:
    """Show a session again and forget that it was to be deleted."""
    agent.jobs.cancel(f"{DELETE_JOB}:{session_id}")
    agent.turns.set_deleted(session_id, None)
    agent.tell_sessions_changed(session_id)


async def delete_job(agent: ChatAgent, job: Job) -> None:
    """Delete a hidden session for good."""
    identifier = str(job.payload["sessionId"])
    if not agent.turns.is_deleted(identifier):
        return
    lane = agent.lane(identifier)
    with lane.paused():
        await lane.stop_all()
        if not lane.is_busy:
            await clear(lane)
        if lane.is_busy:
            return  # something was said meanwhile, which brought the session back
    await agent.sessions.delete(identifier)
    agent.turns.clear(identifier)
    agent.forget_lane(identifier)
    agent.tell_sessions_changed(identifier)


def _identifier(call: Call, body: dict[str, Any]) -> str:
    return call.captured[0] if call.captured else str(call.text(body, "id"))


async def _known(agent: ChatAgent, identifier: str) -> dict[str, Any]:
    info = await agent.sessions.get(identifier)
    return await (_unregistered(agent) if info is None else _described(agent, info))


async def _described(agent: ChatAgent, info: SessionInfo) -> dict[str, Any]:
    session = agent.session(info.id)
    leaf = await session.get_latest_leaf()
    return {
        "id": info.id,
        "name": info.name,
        "createdAt": info.created_at,
        "updatedAt": info.updated_at,
        "messageCount": session.message_count(),
        "parentSessionId": info.parent_session_id,
        "parentMessageId": info.parent_message_id,
        "preview": "" if leaf is None else " ".join(text_of(leaf, " ").split())[:120],
        "model": info.model,
        "inputTokens": info.input_tokens,
        "outputTokens": info.output_tokens,
    }


async def _unregistered(agent: ChatAgent) -> dict[str, Any]:
    """The default session before anything was said in it."""
    info = SessionInfo("", NEW_NAME, None, None, None, None, 0, 0, 0.0, None, 0, 0)
    return await _described(agent, info)


ROUTES: list[Route] = [
    route("GET", "sessions", list_sessions),
    route("POST", "sessions", create),
    route("POST", "sessions/rename", rename),
    route("PATCH", "sessions/*", rename),
    route("POST", "sessions/fork", fork),
    route("POST", "sessions/*/fork", fork),
    route("POST", "sessions/delete", delete),
    route("DELETE", "sessions/*", delete),
    route("POST", "sessions/restore", restore),
    route("POST", "sessions/*/restore", restore),
]
