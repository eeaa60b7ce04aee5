"""Server-sent events, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.errors import ModelResponseError
from palimpsest.models import sse
from palimpsest.models.sse import EventParser, ServerSentEvent


def parse(data: bytes, cuts: list[int]) -> list[ServerSentEvent]:
    parser = EventParser()
    found: list[ServerSentEvent] = []
    start = 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        found += parser.feed(data[start:cut])
        start = cut
    return found + parser.feed(b"", end=True)


STREAM = (
    "\ufeffevent: a\ndata: één\n\n: comment\r\n\r\ndata: x\rdata:y\r\r"
    "id: 7\nretry: 5\ndata\n\ndata:  two blanks\n\ndata: 😀 last without end"
)
EVENTS = [
    ServerSentEvent("a", "één"),
    ServerSentEvent("", "x\ny"),
    ServerSentEvent("", ""),
    ServerSentEvent("", " two blanks"),
    ServerSentEvent("", "😀 last without end"),
]


@given(st.lists(st.integers(min_value=0, max_value=10_000), max_size=8))
def test_events_do_not_depend_on_where_bytes_are_cut(cuts: list[int]) -> None:
    assert parse(STREAM.encode(), cuts) == EVENTS


def test_every_byte_alone() -> None:
    assert parse(STREAM.encode(), list(range(len(STREAM.encode())))) == EVENTS


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_CHARS", 1000)
    parser = EventParser()
    parser.feed(b"data: " + b"x" * 900)
    with pytest.raises(ModelResponseError, match="more than"):
        parser.feed(b"x" * 200)
