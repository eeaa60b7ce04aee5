"""Whole sessions as JSON Lines and back, on every host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palimpsest.errors import InvalidImportError
from palimpsest.hosts.interface import Host
from palimpsest.interchange import Conversation, read_conversation
from palimpsest.messages import text_message
from palimpsest.session.exchange import (
    ImportResult,
    export_lines,
    import_conversation,
    tree_entries,
)
from palimpsest.session.session import Session


def numbered() -> str:
    raise AssertionError("every message has an id")


def parsed(lines: list[str]) -> Conversation:
    return read_conversation("".join(lines), numbered)


async def branching(host: Host) -> Session:
    session = Session.create(host).for_session("origin")
    for name, parent in [("a", None), ("b", "a"), ("c", "b"), ("d", "b"), ("e", "a"), ("r", None)]:
        await session.append_message(text_message(name, "user", f"text {name}"), parent)
    await session.append_message(text_message("d2", "assistant", "text d2"), "d")
    return session


async def shape(session: Session) -> list[tuple[str, str | None]]:
    return [(entry.message["id"], entry.parent_id) async for entry in tree_entries(session)]


async def test_every_branch_is_listed_with_its_parent_in_order(host: Host) -> None:
    session = await branching(host)
    assert await shape(session) == [
        ("a", None),
        ("b", "a"),
        ("c", "b"),
        ("d", "b"),
        ("e", "a"),
        ("r", None),
        ("d2", "d"),
    ]
    await session.delete_messages(["b"])
    assert await shape(session) == [
        ("a", None),
        ("c", "a"),
        ("d", "a"),
        ("e", "a"),
        ("r", None),
        ("d2", "d"),
    ]
    assert await shape(Session.create(host).for_session("empty")) == []


async def test_long_history_is_read_in_pieces(host: Host) -> None:
    session = Session.create(host)
    await session.append_messages([text_message(f"m{n}", "user", str(n)) for n in range(450)])
    entries = await shape(session)
    assert [identifier for identifier, _ in entries] == [f"m{n}" for n in range(450)]
    assert [parent for _, parent in entries] == [None, *(f"m{n}" for n in range(449))]


async def test_export_and_import_give_the_same_tree_overlays_and_times(host: Host) -> None:
    session = await branching(host)
    await session.add_compaction("what a and b said", "a", "b")
    lines = [line async for line in export_lines(session)]
    assert json.loads(lines[0])["type"] == "session"
    copy = Session.create(host).for_session("copy")
    assert await import_conversation(copy, parsed(lines)) == ImportResult(7, 0, 1)
    assert await shape(copy) == await shape(session)
    for name in ("a", "d2"):
        assert await copy.get_created_at(name) == await session.get_created_at(name)
    (overlay,) = await copy.get_compactions()
    assert (overlay.summary, overlay.from_message_id) == ("what a and b said", "a")
    again = [line async for line in export_lines(copy)]
    drop = ("createdAt", "id")

    def without(text: str) -> dict[str, Any]:
        return {key: value for key, value in json.loads(text).items() if key not in drop}

    assert [without(line) for line in again] == [without(line) for line in lines]


async def test_importing_twice_changes_nothing(host: Host) -> None:
    session = await branching(host)
    lines = [line async for line in export_lines(session)]
    assert await import_conversation(session, parsed(lines)) == ImportResult(0, 7, 0)
    assert len(await shape(session)) == 7


async def test_messages_without_a_tree_follow_the_newest_message(host: Host) -> None:
    session = Session.create(host)
    await session.append_message(text_message("before", "user", "x"))
    listed = [text_message(name, "user", name) for name in ("one", "two")]
    conversation = read_conversation(json.dumps(listed), numbered)
    await import_conversation(session, conversation)
    assert await shape(session) == [("before", None), ("one", "before"), ("two", "one")]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            {
                "type": "message",
                "message": {"id": "x", "role": "user", "parts": []},
                "parentId": "no",
            },
            "parent 'no' does not exist",
        ),
        (
            {"type": "compaction", "summary": "s", "fromMessageId": "ok", "toMessageId": "no"},
            "last message 'no' does not exist",
        ),
        (
            {"type": "compaction", "summary": " ", "fromMessageId": "ok", "toMessageId": "ok"},
            "no summary",
        ),
    ],
)
async def test_broken_reference_imports_nothing(host: Host, line: Any, says: str) -> None:
    session = Session.create(host)
    good: Any = {"type": "message", "message": {"id": "ok", "role": "user", "parts": []}}
    lines = [json.dumps(good) + "\n", json.dumps(line) + "\n"]
    with pytest.raises(InvalidImportError, match=says):
        await import_conversation(session, parsed(lines))
    assert await shape(session) == []
