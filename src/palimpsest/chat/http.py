"""Messages, turns, search, export and import over plain HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast
from urllib.parse import quote

from palimpsest.actor.http import json_response
from palimpsest.chat.clientframes import clear
from palimpsest.chat.conversation import NEW_NAME, title_from
from palimpsest.chat.endpoints import Call, RequestError, Route, route
from palimpsest.chat.frames import ChatRequest, FrameError, check_frame_id, parse_chat_body
from palimpsest.chat.lane import Lane
from palimpsest.chat.resume import live_turn
from palimpsest.chat.streams import error_chunk
from palimpsest.chat.transcripts import all_originals
from palimpsest.errors import UnknownMessageError
from palimpsest.hosts.interface import HttpResponse
from palimpsest.interchange import Conversation, read_conversation
from palimpsest.messages import MAX_ID_LENGTH, Message, dump_json, text_message, text_of
from palimpsest.search.search import SearchResult
from palimpsest.session.exchange import export_lines, import_conversation
from palimpsest.session.manager import MAX_NAME_LENGTH
from palimpsest.store import turns as rows
from palimpsest.store.turns import StoredTurn

JSON_HEADERS = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}

STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}
"""Headers of the AI SDK's UI message stream."""

HIT_START, HIT_END = "\ue000", "\ue001"
"""Private-use characters around a hit in a search result's snippet."""

PREVIEW_LENGTH = 120

_ID_CHARACTERS = "!#$&'*+,/:;=?@^`|~ ()<>[]{}\"\\"
"""What a request id may hold as it is in a header, besides letters, digits and ``_.-~``."""

MAX_IMPORT_MESSAGES = 100_000


async def get_messages(call: Call) -> HttpResponse:
    """The conversation as a JSON array: originals of the active branch, then waiting messages."""
    lane = call.lane
    leaf = await lane.conversation.leaf_id()
    waiting = lane.waiting_messages()

    async def body() -> AsyncIterator[bytes]:
        separator = b"["
        if leaf is not None:
            for text in all_originals(lane.conversation.session, leaf):
                yield separator + text.encode()
                separator = b","
        for message in waiting:
            yield separator + dump_json(message).encode()
            separator = b","
        yield b"[]" if separator == b"[" else b"]"

    return HttpResponse(200, JSON_HEADERS, body())


async def page(call: Call) -> HttpResponse:
    """One page of the conversation, the newest without ``before``."""
    limit = call.number("limit", 50, 1, 1000)
    before = call.query.get("before") or None
    leaf = await call.lane.conversation.leaf_id()
    session = call.lane.conversation.session
    if leaf is None:
        return json_response({"messages": [], "hasMore": False})
    found = await session.get_page(before=before, limit=limit, leaf_id=leaf)
    return json_response({"messages": found.messages, "hasMore": found.has_more})


async def one_message(call: Call) -> HttpResponse:
    """One message, wherever in the tree it stands."""
    session, identifier = call.lane.conversation.session, call.captured[0]
    message = await session.get_message(identifier)
    if message is None:
        raise UnknownMessageError(f"no message {identifier!r} in this session")
    leaf = await call.lane.conversation.leaf_id()
    shown = leaf is not None and await session.is_on_path(identifier, leaf)
    return json_response(
        {
            "message": message,
            "leafId": await session.get_leaf_of(identifier),
            "onActivePath": shown,
        }
    )


async def _siblings(call: Call, identifier: str) -> list[Message]:
    session = call.lane.conversation.session
    parent = await session.get_parent_id(identifier)
    return await (session.get_roots() if parent is None else session.get_branches(parent))


async def branches(call: Call) -> HttpResponse:
    """The siblings of one message, or of every message of the active branch that has some."""
    session = call.lane.conversation.session
    wanted = call.query.get("message")
    if wanted is not None:
        siblings = await _siblings(call, wanted)
        described = [
            {
                "id": message["id"],
                "role": message["role"],
                "preview": _preview(message),
                "createdAt": await session.get_created_at(str(message["id"])),
                "leafId": await session.get_leaf_of(str(message["id"])),
            }
            for message in siblings
        ]
        ids = [str(message["id"]) for message in siblings]
        return json_response({"siblings": described, "index": ids.index(wanted)})
    leaf = await call.lane.conversation.leaf_id()
    found: dict[str, Any] = {}
    for identifier, siblings in (await session.get_siblings(leaf)).items():
        found[identifier] = {
            "index": siblings.index(identifier),
            "total": len(siblings),
            "siblings": siblings,
        }
    return json_response({"branches": found})


