"""What of a client's transcript is new: the store is authoritative, the client a witness.

Clients send the whole conversation as they see it with every request. Of that only the new user
messages, an edit of the last one, and results of tools the client ran may change anything. Echoes
of overlays, optimistic copies under other ids and stale tails are recognised by id and by tool call
id and never stored a second time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from palimpsest.chat.accumulator import FINISHED_STATES
from palimpsest.messages import (
    Message,
    Part,
    is_compaction_message,
    is_tool_part,
    text_of,
    validate_message,
)
from palimpsest.tools.execute import result_problem

Lookup = Callable[[str], Awaitable[Message | None]]
"""The stored message of an id."""

MAX_UNKNOWN_MESSAGES = 200
"""How far back a transcript is searched for a message that is known."""


@dataclass(slots=True)
class Submission:
    """What a request adds."""

    new_messages: list[Message] = field(default_factory=lambda: list[Message]())
    """To be appended, in order."""
    anchor: str | None = None
    """The last message of the client's list that is known; what is new comes after it."""
    anchor_differs: bool = False
    """Whether the client's copy of that message has another text than the store's."""
    anchor_is_open: bool = False
    """Whether the anchor belongs to a turn that waits or runs."""
    edited: str | None = None
    """The user message that the first new one replaces: it becomes a stored one's sibling."""
    answered_parts: list[Part] = field(default_factory=lambda: list[Part]())
    """Tool parts with a result, as the client has them after and at the anchor."""
    last_role: str = ""
    """The role of the client's last message."""


async def plan_submission(
    messages: Iterable[Message],
    lookup: Lookup,
    *,
    open_ids: Collection[str] = (),
    waiting: Mapping[str, Message] = {},
    store_is_empty: bool = False,
    new_id: Callable[[], str],
) -> Submission:
    """Compare a client's transcript with what is stored.

    :param open_ids: ids of messages in turns that wait or run: accepted, maybe not stored yet.
    :param waiting: the messages of turns that wait, by id: one that was edited keeps its id.
    :param store_is_empty: whether the conversation has no message; then the whole list is taken,
        assistant messages included, for the client brings its history.
    :param new_id: makes the id of an edited message.
    :raises InvalidMessageError: a new message is not valid.
    """
    transcript = [message for message in messages if not is_compaction_message(message)]
    plan = Submission(last_role=str(transcript[-1].get("role", "")) if transcript else "")
    unknown: list[Message] = []
    for index in range(len(transcript) - 1, -1, -1):
        message = transcript[index]
        identifier = str(message["id"])
        if identifier in open_ids:
            plan.anchor, plan.anchor_is_open = identifier, True
            accepted = waiting.get(identifier) or await lookup(identifier)
            if not unknown and accepted is not None and is_edit(accepted, message):
                plan.edited = identifier
                unknown.append(message if identifier in waiting else {**message, "id": new_id()})
            break
        stored = await lookup(identifier)
        if stored is not None:
            plan.anchor = identifier
            if message.get("role") == "assistant":
                plan.answered_parts += answered_tool_parts(message)
                plan.anchor_differs = _text(message) != text_of(stored)
            elif not unknown and is_edit(stored, message):
                plan.edited = identifier
                unknown.append({**message, "id": new_id()})
            break
        if message.get("role") == "assistant":
            plan.answered_parts += answered_tool_parts(message)
        unknown.append(message)
        if len(unknown) > MAX_UNKNOWN_MESSAGES and not store_is_empty:
            break
    unknown.reverse()
    plan.new_messages = _accepted(unknown, plan, store_is_empty)
    return plan


