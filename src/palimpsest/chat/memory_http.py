"""What the agent remembers, over plain HTTP: tokens, overlays, blocks, checkpoints, schedules."""

from __future__ import annotations

from typing import Any, cast

from palimpsest.actor import fibers
from palimpsest.actor.http import json_response
from palimpsest.chat.agent import SWEEP_JOB
from palimpsest.chat.endpoints import Call, RequestError, Route, route
from palimpsest.chat.lane import WAKE_JOB
from palimpsest.chat.memory_view import memory_view, overlay_text
from palimpsest.chat.session_http import DELETE_JOB, undelete
from palimpsest.hosts.interface import MAX_SOCKET_MESSAGE_BYTES, HttpResponse
from palimpsest.messages import dump_json

MAX_SHOWN_PAYLOAD = 2_000
"""The largest payload of a job that is shown, as JSON in characters."""

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
    view = memory_view(session, leaf)
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
            "schedules": _schedules(call),
            **view,
            "stats": {**view["stats"], "databaseBytes": agent.host.sql.database_size()},
            "limits": {
                "maxMessageBytes": MAX_SOCKET_MESSAGE_BYTES,
                "maxAttachmentBytes": MAX_FILE_BYTES,
            },
        }
    )


def _schedules(call: Call) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for job in call.agent.jobs.list(limit=200):
        if job.status == "done":
            continue  # a mark that a one-time schedule has run
        found.append(
            {
                "id": job.id,
                "callback": job.kind,
                "type": "job",
                "timeMs": job.at,
                "status": job.status,
                "payload": _shown_payload(job.payload),
            }
        )
    return found


def _shown_payload(payload: Any) -> Any:
    """A payload, or of a large one its callback alone: there may be many, of two megabytes each."""
    if len(dump_json(payload)) <= MAX_SHOWN_PAYLOAD:
        return payload
    fields = cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}
    return {"callback": fields["callback"]} if "callback" in fields else None


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


async def read_overlay(call: Call) -> HttpResponse:
    """The whole text of a summary: :func:`memory` has only the beginning of those not in use."""
    identifier = call.captured[0]
    summary = overlay_text(call.lane.conversation.session, identifier)
    if summary is None:
        raise RequestError(404, "not_found", f"no summary {identifier!r}")
    return json_response({"id": identifier, "summary": summary})


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
    """Cancel a schedule, a queue item or a fiber, bring a session back, or drop a dead letter.

    The agent's own jobs are refused: without them turns would wait and chunks stay for ever.
    """
    agent, identifier = call.agent, call.captured[0]
    job = agent.jobs.get(identifier)
    if job is None or job.status == "done":
        raise RequestError(404, "not_found", f"no schedule {identifier!r}")
    if job.status == "dead":
        agent.discard_dead_letter(identifier)
    elif job.kind == DELETE_JOB:
        undelete(agent, str(job.payload["sessionId"]))
    elif job.kind == fibers.KIND:
        agent.cancel_fiber(fibers.fiber_id(identifier))
    elif job.kind in (SWEEP_JOB, WAKE_JOB):
        raise RequestError(409, "conflict", "this is work of the agent's own")
    else:
        agent.jobs.cancel(identifier)
    return json_response({"ok": True})


ROUTES: list[Route] = [
    route("GET", "memory", memory),
    route("POST", "compact", compact),
    route("GET", "overlays/*", read_overlay),
    route("DELETE", "overlays/*", remove_overlay),
    route("PUT", "context/*", replace_block),
    route("DELETE", "schedules/*", remove_schedule),
]
