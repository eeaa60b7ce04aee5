"""Conversations longer than any depth at which a walk from message to parent would end."""

from __future__ import annotations

import random

from palimpsest.hosts.local import LocalHost
from palimpsest.messages import Message
from palimpsest.session.session import Session
from palimpsest.store.payloads import split_text

COUNT = 12_000


def text(number: int) -> Message:
    return {"id": f"m{number}", "role": "user", "parts": [{"type": "text", "text": f"n {number}"}]}


async def test_no_message_of_a_long_conversation_is_left_out() -> None:
    session = Session.create(LocalHost())
    await session.append_messages(text(number) for number in range(COUNT))
    expected = [f"m{number}" for number in range(COUNT)]
    assert [one["id"] for one in await session.get_history()] == expected
    assert await session.get_path_length() == COUNT
    assert [one.id for one in await session.get_history_row_stats()] == expected
    seen = [one["id"] async for one in session.history(newest_first=True)]
    assert seen == expected[::-1]


async def test_a_branch_at_every_message_is_followed_to_the_root() -> None:
    session = Session.create(LocalHost())
    await session.append_message(text(0))
    depth = 3_000
    for number in range(1, depth):
        await session.append_message(text(number), f"m{number - 1}")
        await session.append_message({**text(number), "id": f"side{number}"}, f"m{number - 1}")
    leaf = f"m{depth - 1}"
    assert await session.get_path_length(leaf) == depth
    history = await session.get_history(leaf)
    assert [one["id"] for one in history] == [f"m{number}" for number in range(depth)]


def test_long_texts_are_cut_between_characters() -> None:
    chance = random.Random(5)
    for _ in range(200):
        words = "".join(chance.choice("aé漢😀\x00\n") for _ in range(chance.randint(0, 80)))
        pieces = split_text(words, 7)
        assert "".join(pieces) == words
        assert all(0 < len(piece.encode()) <= 7 for piece in pieces)
