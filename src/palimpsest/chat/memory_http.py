"""What the agent remembers, over plain HTTP: tokens, overlays, blocks, checkpoints, schedules."""

from __future__ import annotations

from typing import Any

from palimpsest.actor.http import json_response
from palimpsest.chat.endpoints import Call, RequestError, Route, route
from palimpsest.hosts.interface import MAX_SOCKET_MESSAGE_BYTES, HttpResponse
from palimpsest.messages import COMPACTION_PREFIX

MAX_TIMELINE = 5_000
"""The most messages of a timeline: the newest."""

MAX_FILE_BYTES = 5_000_000
"""What clients are told of the size of one attached file.

Accepting and storing a message takes eight to nine times its size of the interpreter's memory, on
top of 43 MiB (measured in workerd): with a file of 5 MB, as base64, that stays below the 128 MB
that an isolate has.
"""


async def memory(call: Call) -> HttpResponse:
    """The state of one session's memory."""
    agent, conversation = call.agent, call.lane.conversation
    session = conversation.session
    leaf = await conversation.leaf_id()
    path = [] if leaf is None else await session.get_history_row_stats(leaf)
    entries = [] if leaf is None else session.compaction_store.path_entries(leaf)
    shown = {entry.id for entry in entries}
    status = session.compactor.status_frame()
    model = agent.current_model
    blocks = await session.get_context_blocks()
    return json_response(
        {
            "phase": status.get("phase", "idle"),
            "tokenEstimate": session.context_tokens(),
            "tokenThreshold": status.get("tokenThreshold"),
            "tokenBudget": model.max_input_tokens,
            "model": model.name,
            "lastError": session.compactor.status().last_error,
            "timeline": [
                {
                    "id": entry.id,
                    "role": entry.role,
                    "tokens": entry.tokens,
                    "createdAt": entry.created_at,
                }
                for entry in path[-MAX_TIMELINE:]
            ],
            "timelineTruncated": len(path) > MAX_TIMELINE,
            "overlays": [
                {
                    "id": stored.id,
                    "summary": stored.summary,
                    "fromMessageId": stored.from_message_id,
                    "toMessageId": stored.to_message_id,
                    "createdAt": stored.created_at,
                    "tokensAfter": stored.tokens,
                    "tokensBefore": _tokens_between(
                        path, stored.from_message_id, stored.to_message_id
                    ),
                    "stale": stored.stale,
                    "active": f"{COMPACTION_PREFIX}{stored.id}" in shown,
                }
                for stored in await session.get_compactions()
            ],
            "context": [
                {
                    "label": block.label,
                    "description": block.description,
                    "content": block.content,
                    "tokens": block.tokens,
                    "maxTokens": block.max_tokens,
                    "writable": block.writable,
                    "searchable": block.is_searchable,
                    "loadable": block.is_skill,
                }
                for block in blocks
            ],
            "systemPromptTokens": session.context.frozen_tokens(),
            "checkpoints": session.compactor.list_checkpoints(),
            "schedules": _schedules(call),
            "stats": {
                "messages": len(path),
                "bytes": sum(entry.bytes for entry in path),
                "databaseBytes": agent.host.sql.database_size(),
            },
            "limits": {
                "maxMessageBytes": MAX_SOCKET_MESSAGE_BYTES,
                "maxAttachmentBytes": MAX_FILE_BYTES,
            },
        }
    )


def _tokens_between(path: Any, start: str, end: str) -> int | None:
    inside, total = False, 0
    for entry in path:
        inside = inside or entry.id == start
        if inside:
            total += entry.tokens
            if entry.id == end:
                return total
    return None


def _schedules(call: Call) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for job in call.agent.jobs.list(limit=200):
        found.append(
            {
                "id": job.id,
                "callback": job.kind,
                "type": "job",
                "timeMs": job.at,
                "status": job.status,
                "payload": job.payload,
            }
        )
    return found


async def compact(call: Call) -> HttpResponse:
    """Compact the session now."""
    outcome = await call.lane.conversation.session.compactor.request_compaction()
    answer: dict[str, Any] = {
        "compacted": outcome.status == "compacted",
        "tokensBefore": outcome.tokens_before,
        "tokensAfter": outcome.tokens_after,
    }
    if outcome.overlay is not None:
        answer["overlayId"] = outcome.overlay.id
    if outcome.remaining:
        answer["tokensRemaining"] = outcome.remaining
    if outcome.reason is not None:
        answer["reason"] = outcome.reason
    return json_response(answer)


async def remove_overlay(call: Call) -> HttpResponse:
    """Take a summary off again: the originals are shown to the model as before."""
    identifier = call.captured[0]
    if not await call.lane.conversation.session.remove_compaction(identifier):
        raise RequestError(404, "not_found", f"no summary {identifier!r}")
    return json_response({"ok": True})


async def replace_block(call: Call) -> HttpResponse:
    """Write a context block."""
    session, label = call.lane.conversation.session, call.captured[0]
    if await session.get_context_block(label) is None:
        raise RequestError(404, "not_found", f"no context block {label!r}")
    text = str(call.text(call.json_object(), "content"))
    try:
        block = await session.replace_context_block(label, text)
    except PermissionError as error:
        raise RequestError(409, "conflict", str(error)) from None
    return json_response({"label": block.label, "content": block.content, "tokens": block.tokens})


async def remove_schedule(call: Call) -> HttpResponse:
    """Cancel a schedule or job."""
    identifier = call.captured[0]
    if not call.agent.jobs.cancel(identifier):
        raise RequestError(404, "not_found", f"no schedule {identifier!r}")
    return json_response({"ok": True})


ROUTES: list[Route] = [
    route("GET", "memory", memory),
    route("POST", "compact", compact),
    route("DELETE", "overlays/*", remove_overlay),
    route("PUT", "context/*", replace_block),
    route("DELETE", "schedules/*", remove_schedule),
]
