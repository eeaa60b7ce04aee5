"""Opening the stores of one database: tables made, upgrades run, everything wired together."""

from __future__ import annotations

from palimpsest.hosts.interface import Host
from palimpsest.store.legacy import move_legacy_rows, set_legacy_tables_aside
from palimpsest.store.message_tables import DROP_WRITING_VIEW, TABLES
from palimpsest.store.messages import MessageStore
from palimpsest.store.overlays import OverlayStore
from palimpsest.store.payloads import PayloadStore
from palimpsest.store.reads import MessageReader
from palimpsest.store.schema import migrate
from palimpsest.store.search_index import SearchIndex
from palimpsest.store.texts import MessageTexts
from palimpsest.store.tree import MessageTree


class Stores:
    """All that a session needs of the database."""

    def __init__(self, host: Host) -> None:
        """Open the stores.

        :raises MigrationError: the database is newer than this library, or holds tables of the
            TypeScript package that could not be moved completely.
        """
        sql = host.sql
        self.sql = sql
        self.index = SearchIndex(sql)
        migrate(
            sql,
            "messages",
            (set_legacy_tables_aside, TABLES, move_legacy_rows, DROP_WRITING_VIEW),
        )
        self.tree = MessageTree(sql)
        self.payloads = PayloadStore(sql)
        self.messages = MessageStore(sql, self.tree, self.payloads, self.index)
        self.overlays = OverlayStore(sql, self.tree)
        self.reader = MessageReader(
            sql,
            self.payloads,
            lambda message_id, reason: host.log(
                {"event": "session.unreadable", "messageId": message_id, "reason": reason}
            ),
        )
        self.texts = MessageTexts(sql, self.reader)
