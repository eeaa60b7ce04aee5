"""Laying overlays over a path of ids, for storage that keeps no ranges of its own."""

from __future__ import annotations

from collections.abc import Sequence

from palimpsest.store.rows import StoredCompaction


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
