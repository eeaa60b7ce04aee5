"""Tables that npm ``agents`` 0.22 wrote, and tables that it reads after us."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.npm_postgres import DOCUMENTED_TABLES
from support.paths import NODE_MODULES, ROOT

from palimpsest.messages import Message, text_message, text_of
from palimpsest.session.provided.postgres import (
    POSTGRES_MIGRATION,
    PostgresContextProvider,
    PostgresSearchProvider,
    PostgresSessionProvider,
)
from palimpsest.session.session import Session
from tests.postgres.conftest import Client

SCRIPT = ROOT / "tests" / "postgres" / "npm_provider.mjs"


async def npm(client: Client, command: str) -> dict[str, Any]:
    """Run the package, and what it reads."""
    process = await asyncio.create_subprocess_exec(
        str(NODE_MODULES / ".bin" / "node"),
        "--no-warnings",
        str(SCRIPT),
        client.address.rpartition("host=")[2],
        command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


@pytest.fixture
def npm_tables(bare_client: Client) -> Client:
    """A client of a database with the documented tables only."""

    async def create() -> None:
        for statement in DOCUMENTED_TABLES:
            await bare_client.query(statement, [])

    asyncio.run(create())
    return bare_client


def comparable(history: list[Message]) -> list[Message]:
    """A history without the ``createdAt`` that overlays are given at each read there."""
    return [
        {name: value for name, value in message.items() if name != "createdAt"}
        for message in history
    ]


async def test_what_npm_wrote_is_read_and_goes_on(npm_tables: Client) -> None:
    theirs = await npm(npm_tables, "write")
    for statement in POSTGRES_MIGRATION:
        await npm_tables.query(statement, [])
    session = Session.create(PostgresSessionProvider(npm_tables, "s"))
    assert comparable(await session.get_history()) == comparable(theirs["history"])
    assert text_of((await session.get_history())[2]) == "notes two to four"
    assert comparable(await session.get_history("branch")) == comparable(theirs["branch"])
    leaf = await session.get_latest_leaf()
    assert leaf is not None
    assert leaf["id"] == theirs["leaf"] == "tool"
    assert [m["id"] for m in await session.get_branches("m4")] == theirs["branches"]
    assert await session.get_path_length() == theirs["length"] == 9
    mine = [(one.id, one.summary, one.to_message_id) for one in await session.get_compactions()]
    assert mine == [
        (one["id"], one["summary"], one["toMessageId"]) for one in theirs["compactions"]
    ]
    assert {one.id for one in await session.search("copper lantern")} == set(theirs["found"])
    assert await PostgresContextProvider(npm_tables, "memory_s").get() == theirs["memory"]
    found = await PostgresSearchProvider(npm_tables, "notes").search("where does the cat sleep")
    assert found == "[pets]\nThe cat sleeps on the copper roof."
    await session.append_message(text_message("new", "user", "from here"))
    assert [m["id"] for m in await session.get_history()][-2:] == ["tool", "new"]
    await session.delete_messages(["m2"])
    assert text_of((await session.get_history())[2]) == "notes two to four"


async def test_npm_reads_what_was_written_here(npm_tables: Client) -> None:
    for statement in POSTGRES_MIGRATION:
        await npm_tables.query(statement, [])
    session = Session.create(PostgresSessionProvider(npm_tables, "s"))
    for number in range(8):
        await session.append_message(text_message(f"m{number}", "user", f"copper lantern {number}"))
    await session.append_message(text_message("branch", "assistant", "另一个 🗝"), "m4")
    await session.append_message(text_message("tool", "assistant", "behind"), "m7")
    await session.add_compaction("two to five", "m2", "m5")
    await session.delete_messages(["m2"])
    await PostgresContextProvider(npm_tables, "memory_s").set("A cat.")
    theirs = await npm(npm_tables, "read")
    assert comparable(theirs["history"]) == comparable(await session.get_history())
    assert comparable(theirs["branch"]) == comparable(await session.get_history("branch"))
    assert theirs["leaf"] == "tool"
    assert theirs["branches"] == ["m5", "branch"]
    assert theirs["length"] == 8
    assert set(theirs["found"]) == {f"m{number}" for number in (0, 1, 3, 4, 5, 6, 7)}
    assert theirs["memory"] == "A cat."
