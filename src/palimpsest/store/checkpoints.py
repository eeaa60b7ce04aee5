"""Chats with a canonical log: records, immutable checkpoints, replay, paging and rollback.

The log keeps every record for ever. A checkpoint stands in for the records below its boundary
when a prompt is built; a chat keeps all it ever took, and the active one is where its replay
begins. A revert, or a merge that accepts only part, that reaches below a boundary takes the
checkpoints above it away, in the transaction that appends it (compaction article, "Checkpoint
Storage"). Each method is one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.compaction.boundary import find_live_boundary, pending_requests
from palimpsest.compaction.projection import measure_context_tokens, project_chat_messages
from palimpsest.compaction.records import (
    AiChatMessage,
    CompactionCheckpoint,
    ConnectionRequestMessage,
    MergeMessage,
    RecordLike,
    RevertMessage,
    parse_record,
)
from palimpsest.compaction.replay import InitialBindings, ReplayResult, replay
from palimpsest.errors import CompactionError
from palimpsest.hosts.interface import Sql
from palimpsest.messages import dump_json
from palimpsest.store.schema import migrate

MIGRATIONS = (
    """
    create table palimpsest_chat_records (
      chat_id text not null,
      sequence integer not null,
      type text not null,
      body text not null,
      primary key (chat_id, sequence)
    ) without rowid;
    create table palimpsest_chat_checkpoints (
      chat_id text not null,
      compacted_to integer not null,
      body text not null,
      primary key (chat_id, compacted_to)
    ) without rowid;
    create table palimpsest_chats (
      chat_id text primary key,
      compacted_to integer,
      total_tokens integer
    ) without rowid;
    """,
)

READ_BATCH = 500
"""Records fetched by one statement."""

ChatId = str | int
"""A chat's id; a number and its text are the same chat."""


class LogConflictError(CompactionError):
    """A record or checkpoint does not follow what is stored; nothing was written."""


