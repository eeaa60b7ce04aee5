"""What clients are sent of a conversation is the stored JSON, and the same as the messages read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palimpsest.chat.transcripts import all_originals, newest_originals
from palimpsest.messages import Message, dump_json, text_message
from palimpsest.session.session import Session


def parsed(texts: list[str]) -> list[Message]:
    return json.loads(f"[{','.join(texts)}]")


def file_message(identifier: str, size: int) -> Message:
    url = "data:image/png;base64," + "A" * size
    return {
        "id": identifier,
        "role": "user",
        "parts": [{"type": "file", "mediaType": "image/png", "url": url}],
    }


async def leaf_of(session: Session) -> str:
    leaf = await session.get_latest_leaf()
    assert leaf is not None
    return str(leaf["id"])


async def same(session: Session, leaf: str) -> list[Message]:
    """Both readings of a branch, which must agree."""
    messages = await session.get_originals(leaf)
    assert parsed(list(all_originals(session, leaf))) == messages
    assert parsed(newest_originals(session, leaf, 10**9)) == messages
    return messages


async def test_plain_messages_come_in_few_texts(host: Any) -> None:
    session = Session.create(host)
    await session.append_messages(
        [text_message(f"m{i}", "user", f'Nr. {i}: "ü" \ud800 \\ 漢字 \n') for i in range(3_000)]
    )
    leaf = await leaf_of(session)
    assert len(await same(session, leaf)) == 3_000
    assert len(list(all_originals(session, leaf))) < 10


async def test_files_long_messages_and_gaps(host: Any) -> None:
    session = Session.create(host)
    for index in range(60):
        await session.append_message(text_message(f"m{index}", "user", f"message {index}"))
        if index % 20 == 5:
            await session.append_message(file_message(f"f{index}", 900_000))
        if index == 30:
            await session.append_message(text_message("long", "assistant", "word " * 500_000))
    await session.delete_messages([f"m{index}" for index in range(10, 25)])
    messages = await same(session, "m59")
    assert len(messages) == 60 - 15 + 3 + 1


async def test_a_branch(host: Any) -> None:
    session = Session.create(host)
    await session.append_messages([text_message(f"a{i}", "user", f"a {i}") for i in range(20)])
    await session.append_messages([text_message(f"b{i}", "user", f"b {i}") for i in range(5)], "a9")
    ids = [message["id"] for message in await same(session, "b4")]
    assert ids == [f"a{i}" for i in range(10)] + [f"b{i}" for i in range(5)]
    assert len(await same(session, "a19")) == 20
    assert newest_originals(session, "nobody", 1_000) == []
    assert list(all_originals(session, "nobody")) == []


async def test_overlays_are_not_laid(host: Any) -> None:
    session = Session.create(host)
    await session.append_messages([text_message(f"m{i}", "user", "x") for i in range(9)])
    await session.add_compaction("summary", "m1", "m6")
    assert len(await same(session, "m8")) == 9


@pytest.mark.parametrize("broken", ["no JSON", "[1]", '{"id":"m4","role":"user","parts":7}'])
async def test_a_row_that_cannot_be_read_keeps_its_place(host: Any, broken: str) -> None:
    session = Session.create(host)
    await session.append_messages([text_message(f"m{i}", "user", f"text {i}") for i in range(9)])
    host.sql.execute("update assistant_fts set content = ? where message_id = 'm4'", broken)
    messages = await same(session, "m8")
    assert [message["id"] for message in messages] == [f"m{i}" for i in range(9)]
    assert messages[4]["parts"][0]["type"] == "data-unreadable"


@pytest.mark.parametrize("most", [1, 200, 1_000, 5_000, 20_000])
async def test_the_newest_within_a_size(host: Any, most: int) -> None:
    session = Session.create(host)
    await session.append_messages(
        [text_message(f"m{i}", "user", "x" * (37 * i % 500)) for i in range(100)]
    )
    await session.delete_messages(["m70", "m71", "m72"])
    messages = await session.get_originals()
    texts = newest_originals(session, "m99", most)
    shown = parsed(texts)
    assert shown == messages[-len(shown) :]
    sizes = [len(dump_json(message)) for message in messages]
    assert sum(sizes[-len(shown) :]) <= most or len(shown) == 1
    if len(shown) < len(messages):
        assert sum(sizes[-len(shown) - 1 :]) > most, "one more would have been too much"
