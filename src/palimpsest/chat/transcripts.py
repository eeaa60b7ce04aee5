"""The conversation as clients are sent it: JSON text straight from the store."""

from __future__ import annotations

from collections.abc import Iterator

from palimpsest.session.history import History
from palimpsest.session.session import Session
from palimpsest.store.rows import Interval, Place


def newest_originals(session: Session, leaf: str, max_bytes: int) -> list[str]:
    """The end of a branch as JSON texts of one or more messages each, oldest first.

    :param max_bytes: what they may have in all; the newest message is given however large it is.
    """
    place, intervals = _path(session, leaf)
    return [] if place is None else session.stores.texts.newest(place, intervals, max_bytes)


def all_originals(session: Session, leaf: str) -> Iterator[str]:
    """A branch from its beginning, in the same form, read as it is asked for."""
    place, intervals = _path(session, leaf)
    return iter(()) if place is None else session.stores.texts.forward(place, intervals)


def _path(session: Session, leaf: str) -> tuple[Place | None, list[Interval]]:
    found = History(session.stores, session.id).pieces(leaf, False)
    if found is None:
        return None, []
    place, pieces = found
    return place, [piece for piece in pieces if isinstance(piece, Interval)]
