"""Upgrading a database that the TypeScript ``agents`` package (up to 0.22) wrote.

Its ``assistant_messages`` and ``assistant_compactions`` are set aside, read in their own order into
the tables of :mod:`palimpsest.store.message_tables`, compared one by one, and only then dropped:
all in the transaction of the migration, so that an upgrade happens once and completely or not at
all. Context blocks, search entries and the session registry are upgraded by their own stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import cast

from palimpsest.errors import MigrationError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import COMPACTION_PREFIX, Message
from palimpsest.store.context import ContextStore
from palimpsest.store.encoding import Encoded, encode_message, parse_content
from palimpsest.store.message_tables import PIECES
from palimpsest.store.messages import MessageStore
from palimpsest.store.overlays import OverlayStore
from palimpsest.store.payloads import PayloadStore
from palimpsest.store.reads import MessageReader
from palimpsest.store.rows import MessageRow, Place
from palimpsest.store.search_index import SearchIndex
from palimpsest.store.sessions import SessionRegistry
from palimpsest.store.tree import MessageTree
from palimpsest.tokens import TOKENS_PER_MESSAGE, count_string_tokens

OLD_MESSAGES = "assistant_messages_before_palimpsest"
OLD_COMPACTIONS = "assistant_compactions_before_palimpsest"


def set_legacy_tables_aside(sql: Sql) -> None:
    """Rename the old tables, once the stores that look at them have been upgraded."""
    if "session_id" not in _columns(sql, "assistant_messages"):
        return
    ContextStore.open(sql)
    SessionRegistry(sql)
    sql.execute(f"alter table assistant_messages rename to {OLD_MESSAGES}")
    if "from_message_id" in _columns(sql, "assistant_compactions"):
        sql.execute(f"alter table assistant_compactions rename to {OLD_COMPACTIONS}")


def move_legacy_rows(sql: Sql) -> None:
    """Move messages and overlays out of the tables set aside, verify them, drop those tables.

    :raises MigrationError: a message did not arrive as it was.
    """
    if not _columns(sql, OLD_MESSAGES):
        return
    _Mover(sql).run()


def _columns(sql: Sql, table: str) -> set[str]:
    return {str(row[1]) for row in sql.execute(f"pragma table_info({table})")}


def _milliseconds(timestamp: object) -> int:
    """An SQLite timestamp (UTC, whole seconds) in ms since 1970; 0 where it is none."""
    try:
        moment = datetime.fromisoformat(str(timestamp))
    except ValueError:
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))


class _Mover:
    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        self._tree = MessageTree(sql)
        payloads = PayloadStore(sql)
        self._messages = MessageStore(sql, self._tree, payloads, SearchIndex(sql))
        self._overlays = OverlayStore(sql, self._tree)
        self._reader = MessageReader(sql, payloads, lambda _id, _reason: None)
        self._echoes = self._overlay_ids()

    def run(self) -> None:
        for session_id in self._session_ids():
            self._move_messages(session_id)
            self._verify(session_id)
            self._move_overlays(session_id)
        self._sql.execute(f"drop table {OLD_MESSAGES}")
        if _columns(self._sql, OLD_COMPACTIONS):
            left = self._sql.execute(f"select count(*) from {OLD_COMPACTIONS}")[0][0]
            # Overlays whose ends are gone apply nowhere; their text is kept where it is.
            if not left:
                self._sql.execute(f"drop table {OLD_COMPACTIONS}")

    def _session_ids(self) -> list[str]:
        rows = self._sql.execute(f"select distinct session_id from {OLD_MESSAGES}")
        return sorted(str(row[0]) for row in rows)

    def _overlay_ids(self) -> set[str]:
        if not _columns(self._sql, OLD_COMPACTIONS):
            return set()
        rows = self._sql.execute(f"select id from {OLD_COMPACTIONS}")
        return {COMPACTION_PREFIX + str(row[0]) for row in rows}

    def _old_rows(
        self, session_id: str, ids: Iterable[str]
    ) -> Iterator[tuple[str, str, str, object]]:
        """Id, role, content and time of old messages, one after the other."""
        for identifier in ids:
            row = self._sql.execute(
                f"select id, role, content, created_at from {OLD_MESSAGES}"
                " where id = ? and session_id = ?",
                identifier,
                session_id,
            )[0]
            yield cast("tuple[str, str, str, object]", tuple(row))

    def _old_parents(self, session_id: str) -> dict[str, str | None]:
        """The parent of each old message, in the order of the original.

        None also where the parent does not exist: the original ends a path there. Where a parent
        is the echo of an overlay, the message follows what that echo followed.
        """
        rows = self._sql.execute(
            f"select id, parent_id from {OLD_MESSAGES} where session_id = ?"
            " order by created_at, rowid",
            session_id,
        )
        parents = {str(identifier): None if up is None else str(up) for identifier, up in rows}
        for identifier, parent in parents.items():
            seen = {identifier}
            while parent in self._echoes and parent not in seen:
                seen.add(parent)
                parent = parents.get(parent)
            parents[identifier] = parent if parent in parents else None
        return {one: parent for one, parent in parents.items() if one not in self._echoes}

    def _move_messages(self, session_id: str) -> None:
        self._messages.number_session(session_id)
        parents = ordered(self._old_parents(session_id))
        for identifier, role, content, created in self._old_rows(session_id, parents):
            self._add(session_id, identifier, parents[identifier], role, content, created)

    def _add(
        self,
        session_id: str,
        identifier: str,
        parent: str | None,
        role: str,
        content: str,
        created: object,
    ) -> None:
        message = parse_content(content)
        whole = message is not None and all(isinstance(part, dict) for part in message["parts"])
        if message is None or not whole or message["id"] != identifier:
            encoded = _raw(identifier, role, content)
        else:
            encoded = encode_message(message)
        self._messages.append_at(session_id, encoded, parent, _milliseconds(created))

    def _verify(self, session_id: str) -> None:
        place = self._messages.number_session(session_id)
        expected = 0
        ids = self._old_parents(session_id)
        for identifier, _role, content, _created in self._old_rows(session_id, ids):
            expected += 1
            message = parse_content(content)
            if message is None or message["id"] != identifier:
                if self._tree.row(place, identifier) is None:
                    raise MigrationError(f"message {identifier!r} is missing after the upgrade")
            elif self._reader.one(place, identifier) != parse_content(content):
                raise MigrationError(f"message {identifier!r} changed in the upgrade")
        count = self._sql.execute(
            "select count(*) from assistant_messages where session = ?", place.number
        )[0][0]
        if count != expected:
            raise MigrationError(f"session {session_id!r}: {expected} messages became {count}")

    def _move_overlays(self, session_id: str) -> None:
        if not _columns(self._sql, OLD_COMPACTIONS):
            return
        place = self._messages.number_session(session_id)
        rows = self._sql.execute(
            f"select id, summary, from_message_id, to_message_id, created_at"
            f" from {OLD_COMPACTIONS} where session_id = ? order by created_at, rowid",
            session_id,
        )
        for identifier, summary, first, last, created in rows:
            begin = self._tree.row(place, str(first))
            end = self._tree.row(place, str(last))
            if begin is None or end is None or not self._is_before(place, begin, end):
                continue
            tokens = TOKENS_PER_MESSAGE + count_string_tokens(str(summary))
            self._overlays.insert(
                place, str(identifier), str(summary), begin, end, tokens, _milliseconds(created)
            )
            self._sql.execute(f"delete from {OLD_COMPACTIONS} where id = ?", identifier)

    def _is_before(self, place: Place, begin: MessageRow, end: MessageRow) -> bool:
        return begin.seq <= end.seq and self._overlays.is_on_path(place, end, begin.run, begin.seq)


def ordered(parents: dict[str, str | None]) -> dict[str, str | None]:
    """The same messages with every parent before its children, else in the order given.

    Parents that form a cycle, which the original never showed from its newest message, are cut at
    the oldest of them and come first, so that the newest message stays the newest.
    """
    children: dict[str | None, list[str]] = {}
    for identifier, parent in parents.items():
        children.setdefault(parent, []).append(identifier)

    def below(roots: list[str]) -> set[str]:
        found: set[str] = set()
        pending = list(roots)
        while pending:
            one = pending.pop()
            if one not in found:
                found.add(one)
                pending += children.get(one, ())
        return found

    placed = below(children.get(None, []))
    cut = dict(parents)
    first: list[str] = []
    for identifier in parents:
        if identifier not in placed:
            cut[_oldest_of_cycle(parents, identifier)] = None
            component = below([_oldest_of_cycle(parents, identifier)]) - placed
            placed |= component
            first += [one for one in parents if one in component]
    result: dict[str, str | None] = {}
    early = set(first)
    for identifier in [*first, *(one for one in parents if one not in early)]:
        chain: list[str] = []
        at: str | None = identifier
        while at is not None and at not in result:
            chain.append(at)
            at = cut[at]
        for one in reversed(chain):
            result[one] = cut[one]
    return result


def _oldest_of_cycle(parents: dict[str, str | None], identifier: str) -> str:
    """Of the cycle that the parents of ``identifier`` run into, the member given first."""
    seen: list[str] = []
    at = identifier
    while at not in seen:
        seen.append(at)
        parent = parents[at]
        assert parent is not None, "a message that no root leads to hangs on a cycle"
        at = parent
    cycle = set(seen[seen.index(at) :])
    return next(one for one in parents if one in cycle)


def _raw(identifier: str, role: str, content: str) -> Encoded:
    """An old row that holds no message, kept as it is: reading it reports what is wrong.

    Its text is kept in pieces, so that no read of its neighbours has to parse it.
    """
    message: Message = {"id": identifier, "role": role, "parts": []}
    return Encoded(
        message, "null", len(content.encode()), TOKENS_PER_MESSAGE, PIECES, content or " ", []
    )
