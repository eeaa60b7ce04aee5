"""Sessions, context blocks and searchable entries in PostgreSQL (Sessions document).

The providers never create tables: run :data:`POSTGRES_MIGRATION` once, with whatever runs your
migrations. They work on the tables of the TypeScript package, too, once that has been run over
them. A client is anything with an async ``query(text, params)``, or an ``asyncpg`` connection or
pool as it is; the library depends on no driver.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from palimpsest.errors import ContextBlockError, InvalidMessageError, UnknownParentError
from palimpsest.messages import COMPACTION_PREFIX, Message, dump_json, text_of
from palimpsest.search.query import parse_query
from palimpsest.session.changes import UNSET, UnsetType
from palimpsest.session.provided.overlaying import lay_overlays
from palimpsest.session.provided.values import milliseconds, overlay_tokens
from palimpsest.session.providers import SEARCH_LIMIT, resolve
from palimpsest.store import postgres as sql
from palimpsest.store.overlays import overlay_message
from palimpsest.store.postgres import POSTGRES_MIGRATION
from palimpsest.store.reads import unreadable_message
from palimpsest.store.rows import HistoryRowStat, RecentHistory, StoredCompaction
from palimpsest.store.search_text import HAS_UNSPACED, storable

__all__ = [
    "POSTGRES_MIGRATION",
    "PostgresClient",
    "PostgresContextProvider",
    "PostgresSearchProvider",
    "PostgresSessionProvider",
]


class PostgresClient(Protocol):
    """What the providers send statements with.

    Instead of ``query``, a method ``fetch(text, *params)`` as ``asyncpg`` has it is as good.
    """

    def query(self, text: str, params: Sequence[str | int | None]) -> Any:
        """Run one statement with ``$1``, ``$2``, ... and give its rows; may be a coroutine.

        :returns: a list of rows that are read by column name, or an object or mapping that has
            one under ``rows``.
        """
        ...


class _Statements:
    """Sends statements with whatever client was given."""

    def __init__(self, client: Any) -> None:
        if not callable(getattr(client, "query", None)) and not callable(
            getattr(client, "fetch", None)
        ):
            raise TypeError(
                "a Postgres client has query(text, params) or fetch(text, *params): "
                f"{type(client).__name__}"
            )
        self._client = client

    async def rows(self, text: str, *params: str | int | None) -> list[Any]:
        """The rows of one statement."""
        if callable(getattr(self._client, "query", None)):
            found: Any = await resolve(self._client.query(text, list(params)))
        else:
            found = await resolve(self._client.fetch(text, *params))
        if isinstance(found, Mapping):
            found = cast("Mapping[str, Any]", found)["rows"]
        return list(getattr(found, "rows", found))

    async def first(self, text: str, *params: str | int | None) -> Any:
        """The first row, or None."""
        rows = await self.rows(text, *params)
        return rows[0] if rows else None

    async def search(
        self, by_words: str, by_runs: str, key: str, query: str, limit: int
    ) -> list[Any]:
        """The rows that a query in plain words finds.

        :param by_runs: the statement for a query with runs of a script without spaces.
        :param key: the conversation or label.
        """
        parsed = parse_query(query)
        shown = [word for term in parsed.terms for word in term.shown] if parsed else []
        runs = dict.fromkeys(word for word in shown if HAS_UNSPACED.search(word))
        if not runs:
            return await self.rows(by_words, key, storable(query), limit)
        return await self.rows(by_runs, key, storable(query), limit, dump_json(list(runs)))


class PostgresSessionProvider:
    """A conversation in PostgreSQL: a :class:`~.storage_provider.SessionProvider`.

    Several processes may write to one conversation: an append chooses its parent under a lock of
    that conversation, in one call. A read is one or two statements, whatever the length.
    """

    def __init__(self, client: Any, session_id: str = "") -> None:
        """A provider.

        :param client: see :class:`PostgresClient`.
        :param session_id: the conversation; '' is the default one.
        :raises TypeError: it is no client.
        """
        self._client = client
        self._statements = _Statements(client)
        self._session_id = _key(session_id, "a session id")

    def for_session(self, session_id: str) -> PostgresSessionProvider:
        """The provider of another conversation."""
        return PostgresSessionProvider(self._client, session_id)

    # -- reading ----------------------------------------------------------------------------

    async def get_message(self, message_id: str) -> Message | None:
        """A message by its id, or None."""
        if "\x00" in message_id:
            return None
        row = await self._statements.first(sql.GET_MESSAGE, self._session_id, message_id)
        return None if row is None else _message(row)

    async def get_latest_leaf(self) -> Message | None:
        """The newest message, or None."""
        row = await self._statements.first(sql.GET_LATEST_LEAF, self._session_id)
        return None if row is None else _message(row)

    async def get_branches(self, message_id: str) -> list[Message]:
        """The children of a message, in the order they were added."""
        return _messages(
            await self._statements.rows(sql.GET_BRANCHES, self._session_id, message_id)
        )

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """How many messages a path has."""
        row = await self._statements.first(sql.GET_PATH_LENGTH, self._session_id, leaf_id)
        return int(row["length"])

    async def get_originals(self, leaf_id: str | None = None) -> list[Message]:
        """The path to a message, without overlays."""
        rows = await self._statements.rows(sql.GET_ORIGINALS, self._session_id, leaf_id)
        return _messages(_distinct(rows))

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """The path to a message, overlays laid; what they cover is not read."""
        overlays = await self.get_compactions()
        if not overlays:
            return await self.get_originals(leaf_id)
        rows = await self._statements.rows(sql.GET_PATH, self._session_id, leaf_id)
        path = [str(row["id"]) for row in _distinct(rows)]
        return await self._contents(lay_overlays(path, overlays))

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: int = 1
    ) -> RecentHistory:
        """The newest messages of a path within a budget of bytes; only they are read."""
        stats = await self.get_history_row_stats(leaf_id)
        sizes = {one.id: one.bytes for one in stats}
        shown = lay_overlays([one.id for one in stats], await self.get_compactions())
        start, size = len(shown), 0
        while start > 0:
            piece = shown[start - 1]
            size += sizes[piece] if isinstance(piece, str) else len(piece.summary.encode())
            if size > max_content_bytes and len(shown) - start >= max(1, min_recent_messages):
                break
            start -= 1
        messages = await self._contents(shown[start:])
        return RecentHistory(messages, start > 0, sum(sizes.values()))

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[HistoryRowStat]:
        """The sizes of a path's messages; ``tokens`` is a quarter of the bytes."""
        rows = await self._statements.rows(sql.GET_PATH_SIZES, self._session_id, leaf_id)
        return [
            HistoryRowStat(
                id=str(row["id"]),
                role=str(row["role"]),
                bytes=int(row["bytes"]),
                tokens=int(row["bytes"]) // 4,
                created_at=milliseconds(row["created_at"]) or 0,
            )
            for row in _distinct(rows)
        ]

    async def _contents(self, shown: Sequence[str | StoredCompaction]) -> list[Message]:
        wanted = [piece for piece in shown if isinstance(piece, str)]
        rows = await self._statements.rows(sql.GET_CONTENTS, self._session_id, dump_json(wanted))
        stored = {message["id"]: message for message in _messages(rows)}
        return [
            overlay_message(piece) if isinstance(piece, StoredCompaction) else stored[piece]
            for piece in shown
            if isinstance(piece, StoredCompaction) or piece in stored
        ]

    async def search_messages(self, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """The messages that hold words of a query, those that hold all of them first.

        Words are taken in their English base forms; runs of scripts without spaces are found as
        they stand. The first 250,000 characters of a message's text are searched.
        """
        rows = await self._statements.search(
            sql.SEARCH_MESSAGES, sql.SEARCH_MESSAGES_BY_RUNS, self._session_id, query, limit
        )
        return [
            {
                "id": row["id"],
                "role": row["role"],
                "content": row["content"],
                "score": float(row["score"]),
                "createdAt": milliseconds(row["created_at"]) or 0,
                "sessionId": self._session_id,
            }
            for row in rows
        ]

    # -- writing ----------------------------------------------------------------------------

    async def append_message(
        self, message: Message, parent_id: str | UnsetType | None = UNSET
    ) -> bool:
        """Add a message; whether it was new.

        :raises UnknownParentError: there is no such parent.
        :raises InvalidMessageError: its id or role holds a NUL character.
        """
        if isinstance(parent_id, UnsetType):
            place, parent = "newest", None
        elif parent_id is None:
            place, parent = "root", None
        else:
            place, parent = "below", parent_id
        row = await self._statements.first(
            sql.APPEND_MESSAGE,
            self._session_id,
            _key(message["id"], "a message id"),
            place,
            parent,
            _key(message["role"], "a role"),
            dump_json(message),
            _indexed(message),
        )
        if row["outcome"] == "no parent":
            raise UnknownParentError(f"parent {parent_id!r} is not in session {self._session_id!r}")
        return row["outcome"] == "inserted"

    async def update_message(self, message: Message) -> None:
        """Replace the message of the same id."""
        await self._statements.rows(
            sql.UPDATE_MESSAGE,
            self._session_id,
            message["id"],
            _key(message["role"], "a role"),
            dump_json(message),
            _indexed(message),
        )

    async def delete_messages(self, ids: list[str]) -> None:
        """Remove messages in one transaction; children move up, overlays shrink."""
        await self._statements.rows(sql.DELETE_MESSAGES, self._session_id, dump_json(list(ids)))

    async def clear_messages(self) -> None:
        """Remove all messages and overlays of the conversation in one statement."""
        await self._statements.rows(sql.CLEAR_MESSAGES, self._session_id)

    async def add_compaction(self, summary: str, from_id: str, to_id: str) -> StoredCompaction:
        """Store an overlay."""
        row = await self._statements.first(
            sql.ADD_COMPACTION,
            self._session_id,
            str(uuid.uuid4()),
            storable(summary),
            from_id,
            to_id,
        )
        return _compaction(row)

    async def remove_compaction(self, compaction_id: str) -> bool:
        """Delete an overlay; whether there was one."""
        identifier = compaction_id.removeprefix(COMPACTION_PREFIX)
        row = await self._statements.first(sql.REMOVE_COMPACTION, self._session_id, identifier)
        return row is not None

    async def get_compactions(self) -> list[StoredCompaction]:
        """All overlays of the conversation, the oldest first."""
        rows = await self._statements.rows(sql.GET_COMPACTIONS, self._session_id)
        return [_compaction(row) for row in rows]


class PostgresContextProvider:
    """One writable block, or the cached prompt, in PostgreSQL."""

    def __init__(self, client: Any, label: str) -> None:
        """A provider.

        :param client: see :class:`PostgresClient`.
        :param label: the row; blocks of different conversations need different ones.
        :raises TypeError: it is no client.
        """
        self._statements = _Statements(client)
        self._label = _key(label, "a label")

    async def get(self) -> str | None:
        """The stored content, or None."""
        row = await self._statements.first(sql.GET_BLOCK, self._label)
        return None if row is None else str(row["content"])

    async def set(self, content: str) -> None:
        """Store the content; NUL characters and halves of surrogate pairs become spaces."""
        await self._statements.rows(sql.SET_BLOCK, self._label, storable(content))


class PostgresSearchProvider:
    """Searchable entries in PostgreSQL."""

    def __init__(self, client: Any, label: str | None = None) -> None:
        """A provider.

        :param client: see :class:`PostgresClient`.
        :param label: the entries' label; None takes that of the block it is used for.
        :raises TypeError: it is no client.
        """
        self._statements = _Statements(client)
        self._label = label

    def init(self, label: str) -> None:
        """Take the block's label where none was given."""
        if self._label is None:
            self._label = label

    async def get(self) -> str | None:
        """How many entries there are, or None for none."""
        row = await self._statements.first(sql.COUNT_ENTRIES, self._own_label())
        entries = int(row["entries"])  # some drivers give large integers as text
        return f"{entries} entries indexed." if entries else None

    async def set(self, key: str, content: str) -> None:
        """Write one entry, replacing an earlier one with that key."""
        await self._statements.rows(
            sql.SET_ENTRY, self._own_label(), _key(key, "a key"), storable(content)
        )

    async def delete(self, key: str) -> bool:
        """Remove one entry; whether there was one."""
        return await self._statements.first(sql.DELETE_ENTRY, self._own_label(), key) is not None

    async def search(self, query: str) -> str | None:
        """The ten entries that fit best, each under its ``[key]``, or None."""
        rows = await self._statements.search(
            sql.SEARCH_ENTRIES, sql.SEARCH_ENTRIES_BY_RUNS, self._own_label(), query, SEARCH_LIMIT
        )
        return "\n\n".join(f"[{row['key']}]\n{row['content']}" for row in rows) or None

    def _own_label(self) -> str:
        if self._label is None:
            raise ContextBlockError("PostgresSearchProvider: no label, and used for no block yet")
        return _key(self._label, "a label")


def _key(text: str, what: str) -> str:
    if "\x00" in text:
        raise InvalidMessageError(f"{what} in Postgres holds no NUL character: {text!r}")
    return text


def _indexed(message: Message) -> str:
    return storable(text_of(message))[: sql.MAX_INDEXED_CHARACTERS]


def _messages(rows: Sequence[Any]) -> list[Message]:
    """The messages of rows: parsed all at once, one by one only where one cannot be read."""
    try:
        parsed: list[Any] = json.loads(f"[{','.join(row['content'] for row in rows)}]")
    except ValueError:
        return [_message(row) for row in rows]
    if len(parsed) != len(rows):
        return [_message(row) for row in rows]
    return [_of_row(row, value) for row, value in zip(rows, parsed, strict=True)]


def _message(row: Any) -> Message:
    try:
        return _of_row(row, json.loads(row["content"]))
    except ValueError as error:
        return unreadable_message(row["id"], row["role"], f"its JSON is broken: {error}")


def _of_row(row: Any, value: Any) -> Message:
    """The message of a row; one that cannot be read keeps its place."""
    if not isinstance(value, dict):
        return unreadable_message(row["id"], row["role"], "it is no message")
    message = cast("Message", value)
    if not isinstance(message.get("parts"), list):
        return unreadable_message(row["id"], row["role"], "it has no parts")
    message["id"], message["role"] = row["id"], row["role"]
    return message


def _compaction(row: Any) -> StoredCompaction:
    summary = str(row["summary"])
    return StoredCompaction(
        id=str(row["id"]),
        summary=summary,
        from_message_id=str(row["from_message_id"]),
        to_message_id=str(row["to_message_id"]),
        created_at=milliseconds(row["created_at"]) or 0,
        tokens=overlay_tokens(summary),
        stale=False,
    )


def _distinct(rows: Sequence[Any]) -> list[Any]:
    """A path without the repetitions that a cycle of parents leaves."""
    seen = {row["id"]: row for row in reversed(rows)}
    return list(rows) if len(seen) == len(rows) else list(reversed(seen.values()))
