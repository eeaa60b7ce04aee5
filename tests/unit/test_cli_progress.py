"""A stream that breaks and is replayed is handed on once and whole."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palimpsest.cli.progress import Progress

Chunk = dict[str, Any]


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


def joined(chunks: list[Chunk]) -> list[tuple[Chunk, int]]:
    """Chunks as stored: deltas of one text that follow each other are one, numbered as the last."""
    stored: list[tuple[Chunk, int]] = []
    for number, chunk in enumerate(chunks):
        last = stored[-1][0] if stored else {}
        if chunk["type"] == last.get("type") == "text-delta" and chunk["id"] == last["id"]:
            stored[-1] = ({**last, "delta": last["delta"] + chunk["delta"]}, number)
        else:
            stored.append((chunk, number))
    return stored


def whole(chunks: list[Chunk]) -> list[Chunk]:
    return [chunk for chunk, _ in joined(chunks)]


@given(streams(), st.data())
def test_broken_anywhere_and_replayed(chunks: list[Chunk], data: st.DataObject) -> None:
    progress = Progress()
    received: list[Chunk] = []

    def take(chunk: Chunk, number: int, replayed: bool) -> None:
        if chunk["type"] == "start":
            progress.begin(replayed)
        new = progress.unseen(chunk, number, replayed)
        if new is not None:
            received.append(new)

    position = 0
    for _ in range(data.draw(st.integers(0, 4))):
        lost_at = data.draw(st.integers(position, len(chunks)))
        for number in range(position, lost_at):
            take(chunks[number], number, replayed=False)
        position = data.draw(st.integers(lost_at, len(chunks)))
        replay = joined(chunks[:position])
        # The socket may be lost again in the middle of a replay.
        for chunk, number in replay[: data.draw(st.integers(0, len(replay)))]:
            take(chunk, number, replayed=True)
        for chunk, number in replay:
            take(chunk, number, replayed=True)
    for number in range(position, len(chunks)):
        take(chunks[number], number, replayed=False)
    assert whole(received) == whole(chunks)


def test_chunks_without_numbers_are_not_repeated_by_a_replay() -> None:
    progress = Progress()
    assert progress.unseen({"type": "text-start", "id": "t"}, None, False) is not None
    assert progress.unseen({"type": "text-start", "id": "t"}, None, True) is None
