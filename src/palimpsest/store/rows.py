"""What the stores hand to each other: places, message rows and overlays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from palimpsest.hosts.interface import SqlValue
from palimpsest.messages import COMPACTION_PREFIX, Message
from palimpsest.store.search_reader import SESSION_SPAN


@dataclass(frozen=True, slots=True)
class Place:
    """A session's number and counters."""

    number: int
    next_seq: int
    """No message added from now on gets a lower sequence number."""
    edits: int
    """How many shifts there are."""

    @property
    def base(self) -> int:
        """What to add to a sequence number to get a key."""
        return self.number * SESSION_SPAN


class Totals(NamedTuple):
    """Messages, heuristic tokens and bytes of JSON on a path."""

    length: int
    tokens: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MessageRow:
    """One stored message without its content."""

    key: int
    run: int
    id: str
    role: str
    created_at: int
    tokens: int
    bytes: int
    revision: int
    extra: int
    as_of: int
    length: int
    """Stamped length of the path; true only together with the shifts since ``as_of``."""
    path_tokens: int
    path_bytes: int

    @property
    def number(self) -> int:
        """The session's number."""
        return self.key // SESSION_SPAN

    @property
    def seq(self) -> int:
        """The sequence number within the session."""
        return self.key % SESSION_SPAN


ROW_COLUMNS = (
    "key, run, id, role, created_at, tokens, bytes, revision, extra, as_of, path_length,"
    " path_tokens, path_bytes"
)
"""The columns of :class:`MessageRow`, in its order, of the views that hold whole messages."""


def message_row(values: Sequence[SqlValue]) -> MessageRow:
    """A row as selected with :data:`ROW_COLUMNS`."""
    return MessageRow(*cast("Sequence[Any]", values))


@dataclass(frozen=True, slots=True)
class Interval:
    """A stretch of a path: the messages of one run from ``low`` to ``high`` (both included)."""

    run: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class StoredCompaction:
    """An overlay: a summary that is shown in place of a stretch of messages.

    ``created_at`` is in ms since 1970, ``tokens`` the heuristic estimate of the message shown.
    A stale overlay covers a message that was forgotten: it is never shown, and its summary is ''.
    """

    id: str
    summary: str
    from_message_id: str
    to_message_id: str
    created_at: int
    tokens: int
    stale: bool


@dataclass(frozen=True, slots=True)
class Overlay:
    """An overlay with the places of its ends."""

    key: int
    from_seq: int
    from_run: int
    to_seq: int
    to_run: int
    stored: StoredCompaction

    @property
    def message_id(self) -> str:
        """The id of the synthetic message that shows it."""
        return COMPACTION_PREFIX + self.stored.id


Piece = Interval | Overlay
"""A part of a rendered path."""


@dataclass(frozen=True, slots=True)
class HistoryRowStat:
    """One message of a history without its content; ``bytes`` is the size of its JSON."""

    id: str
    role: str
    bytes: int
    tokens: int
    created_at: int


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """The newest messages of a history within a budget of bytes.

    ``truncated`` tells that older ones were left out; ``total_content_bytes`` is the size of all
    original messages of the path.
    """

    messages: list[Message]
    truncated: bool
    total_content_bytes: int
