"""The PostgreSQL providers: what is theirs alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from support.npm_postgres import DOCUMENTED_TABLES

from palimpsest.errors import ContextBlockError, InvalidMessageError
from palimpsest.messages import Message, text_message
from palimpsest.session.provided.postgres import (
    POSTGRES_MIGRATION,
    PostgresContextProvider,
    PostgresSearchProvider,
    PostgresSessionProvider,
)
from palimpsest.session.session import Session
from tests.postgres.conftest import Client


def said(identifier: str, words: str = "hello") -> Message:
    return text_message(identifier, "user", words)


def ids(messages: Sequence[Message]) -> list[str]:
    return [message["id"] for message in messages]


async def insert(client: Client, session: str, identifier: str, parent: str | None) -> None:
    """A row as another program writes it."""
    await client.query(
        "insert into assistant_messages (id, session_id, parent_id, role, content, text_content)"
        " values ($1, $2, $3, 'user', $4, 'hello')",
        [identifier, session, parent, json.dumps(said(identifier))],
    )


async def test_conversations_of_one_database_are_apart(client: Client) -> None:
    one = Session.create(PostgresSessionProvider(client)).for_session("one")
    two = Session.create(PostgresSessionProvider(client, "two"))
    await one.append_messages([said("a", "about cats"), said("b")])
    await two.append_messages([said("b", "about dogs"), said("a")])
    await two.add_compaction("two's", "b", "b")
    assert ids(await one.get_history()) == ["a", "b"]
    assert ids(await two.get_originals()) == ["b", "a"]
    assert await one.search("dogs") == []
    assert await one.get_compactions() == []
    await one.clear_messages()
    assert await one.get_history() == []
    assert ids(await two.get_originals()) == ["b", "a"]
    assert len(await two.get_compactions()) == 1


async def test_many_writers_of_one_conversation_make_one_chain(client: Client) -> None:
    async with asyncpg.create_pool(client.address, min_size=4, max_size=8) as pool:
        sessions = [Session.create(PostgresSessionProvider(pool)) for _ in range(8)]
        await asyncio.gather(
            *(
                session.append_message(said(f"m{writer}-{number}"))
                for writer, session in enumerate(sessions)
                for number in range(25)
            ),
            # Each of these is added by one of them only.
            *(session.append_message(said("shared")) for session in sessions),
        )
        history = await sessions[0].get_history()
    assert len(history) == 201
    for writer in range(8):
        mine = [one for one in ids(history) if one.startswith(f"m{writer}-")]
        assert mine == [f"m{writer}-{number}" for number in range(25)]


async def test_times_of_one_conversation_are_all_different(client: Client) -> None:
    provider = PostgresSessionProvider(client)
    await provider.append_message(said("later"))
    await client.query("update assistant_messages set created_at = now() + interval '1 day'", [])
    await provider.append_message(said("newest"))
    assert ids(await provider.get_history()) == ["later", "newest"]


async def test_an_append_is_one_statement_and_a_read_two(client: Client) -> None:
    session = Session.create(PostgresSessionProvider(client))
    await session.append_messages([said(f"m{number}") for number in range(40)])
    client.statements.clear()
    await session.append_message(said("m40"))
    assert len(client.statements) == 1
    client.statements.clear()
    assert len(await session.get_history()) == 41
    assert len(client.statements) == 2
    await session.add_compaction("most", "m0", "m35")
    client.statements.clear()
    assert len(await session.get_history()) == 6
    assert len(client.statements) == 3
    recent = await session.get_recent_history(200)
    assert ids(recent.messages) == ["m39", "m40"]
    assert recent.truncated
    assert recent.total_content_bytes > 40 * 60


class Answer:
    """Rows as the ``pg`` driver and its kin give them."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows


def texts_for(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if type(value) in (int, datetime) else value for name, value in row.items()
    }


