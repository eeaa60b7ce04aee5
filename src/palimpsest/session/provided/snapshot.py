"""A history in memory, as a compaction over a storage provider reads it."""

from __future__ import annotations

from collections.abc import Sequence

from palimpsest.errors import SessionProviderError
from palimpsest.messages import COMPACTION_PREFIX, Message, is_compaction_message
from palimpsest.session.compacting.store import PathEntry
from palimpsest.session.provided.values import json_bytes, overlay_tokens
from palimpsest.store.rows import StoredCompaction
from palimpsest.tokens import count_message_tokens


class HistorySnapshot:
    """Implements :class:`palimpsest.session.compacting.store.PathSource` over one read history."""

    def __init__(self, messages: Sequence[Message], overlays: Sequence[StoredCompaction]) -> None:
        """A snapshot.

        :param messages: a path as it is shown, overlays laid.
        :param overlays: all overlays of the conversation.
        :raises SessionProviderError: the path shows an overlay that is not among them.
        """
        self._messages = list(messages)
        known = {COMPACTION_PREFIX + one.id: one for one in overlays}
        self._entries = [_entry(message, known) for message in messages]
        self._by_id = {message["id"]: message for message in messages}

    @property
    def tokens(self) -> int:
        """Tokens of the whole path as it is shown."""
        return sum(entry.tokens for entry in self._entries)

    def path_entries(self, leaf_id: str | None = None) -> list[PathEntry]:
        """The path; a snapshot holds one only."""
        del leaf_id
        return list(self._entries)

    def read_messages(self, ids: Sequence[str]) -> list[Message]:
        """Contents in the order asked; unknown ids are left out."""
        return [self._by_id[one] for one in ids if one in self._by_id]

    def range_token(self, from_id: str, to_id: str, leaf_id: str | None = None) -> str | None:
        """A text for a range that the snapshot holds: it never changes; else None."""
        del leaf_id
        return None if self.shown(from_id, to_id) is None else ""

    def shown(self, from_id: str, to_id: str) -> list[tuple[str, object]] | None:
        """What is shown of a range, to be compared with what another snapshot shows of it.

        The ends may lie under overlays. None where the range is not on the path.
        """
        start = next(
            (index for index, one in enumerate(self._entries) if from_id in _ends(one)), None
        )
        end = next((index for index, one in enumerate(self._entries) if to_id in _ends(one)), None)
        if start is None or end is None or end < start:
            return None
        # Only id and parts: a provider may stamp an overlay's message anew at each read.
        return [(one["id"], one["parts"]) for one in self._messages[start : end + 1]]


def _ends(entry: PathEntry) -> tuple[str, ...]:
    if entry.overlay is None:
        return (entry.id,)
    return (entry.overlay.from_message_id, entry.overlay.to_message_id)


def _entry(message: Message, overlays: dict[str, StoredCompaction]) -> PathEntry:
    size = json_bytes(message)
    if not is_compaction_message(message):
        tokens = count_message_tokens(message)
        return PathEntry(message["id"], message["role"], tokens, size)
    overlay = overlays.get(message["id"])
    if overlay is None:
        raise SessionProviderError(f"get_compactions() lacks the overlay of {message['id']!r}")
    return PathEntry(message["id"], message["role"], overlay_tokens(overlay.summary), size, overlay)
