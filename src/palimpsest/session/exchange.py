"""A whole session as JSON Lines, and back: every branch, every overlay, in bounded pieces.

Lines: ``{"type": "session", ...}`` first; then for each message of any branch, in the order in
which they were added, ``{"type": "message", "message", "parentId", "createdAt"}``; then for each
overlay ``{"type": "compaction", "summary", "fromMessageId", "toMessageId", "createdAt"}``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from palimpsest.errors import InvalidImportError, PalimpsestError
from palimpsest.interchange import Conversation
from palimpsest.messages import Message, dump_json
from palimpsest.session.session import UNSET, Session
from palimpsest.store.rows import Interval, MessageRow, Place
from palimpsest.store.sessions import SessionInfo

FORMAT_VERSION = 1

_ROWS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class ImportResult:
    """How many messages and overlays were added, and how many messages were there before."""

    imported: int
    skipped: int
    compactions: int


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One message of a session's tree. ``created_at`` is in ms since 1970."""

    message: Message
    parent_id: str | None
    created_at: int


async def tree_entries(session: Session) -> AsyncIterator[TreeEntry]:
    """Every message of every branch in the order in which they were added; parents come first.

    Reads a bounded stretch at a time and lets other work run in between; what is deleted
    meanwhile is left out.
    """
    stores = session.stores
    place = stores.tree.place(session.id)
    newest = None if place is None else stores.tree.newest(place)
    if place is None or newest is None:
        return
    last_of_run: dict[int, str] = {}
    low = 1
    while low <= newest.seq:
        high = min(low + _ROWS_AT_ONCE - 1, newest.seq)
        rows = stores.tree.rows_between(place, low, high)
        for row, message in zip(rows, _messages(session, place, rows), strict=True):
            parent = last_of_run.get(row.run) or _parent_id(session, place, row)
            last_of_run[row.run] = row.id
            yield TreeEntry(message, parent, row.created_at)
        low = high + 1
        await asyncio.sleep(0)


def _messages(session: Session, place: Place, rows: list[MessageRow]) -> list[Message]:
    if not rows:
        return []
    stretch = Interval(0, rows[0].seq, rows[-1].seq)
    chunks = session.stores.reader.chunks(place, [stretch])
    return [message for chunk in chunks for message in chunk]


def _parent_id(session: Session, place: Place, row: MessageRow) -> str | None:
    parent = session.stores.tree.parent(place, row)
    return None if parent is None else parent.id


async def export_lines(
    session: Session, info: SessionInfo | None = None, more: Mapping[str, Any] | None = None
) -> AsyncIterator[str]:
    """The session as JSON Lines; each line ends with a newline.

    :param info: what the registry knows of it, for the first line.
    :param more: further fields of the first line.
    """
    head: dict[str, Any] = {"type": "session", "version": FORMAT_VERSION, "id": session.id}
    if info is not None:
        head |= {"name": info.name, "createdAt": info.created_at, "updatedAt": info.updated_at}
        head |= {"parentSessionId": info.parent_session_id, "model": info.model}
    yield dump_json({**head, **(more or {})}) + "\n"
    async for entry in tree_entries(session):
        line = {
            "type": "message",
            "message": entry.message,
            "parentId": entry.parent_id,
            "createdAt": entry.created_at,
        }
        yield dump_json(line) + "\n"
    for overlay in await session.get_compactions():
        if not overlay.stale:
            line = {
                "type": "compaction",
                "summary": overlay.summary,
                "fromMessageId": overlay.from_message_id,
                "toMessageId": overlay.to_message_id,
                "createdAt": overlay.created_at,
            }
            yield dump_json(line) + "\n"


async def import_conversation(
    session: Session, conversation: Conversation, *, behind: str | None = None
) -> ImportResult:
    """Add a conversation to a session, all of it or nothing.

    Messages without a tree go behind the newest message as a chain. A message whose id exists is
    left as it is and counted as skipped; an overlay that is there already is left out.

    :param behind: the message behind which such a chain begins, instead of the newest.

    :raises InvalidImportError: a parent or the end of an overlay is neither in the conversation
        nor in the session.
    :raises InvalidMessageError: a message cannot be stored.
    """
    await _check_references(session, conversation)
    imported = skipped = 0
    previous = behind
    for entry in conversation.messages:
        parent = entry.parent_id if entry.parent_known else (previous or UNSET)
        result = await session.import_message(
            entry.message, parent_id=parent, created_at=entry.created_at
        )
        previous = str(entry.message["id"])
        imported += result.inserted
        skipped += not result.inserted
    compactions = 0
    present = {
        (stored.summary, stored.from_message_id, stored.to_message_id)
        for stored in await session.get_compactions()
    }
    for overlay in conversation.compactions:
        if (overlay["summary"], overlay["fromMessageId"], overlay["toMessageId"]) in present:
            continue
        try:
            await session.add_compaction(
                str(overlay["summary"]), overlay["fromMessageId"], overlay["toMessageId"]
            )
        except PalimpsestError as error:
            raise InvalidImportError(f"an overlay cannot be laid: {error}") from error
        compactions += 1
    return ImportResult(imported, skipped, compactions)


async def _check_references(session: Session, conversation: Conversation) -> None:
    """Refuse before anything is written, so that a broken file leaves nothing half-imported."""
    known: set[str] = set()

    async def require(identifier: Any, what: str) -> None:
        if isinstance(identifier, str) and identifier in known:
            return
        if not isinstance(identifier, str) or await session.get_created_at(identifier) is None:
            raise InvalidImportError(f"{what} {identifier!r:.100} does not exist")

    for entry in conversation.messages:
        if entry.parent_id is not None:
            await require(entry.parent_id, f"message {entry.message['id']!r}: parent")
        known.add(str(entry.message["id"]))
    for overlay in conversation.compactions:
        summary = overlay.get("summary")
        if not isinstance(summary, str) or not summary.strip():
            raise InvalidImportError("an overlay has no summary")
        await require(overlay.get("fromMessageId"), "overlay: first message")
        await require(overlay.get("toMessageId"), "overlay: last message")