async def switch_branch(call: Call) -> HttpResponse:
    """Show the branch in which a message stands."""
    identifier = str(call.text(call.json_object(), "messageId"))
    lane = call.lane
    if lane.is_busy:
        raise RequestError(409, "conflict", "an answer is being written: stop it or wait for it")
    leaf = await lane.conversation.session.get_leaf_of(identifier)
    lane.conversation.show(leaf)
    await lane.broadcast_transcript()
    return json_response({"leafId": leaf})


async def clear_session(call: Call) -> HttpResponse:
    """Remove the session's messages."""
    await clear(call.lane)
    return json_response({})


async def search(call: Call) -> HttpResponse:
    """Search this session or all of them."""
    query = call.query.get("q", "")
    limit = call.number("limit", 20, 1, 200)
    scope = call.query.get("scope", "all")
    if scope not in ("all", "session"):
        raise RequestError(400, "bad_request", "'scope' must be 'all' or 'session'")
    results: list[SearchResult]
    if scope == "session":
        results = list(await call.lane.conversation.session.search(query, limit))
    else:
        results = list(await call.agent.sessions.search(query, limit=limit))
    names: dict[str, str] = {}
    for result in results:
        if result.session_id not in names:
            info = await call.agent.sessions.get(result.session_id)
            names[result.session_id] = "" if info is None else info.name
    return json_response(
        {
            "results": [
                {
                    "sessionId": result.session_id,
                    "sessionName": names[result.session_id],
                    "messageId": result.id,
                    "role": result.role,
                    "createdAt": result.created_at,
                    "score": result.score,
                    "snippet": _marked(result),
                }
                for result in results
            ]
        }
    )


def _marked(result: SearchResult) -> str:
    pieces: list[str] = []
    end = 0
    for start, stop in result.highlights:
        pieces += [result.snippet[end:start], HIT_START, result.snippet[start:stop], HIT_END]
        end = stop
    return "".join([*pieces, result.snippet[end:]])


async def export(call: Call) -> HttpResponse:
    """The session as JSON Lines: itself, its messages of every branch, its summaries."""
    session = call.lane.conversation.session
    info = await call.agent.sessions.get(call.session_id)

    async def body() -> AsyncIterator[bytes]:
        shown = {
            "exportedAt": call.agent.host.now(),
            "activeLeafId": await call.lane.conversation.leaf_id(),
        }
        lines = cast("AsyncGenerator[str, None]", export_lines(session, info, shown))
        async with aclosing(lines) as exported:
            async for line in exported:
                yield line.encode()

    headers = {
        "content-type": "application/x-ndjson; charset=utf-8",
        "content-disposition": 'attachment; filename="conversation.jsonl"',
        "cache-control": "no-store",
    }
    return HttpResponse(200, headers, body())


async def import_messages(call: Call) -> HttpResponse:
    """Take in messages: JSON Lines as exported, or a JSON array of messages."""
    lane = call.lane
    if lane.is_busy:
        raise RequestError(409, "conflict", "an answer is being written: stop it or wait for it")
    conversation = _read(call)
    chosen = conversation.session.get("activeLeafId")
    if isinstance(chosen, str):
        chosen = check_frame_id(chosen, "activeLeafId", MAX_ID_LENGTH)
    call.agent.keep_session(call.session_id)
    result = await import_conversation(
        lane.conversation.session, conversation, behind=await lane.conversation.leaf_id()
    )
    await _register(call, conversation)
    lane.conversation.show(chosen if isinstance(chosen, str) else None)
    await lane.broadcast_transcript()
    call.agent.tell_sessions_changed(call.session_id)
    return json_response({"imported": result.imported, "skipped": result.skipped})


async def _register(call: Call, conversation: Conversation) -> None:
    """List the session that was imported into, under its own name or its first message's."""
    if not conversation.messages:
        return
    name = conversation.session.get("name")
    if not isinstance(name, str) or not name.strip():
        messages = (entry.message for entry in conversation.messages)
        user = next((message for message in messages if message["role"] == "user"), None)
        name = NEW_NAME if user is None else title_from(user)
    await call.agent.sessions.ensure(call.session_id, name[:MAX_NAME_LENGTH])


def _read(call: Call) -> Conversation:
    try:
        text = call.request.body.decode()
    except UnicodeDecodeError:
        raise RequestError(400, "bad_request", "the body must be UTF-8") from None
    conversation = read_conversation(text, call.agent.host.random_id)
    if len(conversation.messages) > MAX_IMPORT_MESSAGES:
        raise RequestError(413, "too_large", f"at most {MAX_IMPORT_MESSAGES} messages at once")
    return conversation


