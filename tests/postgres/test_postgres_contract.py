"""Everything that a session promises, over PostgreSQL."""

from __future__ import annotations

import pytest

from palimpsest.session.provided.postgres import PostgresContextProvider, PostgresSessionProvider
from palimpsest.session.session import Session
from tests.behaviour import test_session_contract as contract
from tests.behaviour.storages import Storage
from tests.postgres.conftest import Client

globals().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


class PostgresStorage:
    """One conversation in PostgreSQL."""

    searches = True
    removes_overlays = True

    def __init__(self, client: Client) -> None:
        self._client = client

    def session(self) -> Session:
        return Session.create(PostgresSessionProvider(self._client, "conversation"))

    def block(self, label: str) -> PostgresContextProvider:
        return PostgresContextProvider(self._client, label)


@pytest.fixture
def storage(client: Client) -> Storage:
    """An empty conversation."""
    return PostgresStorage(client)
