"""The agent's state: one JSON value in the table that the ``agents`` package uses for it."""

from __future__ import annotations

import json
from typing import Any

from palimpsest.hosts.interface import Sql
from palimpsest.store.schema import migrate

STATE_ROW = "cf_state_row_id"

MIGRATIONS = (
    "create table if not exists cf_agents_state (id text primary key not null, state text)",
)


class StateStore:
    """The row that holds the state."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        migrate(sql, "state", MIGRATIONS)

    def load(self) -> tuple[bool, Any]:
        """Whether a state is stored, and the state."""
        rows = self._sql.execute("select state from cf_agents_state where id = ?", STATE_ROW)
        if not rows or not isinstance(rows[0][0], str):
            return False, None
        return True, json.loads(rows[0][0])

    def save(self, text: str) -> None:
        """Store the JSON text of a state."""
        self._sql.execute(
            "insert into cf_agents_state (id, state) values (?, ?)"
            " on conflict (id) do update set state = excluded.state",
            STATE_ROW,
            text,
        )
