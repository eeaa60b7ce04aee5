"""What an append leaves behind when one of its two rows cannot be written, on every host."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import SqlError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, dump_json
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


async def test_half_of_the_first_message_is_in_nobodys_way(host: Host) -> None:
    await filled(host, 1)
    key = SESSION_SPAN + 1
    host.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", key)
    session = forgetful(host)
    assert await shown(session) == []
    assert (await session.append_message(text("new", "walrus"))).inserted
    assert (await session.append_message(text("newer"))).inserted
    assert await shown(session) == ["new", "newer"]
    assert await session.get_path_length() == 2


async def test_half_a_message_is_no_message(host: Host) -> None:
    session = await filled(host, 4)
    key = SESSION_SPAN + 4
    host.sql.execute("delete from assistant_fts where rowid = cast(? as integer)", key)
    session = forgetful(host)
    assert await session.get_message("m3") is None
    assert await session.update_message(text("m3", "walrus")) is None
    assert await session.delete_messages(["m3"]) == []
    # Another message takes the place that half of this one has.
    assert (await session.append_message(text("m4", "otter"))).inserted
    assert await session.get_message("m3") is None
    assert (await session.append_message(text("m3", "walrus"), "m1")).inserted
    assert await session.get_parent_id("m3") == "m1"
    assert await shown(session) == ["m0", "m1", "m3"]
    assert [one["id"] for one in await session.get_history("m4")] == ["m0", "m1", "m2", "m4"]
    assert found(host, "walrus") == [["m3"]]
    assert session.message_count() == 5


async def test_an_update_writes_the_message_and_its_words_together(host: Any) -> None:
    session = await filled(host, 3)
    revision = "select revision, bytes from assistant_contents where id = 'm1'"
    same = text("m1", "message number 1")
    assert await session.update_message(same) == same
    assert host.sql.execute(revision)[0][0] == 0, "nothing changed"
    noted: Message = {**same, "note": "\x00 and \ud800 are no words"}
    assert await session.update_message(noted) == noted
    assert await session.get_message("m1") == noted
    assert found(host, '"number 1"') == [["m1"]]
    assert host.sql.execute(revision) == [[1, len(dump_json(noted))]]
    empty: Message = {"id": "m1", "role": "system", "parts": []}
    assert await session.update_message(empty) == empty
    assert not found(host, '"number 1"')
    assert await session.update_message(same) == same
    assert host.sql.execute(revision) == [[3, len(dump_json(same))]]
    assert await session.get_history() == [text(f"m{n}", f"message number {n}") for n in range(3)]
    assert found(host, '"number 1"') == [["m1"]]
    stats = await session.get_history_row_stats()
    assert [one.bytes for one in stats] == [len(dump_json(same))] * 3
    assert (await session.get_recent_history(10**6)).total_content_bytes == 3 * stats[0].bytes


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
