"""Sessions over PostgreSQL beside npm ``agents`` 0.22 over the same server.

Each has a database of its own, with the tables and indexes of its own migration, one connection
over a socket, and conversations of the same messages. Blocks of rounds alternate.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
from support.bench import Bench
from support.npm_postgres import DOCUMENTED_TABLES
from support.paths import NODE_MODULES, ROOT
from support.postgres import PostgresServer, ensure_postgres

from palimpsest.messages import text_message
from palimpsest.session.provided.postgres import POSTGRES_MIGRATION, PostgresSessionProvider
from palimpsest.session.session import Session

PEER = Path(__file__).parent / "clients" / "postgres_peer.mjs"
NPM = "npm agents 0.22"
TEXT = "some ordinary words of a chat " * 8
BLOCKS = 3

FILL = """
insert into assistant_messages
    (id, session_id, parent_id, role, content, text_content, created_at)
select 'm' || n, $1::text, case when n > 0 then 'm' || (n - 1) end,
    case when n % 2 = 0 then 'user' else 'assistant' end,
    json_build_object('id', 'm' || n, 'role', case when n % 2 = 0 then 'user' else 'assistant' end,
        'parts', json_build_array(json_build_object('type', 'text', 'text', words)))::text,
    words, now() - interval '1 day' + n * interval '1 millisecond'
from (
    select n, $3::text || n || case when n % 97 = 0 then ' lantern 77' else '' end as words
    from generate_series(0, $2::integer - 1) as n
) as said"""

Times = dict[str, list[float]]
Summary = tuple[str, str, str] | tuple[()]
"""A summary's text, and the ends of what it covers."""


class Peer:
    """The package's process."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [NODE_MODULES / ".bin" / "node", "--no-warnings", PEER, directory],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def measure(self, conversation: str, rounds: int, summary: Summary = ()) -> Times:
        """Times of some rounds, in ms, behind a summary if one is given."""
        request = {
            "conversation": conversation,
            "rounds": rounds,
            "text": TEXT,
            "summary": summary or None,
        }
        return await asyncio.to_thread(self._ask, request)

    def _ask(self, request: dict[str, Any]) -> Times:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


async def timed(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


class Ours:
    """The same through this library."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._number = 0

    async def measure(self, conversation: str, rounds: int, summary: Summary = ()) -> Times:
        """Times of some rounds, in ms, behind a summary if one is given."""
        session = Session.create(PostgresSessionProvider(self._connection, conversation))
        if summary:
            await session.add_compaction(*summary)
        times: Times = {"append": [], "history": [], "search": []}
        for _ in range(rounds):
            self._number += 1
            message = text_message(f"new{self._number}", "user", TEXT)
            times["append"].append(await timed(lambda m=message: session.append_message(m)))
        for _ in range(min(rounds, 9)):
            times["history"].append(await timed(session.get_history))
            times["search"].append(await timed(lambda: session.search("lantern 77")))
        return times


async def compare(bench: Bench, server: PostgresServer) -> None:
    """Fill both databases and measure."""
    await (await asyncpg.connect(server.address)).execute("create database theirs")
    lengths = (100, 500) if bench.quick else (1_000, 10_000)
    mine = await asyncpg.connect(server.address)
    theirs = await asyncpg.connect(server.address_of("theirs"))
    for connection, statements in ((mine, POSTGRES_MIGRATION), (theirs, DOCUMENTED_TABLES)):
        for statement in statements:
            await connection.execute(statement)
        for length in lengths:
            await connection.execute(FILL, f"c{length}", length, TEXT)
        await connection.execute("analyze")
    ours, peer = Ours(mine), Peer(server.directory)
    try:
        for length in lengths:
            await compare_at(bench, ours, peer, length)
    finally:
        peer.stop()


async def compare_at(bench: Bench, ours: Ours, peer: Peer, length: int) -> None:
    """The figures at one length: of the whole conversation, and of one that was compacted."""
    rounds = 5 if bench.quick else 40
    found: tuple[Times, Times] = ({}, {})
    for block in range(BLOCKS + 1):
        for which in (0, 1) if block % 2 == 0 else (1, 0):
            times = await (ours, peer)[which].measure(f"c{length}", rounds)
            for name, values in times.items() if block else ():  # the first block warms up
                found[which].setdefault(name, []).extend(values)
    summary = ("What was said before.", "m3", f"m{length - 40}")
    for which in (0, 1):
        times = await (ours, peer)[which].measure(f"c{length}", rounds, summary)
        found[which]["history behind a summary"] = times["history"]
    for name in found[0]:
        mine, theirs = (statistics.median(times[name]) for times in found)
        bench.record(
            f"Postgres, {length} messages: {name}", mine, "ms", against=NPM, compared=theirs
        )


def run(bench: Bench) -> None:
    """Start a server and compare."""
    server = PostgresServer(ensure_postgres())
    server.start()
    try:
        asyncio.run(compare(bench, server))
    finally:
        server.stop()
