"""Random operations on a session, and everything that can be read of it afterwards."""

from __future__ import annotations

import random
from typing import Any

from palimpsest.errors import PalimpsestError
from palimpsest.messages import COMPACTION_PREFIX, Message, text_message, text_of
from palimpsest.session.changes import UNSET
from palimpsest.session.session import Session

IDS = [f"m{number}" for number in range(14)]


async def operate(session: Session, chance: random.Random) -> str:
    """One operation, drawn from ``chance`` alone; what came of it, as text."""
    kind = chance.choices(
        ("append", "below", "root", "update", "delete", "overlay", "remove"),
        weights=(10, 5, 1, 2, 4, 5, 1),
    )[0]
    one, other, number = chance.choice(IDS), chance.choice(IDS), chance.randrange(100)
    message = text_message(one, "user", f"text {number}")
    try:
        if kind in ("append", "below", "root"):
            parent = {"append": UNSET, "below": other, "root": None}[kind]
            result = await session.append_message(message, parent)
            return f"{kind} {one}: {result.inserted}"
        if kind == "update":
            return f"update {one}: {await session.update_message(message) is not None}"
        if kind == "delete":
            return f"delete: {await session.delete_messages([one, other])}"
        if kind == "overlay":
            await session.add_compaction(f"summary {number}", one, other)
            return f"overlay {one} to {other}"
        overlays = await session.get_compactions()
        if not overlays:
            return "nothing to remove"
        return f"remove: {await session.remove_compaction(overlays[number % len(overlays)].id)}"
    except PalimpsestError as error:
        return f"{kind} {one} {other}: {type(error).__name__}"


async def everything(session: Session) -> dict[str, Any]:
    """What can be read of a session, without what each storage names for itself."""
    leaf = await session.get_latest_leaf()
    found: dict[str, Any] = {
        "leaf": leaf,
        "overlays": [
            (one.summary, one.from_message_id, one.to_message_id)
            for one in await session.get_compactions()
        ],
    }
    for leaf_id in (None, *IDS):
        found[f"history {leaf_id}"] = shown(await session.get_history(leaf_id))
        found[f"originals {leaf_id}"] = shown(await session.get_originals(leaf_id))
        found[f"length {leaf_id}"] = await session.get_path_length(leaf_id)
    for message_id in IDS:
        found[f"branches {message_id}"] = shown(await session.get_branches(message_id))
    return found


def shown(messages: list[Message]) -> list[tuple[str, str]]:
    """Ids and texts; an overlay's id is left out."""
    return [
        ("overlay" if one["id"].startswith(COMPACTION_PREFIX) else one["id"], text_of(one))
        for one in messages
    ]
