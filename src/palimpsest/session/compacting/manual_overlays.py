"""Overlays given by hand: their ends are checked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterable

from palimpsest.compaction.delimiters import strip_frames
from palimpsest.errors import CompactionRangeError, UnknownMessageError
from palimpsest.messages import COMPACTION_PREFIX
from palimpsest.session.compacting.store import CompactionStore
from palimpsest.store.rows import StoredCompaction


def overlay_text(summary: str) -> str:
    """The summary as it is stored.

    :raises CompactionRangeError: it is blank.
    """
    text = strip_frames(summary)
    if not text:
        raise CompactionRangeError("an overlay needs a summary that is not blank")
    return text


def overlay_ends(overlays: Iterable[StoredCompaction], from_id: str, to_id: str) -> tuple[str, str]:
    """The first and last message of a range; an end may be the id of an overlay's own message."""
    shown = {COMPACTION_PREFIX + one.id: one for one in overlays}
    first, last = shown.get(from_id), shown.get(to_id)
    return (
        first.from_message_id if first else from_id,
        last.to_message_id if last else to_id,
    )


def insert_manual_overlay(
    store: CompactionStore, summary: str, from_id: str, to_id: str
) -> StoredCompaction:
    """Store an overlay; an end may be the id of another overlay's own message.

    :raises CompactionRangeError: the summary is blank, or the ends are reversed or not on one
        path.
    :raises UnknownMessageError: an end does not exist.
    """
    text = overlay_text(summary)
    begin, end = overlay_ends(store.list_overlays(), from_id, to_id)
    found = {message["id"] for message in store.read_messages([begin, end])}
    for identifier in (begin, end):
        if identifier not in found:
            raise UnknownMessageError(f"no message {identifier!r} in this session")
    token = store.range_token(begin, end)
    if token is None:
        if store.range_token(end, begin) is not None:
            raise CompactionRangeError(f"{begin!r} comes after {end!r} on its path")
        raise CompactionRangeError(f"{begin!r} and {end!r} are on different branches")
    stored = store.insert_overlay(text, begin, end, expected_token=token)
    assert stored is not None, "nothing was awaited since the token was read"
    return stored
