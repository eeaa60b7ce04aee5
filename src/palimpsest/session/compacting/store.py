"""What the compaction engine needs of the storage of one session.

All of it is synchronous: what is read or written between two awaits is one consistent state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from palimpsest.messages import Message
from palimpsest.store.rows import StoredCompaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PathEntry:
    """One message of a rendered path (overlays laid), without its content."""

    id: str
    """``compaction_<overlay id>`` where it is an overlay's synthetic message."""

    role: str
    tokens: int
    """The estimate stamped at write; of an overlay, that of its summary."""

    bytes: int
    overlay: StoredCompaction | None = None


class PathSource(Protocol):
    """One session's messages, as a compaction reads them before it stores anything."""

    def path_entries(self, leaf_id: str | None = None) -> list[PathEntry]:
        """The rendered path to a leaf (the active one by default), the root first."""
        ...

    def read_messages(self, ids: Sequence[str]) -> list[Message]:
        """Contents in the order asked; unknown ids are left out."""
        ...

    def range_token(self, from_id: str, to_id: str, leaf_id: str | None = None) -> str | None:
        """A text that changes when anything in the range, or an overlay on its path, changes.

        Appends and updates outside the range do not change it. None if an end is unknown, the
        ends are reversed, or they are not on one path.
        """
        ...


class CompactionStore(PathSource, Protocol):
    """The storage of one session, as the engine sees it."""

    @property
    def session_id(self) -> str:
        """The session's id; '' is the default session."""
        ...

    def context_tokens(self) -> int:
        """Tokens of the active path as rendered, and of the frozen prompt, in constant time."""
        ...

    def insert_overlay(
        self,
        summary: str,
        from_id: str,
        to_id: str,
        *,
        expected_token: str,
        leaf_id: str | None = None,
    ) -> StoredCompaction | None:
        """Store an overlay if the range's token is still the expected one; else None."""
        ...

    def remove_overlay(self, overlay_id: str) -> bool:
        """Delete an overlay; whether there was one."""
        ...

    def list_overlays(self) -> list[StoredCompaction]:
        """All overlays of the session, the oldest first."""
        ...

    def transaction(self, work: Callable[[], T]) -> T:
        """Run ``work`` in one transaction; joins an outer one."""
        ...
