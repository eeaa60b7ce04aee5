"""What an append leaves behind when one of its two rows cannot be written, on every host."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import SqlError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message
from palimpsest.session.session import Session
from palimpsest.store.search_index import SESSION_SPAN, SITTING_ROWS


def text(identifier: str, words: str = "hello") -> Message:
    return {"id": identifier, "role": "user", "parts": [{"type": "text", "text": words}]}


async def filled(host: Host, count: int) -> Session:
    session = Session.create(host)
    for number in range(count):
        await session.append_message(text(f"m{number}", f"message number {number}"))
    return session


async def shown(session: Session) -> list[str]:
    return [message["id"] for message in await session.get_history()]


def stored(host: Host, message_id: str) -> bool:
    rows = host.sql.execute("select 1 from assistant_messages where id = ?", message_id)
    return bool(rows)


def found(host: Host, word: str) -> list[Any]:
    return host.sql.execute(
        "select message_id from assistant_fts where assistant_fts match ?", word
    )


def forgetful(host: Host) -> Session:
    """A session as after an eviction: nothing is remembered."""
    host.jobs = None
    return Session.create(host)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("count", [3, SITTING_ROWS])
async def test_a_message_that_cannot_be_indexed_is_not_stored(
    host: Host, at_once: bool, count: int
) -> None:
    session = await filled(host, count)
    sittings = host.sql.execute("select doc from assistant_search_sittings")
    key = SESSION_SPAN + count + 1
    host.sql.execute("insert into assistant_fts (rowid, row) values (cast(? as integer), 4)", key)
    message = text("new", "walrus")
    append = session.append_messages([message]) if at_once else session.append_message(message)
    with pytest.raises(SqlError):
        await append
    assert not stored(host, "new")
    assert not found(host, "walrus")
    assert host.sql.execute("select doc from assistant_search_sittings") == sittings
    host.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", key)
    assert (await session.append_message(text("new", "walrus"))).inserted
    assert await shown(session) == [*(f"m{number}" for number in range(count)), "new"]
    assert found(host, "walrus") == [["new"]]
    opened = host.sql.execute("select doc from assistant_search_sittings")
    assert len(opened) == len(sittings) + (count == SITTING_ROWS)


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_message_without_its_index_row_is_added_anew(host: Host, restarted: bool) -> None:
    session = await filled(host, 3)
    key = SESSION_SPAN + 3
    host.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", key)
    if restarted:
        session = forgetful(host)
        assert await shown(session) == ["m0", "m1"]
    added = await session.append_message(text("m2", "walrus"))
    assert added.inserted
    assert await shown(session) == ["m0", "m1", "m2"]
    assert added.message == await session.get_message("m2")
    assert found(host, "walrus") == [["m2"]]
    assert not (await session.append_message(text("m2"))).inserted


async def test_appends_in_turn_with_a_duplicate_between_them(host: Host) -> None:
    session = await filled(host, 70)
    assert not (await session.append_message(text("m5", "walrus"))).inserted
    assert (await session.append_message(text("m70"))).inserted
    assert await shown(session) == [f"m{number}" for number in range(71)]
    assert await session.get_parent_id("m70") == "m69"
    assert not found(host, "walrus")


async def test_the_view_of_earlier_databases_goes(host: Host) -> None:
    await filled(host, 1)
    host.sql.execute("create view assistant_new_messages as select 1")
    host.sql.execute("update palimpsest_schema set version = 3 where component = 'messages'")
    session = forgetful(host)
    assert await shown(session) == ["m0"]
    assert not host.sql.execute("select 1 from sqlite_master where name = 'assistant_new_messages'")
