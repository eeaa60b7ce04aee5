"""A stream that breaks and is replayed is handed on once and whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palimpsest.cli.progress import RESTART, Progress

Chunk = dict[str, Any]


def delta(text: str) -> Chunk:
    return {"type": "text-delta", "id": "t", "delta": text}


@st.composite
def streams(draw: st.DrawFn) -> list[Chunk]:
    """The chunks of one answer: texts in pieces, and tool calls between them."""
    chunks: list[Chunk] = [{"type": "start", "messageId": "a"}]
    for number in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            chunks.append({"type": "tool-input-available", "toolCallId": f"c{number}"})
            continue
        identifier = f"t{number}"
        chunks.append({"type": "text-start", "id": identifier})
        chunks += [
            {"type": "text-delta", "id": identifier, "delta": piece}
            for piece in draw(st.lists(st.text(min_size=1, max_size=4), max_size=6))
        ]
        chunks.append({"type": "text-end", "id": identifier})
    return [*chunks, {"type": "finish"}]


def joined(chunks: list[Chunk]) -> list[Chunk]:
    """Chunks as stored: deltas of one text that follow each other are one."""
    stored: list[Chunk] = []
    for chunk in chunks:
        last = stored[-1] if stored else {}
        if chunk["type"] == last.get("type") == "text-delta" and chunk["id"] == last["id"]:
            stored[-1] = {**last, "delta": last["delta"] + chunk["delta"]}
        else:
            stored.append(chunk)
    return stored


@given(streams(), st.data())
def test_broken_anywhere_and_replayed(chunks: list[Chunk], data: st.DataObject) -> None:
    progress = Progress()
    received: list[Chunk] = []

    def take(chunk: Chunk) -> None:
        received.extend(progress.unseen(chunk))

    position = 0
    for _ in range(data.draw(st.integers(0, 4))):
        lost_at = data.draw(st.integers(position, len(chunks)))
        for number in range(position, lost_at):
            take(chunks[number])
        position = data.draw(st.integers(lost_at, len(chunks)))
        replay = joined(chunks[:position])
        # The socket may be lost again in the middle of a replay.
        for chunk in replay[: data.draw(st.integers(0, len(replay)))]:
            take(chunk)
        for chunk in replay:
            take(chunk)
    for number in range(position, len(chunks)):
        take(chunks[number])
    assert joined(received) == joined(chunks)


def test_a_text_written_anew_is_continued_where_it_is_the_same() -> None:
    progress = Progress()
    first = [{"type": "start"}, delta("one "), delta("two ")]
    again = [{"type": "start"}, delta("one"), delta(" two th"), delta("ree")]
    received = [new for chunk in (*first, *again) for new in progress.unseen(chunk)]
    assert [chunk.get("delta") for chunk in received] == [None, "one ", "two ", "th", "ree"]


def test_a_text_written_anew_and_otherwise_is_told() -> None:
    progress = Progress()
    first = [{"type": "start"}, delta("one "), delta("two ")]
    again = [{"type": "start"}, delta("one "), delta("or more "), delta("words")]
    received = [new for chunk in (*first, *again) for new in progress.unseen(chunk)]
    assert received[3:] == [{"type": RESTART}, delta("one or more "), delta("words")]
