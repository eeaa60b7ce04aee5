"""A PostgreSQL server for all tests here, and an empty schema for each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from support.postgres import PostgresServer, ensure_postgres

from palimpsest.session.provided.postgres import POSTGRES_MIGRATION

# The contract's tests and their helpers are those of the behaviour tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "behaviour"))


class Client:
    """Runs each statement on a connection of its own, so that any event loop may use it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.statements: list[str] = []

    async def query(self, text: str, params: Sequence[Any]) -> list[Any]:
        self.statements.append(text)
        connection = await asyncpg.connect(self.address)
        try:
            return await connection.fetch(text, *params)
        finally:
            await connection.close()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A running server."""
    running = PostgresServer(ensure_postgres())
    running.start()
    yield running
    running.stop()


async def _prepare(address: str, migrate: bool) -> None:
    connection = await asyncpg.connect(address)
    await connection.execute("drop schema public cascade; create schema public")
    for statement in POSTGRES_MIGRATION if migrate else ():
        await connection.execute(statement)
    await connection.close()


@pytest.fixture
def bare_client(server: PostgresServer) -> Client:
    """A client of an empty database."""
    asyncio.run(_prepare(server.address, migrate=False))
    return Client(server.address)


@pytest.fixture
def client(server: PostgresServer) -> Client:
    """A client of a migrated database."""
    asyncio.run(_prepare(server.address, migrate=True))
    return Client(server.address)