async def test_any_client_will_do(client: Client) -> None:
    async def wrapped(text: str, params: Sequence[Any]) -> Answer:
        return Answer(await client.query(text, params))

    async def mapped(text: str, params: Sequence[Any]) -> dict[str, Any]:
        # Drivers over HTTP: times and large integers are texts.
        rows = await client.query(text, params)
        return json.loads(json.dumps({"rows": [texts_for(dict(row)) for row in rows]}))

    async with asyncpg.create_pool(client.address, min_size=1, max_size=1) as pool:
        connection = await asyncpg.connect(client.address)
        clients = [
            SimpleNamespace(query=wrapped),
            SimpleNamespace(query=mapped),
            pool,
            connection,
        ]
        for number, given in enumerate(clients):
            session = Session.create(PostgresSessionProvider(given))
            assert (await session.append_message(said(f"m{number}"))).inserted
            assert len(await session.get_history()) == number + 1
            assert await session.get_path_length() == number + 1
            stat = (await session.get_history_row_stats())[-1]
            assert (stat.id, stat.bytes > 50) == (f"m{number}", True)
            assert stat.created_at > 1_700_000_000_000
            await session.add_compaction("all", "m0", "m0")
            assert (await session.get_compactions())[-1].created_at > 1_700_000_000_000
            assert (await session.search("hello"))[0].score > 0
            notes = PostgresSearchProvider(given, "notes")
            assert (await notes.get() is None) == (number == 0)
            await notes.set(f"key {number}", "text")
        await connection.close()
    with pytest.raises(TypeError, match="query"):
        PostgresSessionProvider(object())
    with pytest.raises(TypeError, match="query"):
        PostgresContextProvider("postgresql://", "memory")


async def test_the_documented_tables_are_taken_over_as_they_are(bare_client: Client) -> None:
    connection = await asyncpg.connect(bare_client.address)
    for statement in DOCUMENTED_TABLES:
        await connection.execute(statement)
    await insert(bare_client, "s", "m0", None)
    await insert(bare_client, "s", "m1", "m0")
    await insert(bare_client, "s", "m2", "m1")
    await connection.execute(
        "insert into assistant_compactions (id, session_id, summary, from_message_id,"
        " to_message_id) values ('o', 's', 'a summary', 'm0', 'm1')"
    )
    before = await connection.fetch("select * from assistant_messages order by id")
    for _ in range(2):
        for statement in POSTGRES_MIGRATION:
            await connection.execute(statement)
    assert await connection.fetch("select * from assistant_messages order by id") == before
    await connection.close()
    session = Session.create(PostgresSessionProvider(bare_client, "s"))
    assert ids(await session.get_history()) == ["compaction_o", "m2"]
    await session.append_message(said("m3"))
    assert ids(await session.get_originals()) == ["m0", "m1", "m2", "m3"]
    await session.delete_messages(["m0"])
    assert ids(await session.get_history()) == ["compaction_o", "m2", "m3"]


async def test_without_the_migration_nothing_is_created(bare_client: Client) -> None:
    session = Session.create(PostgresSessionProvider(bare_client))
    with pytest.raises(asyncpg.UndefinedTableError):
        await session.append_message(said("m0"))
    tables = await bare_client.query(
        "select 1 from information_schema.tables where table_schema = 'public'", []
    )
    assert tables == []


async def test_damaged_rows_keep_their_places(client: Client) -> None:
    await insert(client, "", "m0", "gone")
    await insert(client, "", "m1", "m0")
    await insert(client, "", "m2", "m1")
    await client.query("update assistant_messages set content = '{\"id\":' where id = 'm1'", [])
    session = Session.create(PostgresSessionProvider(client))
    history = await session.get_history()
    assert ids(history) == ["m0", "m1", "m2"]
    assert history[1]["parts"][0]["type"] == "data-unreadable"
    await client.query("update assistant_messages set parent_id = 'm2' where id = 'm0'", [])
    assert ids(await session.get_history("m1")) == ["m2", "m0", "m1"]
    assert ids(await session.get_originals("m1")) == ["m2", "m0", "m1"]
    assert len(await session.get_history_row_stats("m1")) == 3
    await session.delete_messages(["m0"])
    assert set(ids(await session.get_history())) == {"m1", "m2"}


async def test_what_postgres_cannot_hold_is_refused(client: Client) -> None:
    session = Session.create(PostgresSessionProvider(client))
    with pytest.raises(InvalidMessageError, match="NUL"):
        await session.append_message(said("a\x00b"))
    with pytest.raises(InvalidMessageError, match="NUL"):
        await session.append_message({"id": "a", "role": "us\x00er", "parts": []})
    assert await session.get_history() == []
    with pytest.raises(InvalidMessageError, match="NUL"):
        PostgresSessionProvider(client, "\x00")


