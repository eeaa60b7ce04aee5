"""Schema versions and migrations.

The platform has no ``PRAGMA user_version``, so each family of tables keeps its version in a row of
``palimpsest_schema``. A family's migrations are a tuple; its version is how many of them ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palimpsest.errors import MigrationError, SqlError
from palimpsest.hosts.interface import Sql

Migration = str | Callable[[Sql], None]
"""SQL text (several statements allowed), or a function that is given the database."""


def schema_version(sql: Sql, component: str) -> int:
    """How many migrations of ``component`` have run on this database; 0 for a new one.

    Only reads, unless the database is new: a wake must not cost a write.
    """
    query = "select version from palimpsest_schema where component = ?"
    try:
        rows = sql.execute(query, component)
    except SqlError:
        sql.execute(
            "create table if not exists palimpsest_schema"
            " (component text primary key, version integer not null) without rowid"
        )
        rows = sql.execute(query, component)
    return int(rows[0][0] or 0) if rows else 0


def migrate(sql: Sql, component: str, migrations: Sequence[Migration]) -> None:
    """Bring ``component``'s tables to the newest version, all steps in one transaction.

    :raises MigrationError: the database was written by a newer version of the library.
    """
    version = schema_version(sql, component)
    if version == len(migrations):
        return
    if version > len(migrations):
        raise MigrationError(
            f"tables of {component!r} have version {version}, this library knows "
            f"{len(migrations)}: install a newer palimpsest"
        )

    def run() -> None:
        for migration in migrations[version:]:
            if isinstance(migration, str):
                sql.execute(migration)
            else:
                migration(sql)
        sql.execute(
            "insert into palimpsest_schema (component, version) values (?, ?)"
            " on conflict (component) do update set version = excluded.version",
            component,
            len(migrations),
        )

    sql.transaction(run)
