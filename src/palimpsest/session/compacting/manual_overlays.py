"""Overlays given by hand: their ends are checked before anything is stored."""

from __future__ import annotations

from palimpsest.compaction.delimiters import strip_frames
from palimpsest.errors import CompactionRangeError, UnknownMessageError
from palimpsest.messages import COMPACTION_PREFIX
from palimpsest.session.compacting.store import CompactionStore
from palimpsest.store.rows import StoredCompaction


def insert_manual_overlay(
    store: CompactionStore, summary: str, from_id: str, to_id: str
) -> StoredCompaction:
    """Store an overlay; an end may be the id of another overlay's own message.

    :raises CompactionRangeError: the summary is blank, or the ends are reversed or not on one
        path.
    :raises UnknownMessageError: an end does not exist.
    """
    text = strip_frames(summary)
    if not text:
        raise CompactionRangeError("an overlay needs a summary that is not blank")
    overlays = {COMPACTION_PREFIX + one.id: one for one in store.list_overlays()}
    first, last = overlays.get(from_id), overlays.get(to_id)
    begin = first.from_message_id if first else from_id
    end = last.to_message_id if last else to_id
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
