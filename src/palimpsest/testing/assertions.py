"""Assertions on history and context, each with a text that shows what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from palimpsest.messages import is_compaction_message, text_of, tool_name, tool_parts

if TYPE_CHECKING:
    from palimpsest.session.session import Session


def transcript(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line a message: ``role: text``, tool calls as ``[name]``, summaries as ``summary:``."""
    return [_line(message) for message in messages]


def _line(message: Mapping[str, Any]) -> str:
    role = "summary" if is_compaction_message(message) else str(message.get("role"))
    tools = [f"[{tool_name(part)}]" for part in tool_parts(message)]
    return f"{role}: {' '.join([*tools, text_of(message)]).strip()}"


async def assert_history(session: Session, expected: Sequence[str]) -> None:
    """The originals of the active path, as :func:`transcript` shows them.

    :raises AssertionError: they differ.
    """
    found = transcript(await session.get_originals())
    assert found == list(expected), f"history is {found}"


async def assert_context(session: Session, expected: Sequence[str]) -> None:
    """What the next turn shows the model, as :func:`transcript` shows it.

    :raises AssertionError: it differs.
    """
    found = transcript(await session.get_history())
    assert found == list(expected), f"context is {found}"


async def assert_context_within(session: Session, tokens: int) -> None:
    """The context of the next turn is at most ``tokens`` tokens.

    :raises AssertionError: it is larger.
    """
    found = session.context_tokens()
    assert found <= tokens, f"the context has {found} tokens, more than {tokens}"


def assert_tools_answered(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool call has its result.

    :raises AssertionError: a call has none.
    """
    for message in messages:
        for part in tool_parts(message):
            state = part.get("state")
            assert state in ("output-available", "output-error", "output-denied"), (
                f"{tool_name(part)} of message {message.get('id')} is {state}"
            )
