"""Import and export reach one session of one agent, whatever stands in what is imported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palimpsest.errors import PalimpsestError
from palimpsest.interchange import read_conversation
from palimpsest.messages import text_message
from palimpsest.session.exchange import export_lines, import_conversation
from palimpsest.session.manager import SessionManager

HOSTILE = [
    "../../etc/passwd",
    "'; drop table palimpsest_messages; --",
    "%2e%2e%2fother",
    "other/session",
    "<script>alert(1)</script>",
]


async def filled(host: Any) -> SessionManager:
    manager = SessionManager.create(host)
    for session_id in ("mine", "theirs"):
        await manager.create(session_id, session_id=session_id)
        await manager.append(session_id, text_message(f"{session_id}-1", "user", "kept"))
        await manager.append(session_id, text_message(f"{session_id}-2", "assistant", "kept, too"))
    return manager


async def exported(manager: SessionManager, session_id: str) -> str:
    return "".join([line async for line in export_lines(manager.get_session(session_id))])


async def imported(manager: SessionManager, session_id: str, *lines: Any) -> Any:
    text = "\n".join(json.dumps(line) for line in lines)
    conversation = read_conversation(text, lambda: "no-id")
    return await import_conversation(manager.get_session(session_id), conversation)


def message_line(identifier: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "message": text_message(identifier, "user", text), **fields}


async def test_an_import_that_names_another_session_stays_in_its_own(host: Any) -> None:
    manager = await filled(host)
    before = await exported(manager, "theirs")
    header = {"type": "session", "id": "theirs", "sessionId": "theirs", "name": "theirs"}
    await imported(manager, "mine", header, message_line("theirs-2", "forged"))
    assert await exported(manager, "theirs") == before
    assert "forged" in await exported(manager, "mine")
    found = await manager.search("forged")
    assert {result.session_id for result in found} == {"mine"}


async def test_an_import_cannot_hang_itself_on_messages_of_another_session(host: Any) -> None:
    manager = await filled(host)
    mine, theirs = await exported(manager, "mine"), await exported(manager, "theirs")
    overlay = {
        "type": "compaction",
        "summary": "nothing was said",
        "fromMessageId": "theirs-1",
        "toMessageId": "theirs-2",
    }
    for line in (message_line("new", "x", parentId="theirs-1"), overlay):
        with pytest.raises(PalimpsestError):
            await imported(manager, "mine", line)
    assert await exported(manager, "mine") == mine
    assert await exported(manager, "theirs") == theirs


@pytest.mark.parametrize("identifier", HOSTILE)
async def test_ids_are_data_everywhere(host: Any, identifier: str) -> None:
    manager = await filled(host)
    before = await exported(manager, "theirs")
    await manager.create(identifier, session_id=identifier)
    await imported(manager, identifier, message_line(identifier, "hostile"))
    session = manager.get_session(identifier)
    assert [message["id"] for message in await session.get_history()] == [identifier]
    (fork,) = [await manager.fork(identifier, identifier, "fork")]
    assert fork.parent_session_id == identifier
    assert await manager.delete(identifier)
    assert await exported(manager, "theirs") == before


async def test_an_export_holds_nothing_of_other_sessions(host: Any) -> None:
    manager = await filled(host)
    await manager.append("theirs", text_message("theirs-3", "user", "confidential"))
    text = await exported(manager, "mine")
    assert "confidential" not in text
    assert "theirs" not in text


async def test_an_import_writes_messages_and_overlays_only(host: Any) -> None:
    manager = await filled(host)
    manager.with_context("memory", description="notes")
    session = manager.get_session("mine")
    await session.replace_context_block("memory", "as it was")
    lines = [
        {"type": "session", "context": {"memory": "forged"}, "state": {"admin": True}},
        message_line("new", "hello"),
    ]
    await imported(manager, "mine", *lines)
    block = await session.get_context_block("memory")
    assert block is not None
    assert block.content == "as it was"