async def test_search_takes_words_as_alternatives(client: Client) -> None:
    session = Session.create(PostgresSessionProvider(client, "s"))
    texts = {
        "both": "We deploy on Friday at noon.",
        "one": "Friday is a holiday, Friday!",
        "inflected": "Deploying was hard",
        "other": "The cat sleeps.",
        "chinese": "我的猫叫米卡",
        "long": "ordinary words " * 100_000 + "unfindable",
    }
    for identifier, words in texts.items():
        await session.append_message(said(identifier, words))
    found = await session.search("deployment on Friday")
    assert found[0].id == "both"
    assert {one.id for one in found} == {"both", "one", "inflected"}
    assert found[0].score > found[1].score
    assert found[0].created_at > 1_700_000_000_000
    assert found[0].session_id == "s"
    assert [one.id for one in await session.search("米卡")] == ["chinese"]
    assert [one.id for one in await session.search("ordinary", 5)] == ["long"]
    # Beyond the first 250,000 characters nothing is indexed.
    assert await session.search("unfindable") == []
    for nothing in ("the", "", "???", "' | !(", "\x00", "\ud83d"):
        assert await session.search(nothing) == []
    assert len(await session.search("deploy Friday cat", 2)) == 2


async def test_blocks_are_written_through(client: Client) -> None:
    memory = PostgresContextProvider(client, "memory of one")
    assert await memory.get() is None
    await memory.set("Has a cat.\x00")
    await memory.set("Has two cats.\x00")
    assert await PostgresContextProvider(client, "memory of one").get() == "Has two cats. "
    assert await PostgresContextProvider(client, "memory of two").get() is None


async def test_entries_are_found_by_the_models_tool(client: Client) -> None:
    notes = PostgresSearchProvider(client)
    session = Session.create(PostgresSessionProvider(client)).with_context("notes", provider=notes)
    with pytest.raises(ContextBlockError, match="no label"):
        await notes.set("pets", "The cat is called Minka.")
    assert await session.freeze_system_prompt()
    assert await notes.get() is None
    await notes.set("pets", "The cat is called Minka.")
    await notes.set("pets", "The cat is called Mia.")
    await notes.set("plans", "We fly to Oslo on Tuesday with the cat.")
    block = await session.get_context_block("notes")
    assert block is not None
    assert (block.content, block.is_searchable) == ("2 entries indexed.", True)
    assert await session.context.search("notes", "cat called") == (
        "[pets]\nThe cat is called Mia.\n\n[plans]\nWe fly to Oslo on Tuesday with the cat."
    )
    assert await session.context.search("notes", "Minka") is None
    assert await PostgresSearchProvider(client, "other").search("cat") is None
    assert await notes.delete("pets")
    assert not await notes.delete("pets")
    assert await session.context.search("notes", "called") is None


async def test_a_lost_connection_reaches_the_caller(client: Client) -> None:
    pool = await asyncpg.create_pool(client.address, min_size=1, max_size=1)
    session = Session.create(PostgresSessionProvider(pool))
    await session.append_message(said("m0"))
    await pool.close()
    with pytest.raises(asyncpg.InterfaceError):
        await session.append_message(said("m1"))
    again = Session.create(PostgresSessionProvider(client))
    assert ids(await again.get_history()) == ["m0"]


async def test_a_long_conversation_is_read_as_a_whole(client: Client) -> None:
    await client.query(
        "insert into assistant_messages (id, parent_id, role, content, created_at)"
        " select 'm' || n, case when n > 0 then 'm' || (n - 1) end, 'user',"
        " json_build_object('id', 'm' || n, 'role', 'user', 'parts', json_build_array())::text,"
        " now() + n * interval '1 millisecond' from generate_series(0, 20000) as n",
        [],
    )
    session = Session.create(PostgresSessionProvider(client))
    assert await session.get_path_length() == 20_001
    history = await session.get_history()
    assert ids(history) == [f"m{number}" for number in range(20_001)]
    await session.add_compaction("nearly all", "m5", "m19995")
    assert len(await session.get_history()) == 11
    await session.delete_messages(["m5", "m19995"])
    assert len(await session.get_history()) == 11