def _accepted(unknown: list[Message], plan: Submission, store_is_empty: bool) -> list[Message]:
    whole_history = store_is_empty and plan.anchor is None
    seen: set[str] = set()
    accepted: list[Message] = []
    for message in unknown:
        wanted = ("user", "assistant", "system") if whole_history else ("user",)
        if message.get("role") in wanted and message["id"] not in seen:
            seen.add(str(message["id"]))
            accepted.append(validate_message(message))
        elif message.get("role") not in ("user", "assistant", "system"):
            validate_message(message)  # tells what is wrong with it, if anything is
    if plan.anchor is None and not whole_history:
        return accepted[-1:]
    return accepted


def _text(message: Message) -> str:
    """The text of a message that was not checked."""
    parts: Any = message.get("parts")
    if not isinstance(parts, list):
        return ""
    return text_of({"parts": [part for part in cast("list[Any]", parts) if isinstance(part, dict)]})


def is_edit(stored: Message, sent: Message) -> bool:
    """Whether a user message was changed by the client (``sendMessage`` with ``messageId``)."""
    return sent.get("role") == stored.get("role") == "user" and sent.get("parts") != stored["parts"]


def answered_tool_parts(message: Mapping[str, Any]) -> list[Part]:
    """The tool parts that have a result or an answer to an approval."""
    parts: Any = message.get("parts")
    if not isinstance(parts, list):
        return []
    return [
        part
        for part in cast(
            "list[Part]", [item for item in cast("list[Any]", parts) if isinstance(item, dict)]
        )
        if is_tool_part(part)
        and (part.get("state") in FINISHED_STATES or part.get("state") == "approval-responded")
    ]


def apply_result(part: Part, state: str, output: Any, error_text: str | None) -> Part | None:
    """The part with the client's result, or None if it takes none (the first answer stands).

    A result that cannot be kept becomes an error, so that the call does not wait for ever.
    """
    if part.get("state") not in ("input-available", "approval-responded"):
        return None
    if part.get("providerExecuted"):
        return None
    problem = None if state == "output-error" else result_problem(output)
    if problem is not None:
        state, error_text = "output-error", problem
    answered = {**part, "state": state}
    if state == "output-error":
        answered["errorText"] = error_text if error_text is not None else "The tool failed."
    else:
        answered["output"] = output
    return answered


def apply_approval(part: Part, approved: bool, reason: str | None) -> Part | None:
    """The part with the person's answer, or None if no answer is waited for."""
    if part.get("state") != "approval-requested":
        return None
    approval = {**cast("dict[str, Any]", part.get("approval") or {}), "approved": approved}
    if reason is not None:
        approval["reason"] = reason
    state = "approval-responded" if approved else "output-denied"
    return {**part, "state": state, "approval": approval}


def apply_client_part(stored: Part, sent: Part) -> Part | None:
    """The stored part with what a client's copy of it adds; None if it adds nothing."""
    state = str(sent.get("state"))
    approval = cast("Mapping[str, Any]", sent.get("approval") or {})
    if stored.get("state") == "approval-requested" and "approved" in approval:
        reason = approval.get("reason")
        return apply_approval(
            stored, approval["approved"] is True, reason if isinstance(reason, str) else None
        )
    if state in ("output-available", "output-error"):
        error = sent.get("errorText")
        return apply_result(
            stored, state, sent.get("output"), error if isinstance(error, str) else None
        )
    return None


def waits_for_client(message: Mapping[str, Any]) -> bool:
    """Whether a call in the message has neither a result nor, where needed, a person's answer."""
    return any(
        is_tool_part(part)
        and part.get("state") in ("input-available", "approval-requested", "input-streaming")
        and not part.get("providerExecuted")
        for part in message.get("parts", ())
    )


def needs_continuation(message: Mapping[str, Any]) -> bool:
    """Whether the message's last step ended with tool calls that all have their answer now."""
    parts = cast("list[Part]", message.get("parts", []))
    start = len(parts)
    while start > 0 and parts[start - 1].get("type") != "step-start":
        start -= 1
    calls = [
        index
        for index, part in enumerate(parts)
        if index >= start and is_tool_part(part) and not part.get("providerExecuted")
    ]
    return bool(calls) and not waits_for_client(message)
