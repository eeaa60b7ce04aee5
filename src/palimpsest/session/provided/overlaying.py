"""Laying overlays over a path, for storage that keeps no ranges of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from palimpsest.messages import Message
from palimpsest.session.provided.values import read_compaction
from palimpsest.store.overlays import overlay_message
from palimpsest.store.rows import StoredCompaction


def with_overlays(
    path: Sequence[Message], overlays: Iterable[StoredCompaction | Mapping[str, Any]]
) -> list[Message]:
    """What is shown of a path: its messages, and a message for each overlay that lies over some.

    :param path: the messages from the root to the leaf.
    :param overlays: all overlays of the conversation, the oldest first, in any form that
        ``get_compactions`` of a storage provider may give.
    :raises SessionProviderError: one is no overlay.
    """
    read = [read_compaction(overlay, "get_compactions") for overlay in overlays]
    messages = {message["id"]: message for message in path}
    return [
        messages[piece] if isinstance(piece, str) else overlay_message(piece)
        for piece in lay_overlays(list(messages), read)
    ]


def lay_overlays(
    path: Sequence[str], overlays: Sequence[StoredCompaction]
) -> list[str | StoredCompaction]:
    """What is shown of a path: ids of messages, and the overlays in place of their ranges.

    Where several overlays begin at one message the newest of those that end on the path counts;
    one that begins inside a range that is shown already does not.

    :param path: the ids from the root to the leaf.
    :param overlays: all overlays of the conversation, the oldest first.
    """
    places = {message_id: index for index, message_id in enumerate(path)}
    beginning: dict[int, tuple[int, StoredCompaction]] = {}
    for overlay in overlays:
        start = places.get(overlay.from_message_id)
        end = places.get(overlay.to_message_id)
        if start is not None and end is not None and end >= start and not overlay.stale:
            beginning[start] = (end, overlay)
    shown: list[str | StoredCompaction] = []
    index = 0
    while index < len(path):
        if index in beginning:
            end, overlay = beginning[index]
            shown.append(overlay)
            index = end + 1
        else:
            shown.append(path[index])
            index += 1
    return shown