@dataclass(frozen=True, slots=True)
class CompactedPart:
    """What lies below a page of history: its boundary and the summary that covers it."""

    to: int
    summary: str
    proposed_change: Any = None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Records in ascending order, and the summary of what came before them, if compacted."""

    messages: list[AiChatMessage]
    compacted: CompactedPart | None = None


class CheckpointStore:
    """The logs and checkpoints of one database."""

    def __init__(self, sql: Sql) -> None:
        self._sql = sql
        migrate(sql, "chat_checkpoints", MIGRATIONS)

    # -- the log --------------------------------------------------------------------------------

    def append_record(self, record: RecordLike) -> AiChatMessage:
        """Append a record; one that reaches below a boundary rolls checkpoints back.

        :raises LogConflictError: its sequence is not the next one.
        :raises pydantic.ValidationError: it is not a record.
        """
        parsed = parse_record(record)
        chat = str(parsed.chat_id)

        def write() -> None:
            expected = self.next_sequence(chat)
            if parsed.sequence != expected:
                raise LogConflictError(
                    f"chat {chat!r}: the next sequence is {expected}, got {parsed.sequence}"
                )
            self._put(parsed)
            if isinstance(parsed, RevertMessage):
                self._rollback(chat, parsed.revert_from)
            elif isinstance(parsed, MergeMessage):
                self._rollback_partial_merge(chat, parsed)

        self._sql.transaction(write)
        return parsed

    def replace_record(self, record: RecordLike) -> AiChatMessage:
        """Change a stored record in place, as the answer to a connection request does.

        :raises LogConflictError: there is no such record, or it is of another type.
        """
        parsed = parse_record(record)

        def write() -> None:
            known = self.get_record(parsed.chat_id, parsed.sequence)
            if known is None or type(known) is not type(parsed):
                raise LogConflictError(
                    f"chat {parsed.chat_id!r} has no such record {parsed.sequence} to replace"
                )
            self._put(parsed)

        self._sql.transaction(write)
        return parsed

    def next_sequence(self, chat_id: ChatId) -> int:
        """The sequence that the next record of a chat gets."""
        rows = self._sql.execute(
            "select max(sequence) from palimpsest_chat_records where chat_id = ?", str(chat_id)
        )
        newest = rows[0][0]
        return 0 if newest is None else int(newest) + 1

    def get_record(self, chat_id: ChatId, sequence: int) -> AiChatMessage | None:
        """One record, compacted or not."""
        rows = self._sql.execute(
            "select body from palimpsest_chat_records where chat_id = ? and sequence = ?",
            str(chat_id),
            sequence,
        )
        return parse_record(json.loads(str(rows[0][0]))) if rows else None

    def list_records(
        self, chat_id: ChatId, start: int = 0, end: int | None = None
    ) -> list[AiChatMessage]:
        """Records with ``start <= sequence < end``, in order."""
        stop = self.next_sequence(chat_id) if end is None else end
        records: list[AiChatMessage] = []
        while start < stop:
            rows = self._sql.execute(
                "select body from palimpsest_chat_records"
                " where chat_id = ? and sequence >= ? and sequence < ?"
                " order by sequence limit cast(? as integer)",
                str(chat_id),
                start,
                stop,
                READ_BATCH,
            )
            if not rows:
                break
            records += [parse_record(json.loads(str(row[0]))) for row in rows]
            start = records[-1].sequence + 1
        return records

    def list_chat_tail(
        self, chat_id: ChatId, checkpoint: CompactionCheckpoint | None = None
    ) -> list[AiChatMessage]:
        """The records that a checkpoint leaves to replay."""
        return self.list_records(chat_id, checkpoint.compacted_to if checkpoint else 0)

    # -- checkpoints ----------------------------------------------------------------------------

    def get_active_compaction(self, chat_id: ChatId) -> CompactionCheckpoint | None:
        """The checkpoint where replay begins; None for a replay of everything."""
        rows = self._sql.execute(
            "select c.body from palimpsest_chats h join palimpsest_chat_checkpoints c"
            " on c.chat_id = h.chat_id and c.compacted_to = h.compacted_to where h.chat_id = ?",
            str(chat_id),
        )
        return _read_checkpoint(rows[0][0]) if rows else None

    def get_compaction_below(self, chat_id: ChatId, sequence: int) -> CompactionCheckpoint | None:
        """The newest checkpoint with a boundary strictly below ``sequence``."""
        rows = self._sql.execute(
            "select body from palimpsest_chat_checkpoints where chat_id = ? and compacted_to < ?"
            " order by compacted_to desc limit 1",
            str(chat_id),
            sequence,
        )
        return _read_checkpoint(rows[0][0]) if rows else None

    def list_checkpoints(self, chat_id: ChatId) -> list[CompactionCheckpoint]:
        """All checkpoints of a chat, by boundary."""
        rows = self._sql.execute(
            "select body from palimpsest_chat_checkpoints where chat_id = ? order by compacted_to",
            str(chat_id),
        )
        return [_read_checkpoint(row[0]) for row in rows]

    def commit_chat_compaction(
        self,
        checkpoint: CompactionCheckpoint,
        *,
        expected_compacted_to: int | None = None,
        expected_next_sequence: int | None = None,
    ) -> None:
        """Publish a checkpoint and make it the active one.

        The provider's token figure of the last step is dropped: the prompt is another one now. A
        request (``requested_by_sequence``) is committed once: repeating it after a crash changes
        nothing.

        :param expected_compacted_to: the active boundary that the checkpoint was made on (0 for
            none); compared before writing.
        :param expected_next_sequence: the log's next sequence when it was made, likewise.
        :raises LogConflictError: the log or the active checkpoint is not as expected, the boundary
            does not advance, or it lies beyond the log's end.
        """
        chat = str(checkpoint.chat_id)

        def write() -> None:
            active = self.get_active_compaction(chat)
            boundary = active.compacted_to if active else 0
            if self._requested(chat, checkpoint) is not None:
                return
            newest = self.next_sequence(chat)
            if expected_compacted_to is not None and boundary != expected_compacted_to:
                raise LogConflictError(
                    f"chat {chat!r}: the active boundary is {boundary}, "
                    f"the checkpoint was made on {expected_compacted_to}"
                )
            if expected_next_sequence is not None and newest != expected_next_sequence:
                raise LogConflictError(
                    f"chat {chat!r}: the log has grown from {expected_next_sequence} to {newest}"
                )
            if not boundary < checkpoint.compacted_to <= newest:
                raise LogConflictError(
                    f"chat {chat!r}: boundary {checkpoint.compacted_to} is not between "
                    f"{boundary} and {newest}"
                )
            self._sql.execute(
                "insert into palimpsest_chat_checkpoints (chat_id, compacted_to, body)"
                " values (?, ?, ?)",
                chat,
                checkpoint.compacted_to,
                checkpoint.model_dump_json(by_alias=True),
            )
            self._activate(chat, checkpoint.compacted_to)

        self._sql.transaction(write)

    def find_request(self, chat_id: ChatId, sequence: int) -> CompactionCheckpoint | None:
        """The checkpoint that the ``/compact`` record with this sequence made, if it did."""
        for checkpoint in self.list_checkpoints(chat_id):
            if checkpoint.requested_by_sequence == sequence:
                return checkpoint
        return None

    def rollback_chat_compaction(self, chat_id: ChatId, revert_from: int) -> bool:
        """Take away every checkpoint with a boundary above ``revert_from``; whether any was.

        The newest remaining one becomes active: no revert of its tail reaches below it.
        """
        return self._sql.transaction(lambda: self._rollback(str(chat_id), revert_from))

    # -- reading it all -------------------------------------------------------------------------

    def replay(self, chat_id: ChatId, initial_bindings: InitialBindings = ()) -> ReplayResult:
        """The chat's state from its active checkpoint and tail: as if all was replayed."""
        checkpoint = self.get_active_compaction(chat_id)
        carried = [
            record
            for sequence in (checkpoint.carried_requests if checkpoint else ())
            if (record := self.get_record(chat_id, sequence)) is not None
        ]
        tail = self.list_chat_tail(chat_id, checkpoint)
        return replay(checkpoint, tail, initial_bindings, carried)

    def find_boundary(
        self,
        chat_id: ChatId,
        input_budget: float,
        measured_tokens: float = 0,
        system_prompt: str = "",
    ) -> tuple[int | None, list[int]]:
        """Where the live rule cuts this chat now, and the pending requests it would carry."""
        checkpoint = self.get_active_compaction(chat_id)
        tail = self.list_chat_tail(chat_id, checkpoint)
        projection = project_chat_messages(tail, checkpoint)
        boundary = find_live_boundary(
            projection,
            tail,
            input_budget,
            measure_context_tokens(projection, tail, measured_tokens, system_prompt),
            checkpoint.compacted_to if checkpoint else 0,
        )
        if boundary is None:
            return None, []
        earlier: list[int] = []
        for sequence in checkpoint.carried_requests if checkpoint else ():
            record = self.get_record(chat_id, sequence)
            if isinstance(record, ConnectionRequestMessage) and record.state == "pending":
                earlier.append(sequence)
        return boundary, [*earlier, *pending_requests(tail, boundary)]

    def get_chat_history(self, chat_id: ChatId, before_sequence: int | None = None) -> HistoryPage:
        """One page of the log: from the checkpoint below to ``before_sequence`` or the end.

        ``compacted`` is None on the page that begins the chat.
        """
        if before_sequence is None:
            checkpoint = self.get_active_compaction(chat_id)
        elif before_sequence <= 0:
            return HistoryPage([])
        else:
            checkpoint = self.get_compaction_below(chat_id, before_sequence)
        start = checkpoint.compacted_to if checkpoint else 0
        messages = self.list_records(chat_id, start, before_sequence)
        if checkpoint is None:
            return HistoryPage(messages)
        return HistoryPage(
            messages,
            CompactedPart(checkpoint.compacted_to, checkpoint.summary, checkpoint.proposed_change),
        )

    def record_total_tokens(self, chat_id: ChatId, tokens: int) -> None:
        """Keep the provider's total of the last step, for the next measurement."""
        self._sql.execute(
            "insert into palimpsest_chats (chat_id, total_tokens) values (?, ?)"
            " on conflict (chat_id) do update set total_tokens = excluded.total_tokens",
            str(chat_id),
            tokens,
        )

    def total_tokens(self, chat_id: ChatId) -> int:
        """The provider's total of the last step; 0 since a compaction or rollback."""
        rows = self._sql.execute(
            "select total_tokens from palimpsest_chats where chat_id = ?", str(chat_id)
        )
        return int(rows[0][0] or 0) if rows else 0

    def delete_chat(self, chat_id: ChatId) -> None:
        """Remove a chat's records and checkpoints."""

        def write() -> None:
            for table in ("records", "checkpoints"):
                self._sql.execute(
                    f"delete from palimpsest_chat_{table} where chat_id = ?", str(chat_id)
                )
            self._sql.execute("delete from palimpsest_chats where chat_id = ?", str(chat_id))

        self._sql.transaction(write)

    # -- inside a transaction -------------------------------------------------------------------

    def _put(self, record: AiChatMessage) -> None:
        body: dict[str, Any] = record.model_dump(mode="json", by_alias=True)
        self._sql.execute(
            "insert into palimpsest_chat_records (chat_id, sequence, type, body)"
            " values (?, ?, ?, ?)"
            " on conflict (chat_id, sequence) do update set body = excluded.body",
            str(record.chat_id),
            record.sequence,
            str(body["type"]),
            dump_json(body),
        )

    def _requested(self, chat: str, checkpoint: CompactionCheckpoint) -> int | None:
        sequence = checkpoint.requested_by_sequence
        if sequence is None:
            return None
        found = self.find_request(chat, sequence)
        return found.compacted_to if found else None

    def _activate(self, chat: str, compacted_to: int | None) -> None:
        self._sql.execute(
            "insert into palimpsest_chats (chat_id, compacted_to) values (?, ?)"
            " on conflict (chat_id) do update set"
            " compacted_to = excluded.compacted_to, total_tokens = null",
            chat,
            compacted_to,
        )

    def _rollback(self, chat: str, revert_from: int) -> bool:
        removed = self._sql.execute(
            "delete from palimpsest_chat_checkpoints where chat_id = ? and compacted_to > ?"
            " returning compacted_to",
            chat,
            revert_from,
        )
        if not removed:
            return False
        below = self.get_compaction_below(chat, revert_from + 1)
        self._activate(chat, below.compacted_to if below else None)
        return True

    def _rollback_partial_merge(self, chat: str, merge: MergeMessage) -> None:
        """A merge that leaves a change below a boundary proposed takes that boundary away."""
        active = self.get_active_compaction(chat)
        if active is None or merge.merge_through >= active.compacted_to - 1:
            return
        rows = self._sql.execute(
            "select min(sequence) from palimpsest_chat_records"
            " where chat_id = ? and type = 'changes' and sequence > ? and sequence < ?",
            chat,
            merge.merge_through,
            active.compacted_to,
        )
        left_over = rows[0][0]
        if left_over is not None:
            self._rollback(chat, int(left_over))


def _read_checkpoint(body: Any) -> CompactionCheckpoint:
    return CompactionCheckpoint.model_validate_json(cast("str", body))


def records_json(records: Sequence[AiChatMessage]) -> list[dict[str, Any]]:
    """Records as camelCase JSON, for clients and exports."""
    return [record.model_dump(mode="json", by_alias=True) for record in records]