async def chat(call: Call) -> HttpResponse:
    """Run a turn and stream its chunks as the AI SDK's UI message stream.

    Leaving the response does not stop the turn.
    """
    body = call.json_object()
    request_id = body.pop("requestId", None) or call.agent.host.random_id()
    if isinstance(body.get("message"), str):
        message = text_message(call.agent.host.random_id(), "user", str(body.pop("message")))
        earlier = body.get("messages")
        if earlier is not None and not isinstance(earlier, list):
            raise RequestError(400, "bad_request", "'messages' must be an array")
        body["messages"] = [*cast("list[Any]", earlier or []), message]
    elif "messages" not in body:
        raise RequestError(
            400, "bad_request", "expected 'message', a text, or 'messages', an array"
        )
    body.pop("id", None)  # the AI SDK's chat id; the session is chosen by the address
    try:
        request = parse_chat_body(body, check_frame_id(request_id, "requestId"))
    except FrameError as error:
        raise RequestError(400, "bad_request", str(error)) from None
    row = await _submit(call.lane, request)
    # Quoted, for a header holds neither line breaks nor letters beyond Latin-1.
    headers = {**STREAM_HEADERS, "x-request-id": quote(row.request_id, safe=_ID_CHARACTERS)}
    return HttpResponse(200, headers, stream_turn(call.lane, row.request_id))


async def _submit(lane: Lane, request: ChatRequest) -> StoredTurn:
    row = await lane.submit(request, None)
    if row is None:
        if lane.is_busy:
            raise RequestError(409, "conflict", "an answer is being written already")
        raise RequestError(400, "bad_request", "there is no new message to answer")
    return row


async def stream_turn(lane: Lane, request_id: str, after: int = -1) -> AsyncIterator[bytes]:
    """The chunks of a turn as server-sent events, from its beginning or after a number."""
    position = after
    sent = False
    while True:
        active = live_turn(lane)
        if active is not None and active.row.request_id == request_id:
            async with aclosing(active.live.follow(position)) as chunks:
                async for position, body in chunks:
                    sent = True
                    yield _event(body, position)
            await active.ended.wait()
            continue
        row = lane.agent.turns.get(lane.session_id, request_id)
        if row is not None and row.is_open:
            await lane.changed.wait()
            continue
        if row is not None:
            for number, body in lane.agent.streams.read(row.turn, position):
                sent, position = True, number
                yield _event(body, number)
            if row.status == rows.ERROR:
                yield _event(error_chunk(row.error or "The turn failed."), position)
            elif row.status == rows.ABORTED and sent:
                yield _event('{"type":"abort"}', position)
        yield b"data: [DONE]\n\n"
        return


def _event(body: str, number: int) -> bytes:
    return f"id: {number}\ndata: {body}\n\n".encode()


async def resume_stream(call: Call) -> HttpResponse:
    """Take up a turn's stream again: the one named, or the one that is running."""
    lane = call.lane
    active = live_turn(lane)
    request_id = call.captured[0] if call.captured else ""
    if lane.agent.turns.get(lane.session_id, request_id) is None:
        # The AI SDK's transport names its own chat here: it asks for what is running.
        if active is None:
            return HttpResponse(204)
        request_id = active.row.request_id
    after = call.query.get("after", "")
    start = int(after) if after.isascii() and after.isdigit() and len(after) < 12 else -1
    return HttpResponse(200, STREAM_HEADERS, stream_turn(lane, request_id, start))


async def cancel(call: Call) -> HttpResponse:
    """Stop a turn: the one named, or the one that is running."""
    wanted = call.text(call.json_object(), "id", required=False)
    active = live_turn(call.lane)
    if wanted is None and active is not None:
        wanted = active.row.request_id
    return json_response({"cancelled": wanted is not None and call.lane.cancel(wanted)})


def _preview(message: Message) -> str:
    text = " ".join(text_of(message, " ").split())
    return text if len(text) <= PREVIEW_LENGTH else f"{text[:PREVIEW_LENGTH]}…"


ROUTES: list[Route] = [
    route("GET", "get-messages", get_messages),
    route("GET", "messages", page),
    route("GET", "messages/*", one_message),
    route("GET", "branches", branches),
    route("POST", "branches/switch", switch_branch),
    route("POST", "clear", clear_session),
    route("GET", "search", search),
    route("GET", "export", export),
    route("POST", "import", import_messages),
    route("POST", "chat", chat),
    route("POST", "chat/cancel", cancel),
    route("GET", "chat/stream", resume_stream),
    route("GET", "chat/*/stream", resume_stream),
]
