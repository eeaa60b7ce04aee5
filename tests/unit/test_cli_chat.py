"""The terminal client's parts that need no agent."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from palimpsest.cli.address import AddressError, AgentAddress, parse_address
from palimpsest.cli.events import ChunkReceived, Compaction, Disconnected, Refused, TurnEnded
from palimpsest.cli.output import JsonOutput, event_record
from palimpsest.cli.terminal import (
    AnswerView,
    PipeConsole,
    TerminalView,
    block_end,
    message_text,
    shorten,
)
from palimpsest.messages import text_message


def address(text: str) -> AgentAddress:
    return parse_address(text, agent="assistant", name="my name", session="s 1")


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("localhost:8787", "http://localhost:8787/agents/assistant/my%20name"),
        ("http://localhost:8787/", "http://localhost:8787/agents/assistant/my%20name"),
        ("https://x.example", "https://x.example/agents/assistant/my%20name"),
        ("http://x.example/?agent=ada%20b#/s", "http://x.example/agents/assistant/ada%20b"),
        ("localhost:8787?agent=ada", "http://localhost:8787/agents/assistant/ada"),
        ("http://x.example/?agent=", "http://x.example/agents/assistant/my%20name"),
        ("wss://x.example/agents/helper/ada/", "https://x.example/agents/helper/ada"),
        ("http://x.example/own/path?x=1#y", "http://x.example/own/path"),
        ("http://[::1]:8787", "http://[::1]:8787/agents/assistant/my%20name"),
    ],
)
def test_addresses(text: str, base: str) -> None:
    assert address(text).base == base


@pytest.mark.parametrize(
    "text", ["", "ftp://x.example", "http://", "http://x:port", "http://x:99999"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(AddressError):
        address(text)


def test_addresses_of_endpoints_and_of_the_socket() -> None:
    agent = address("https://x.example")
    assert agent.http("search", q="a&b").endswith("/my%20name/search?session=s+1&q=a%26b")
    assert agent.websocket("id").startswith("wss://x.example/agents/assistant/my%20name?_pk=id")
    assert agent.in_session("").http("memory").endswith("/memory?session=")


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("", ""),
        ("one line", ""),
        ("one\n\ntwo", "one\n\n"),
        ("```py\na\n\nb", ""),
        ("```py\na\n\nb\n```\n\nrest", "```py\na\n\nb\n```\n\n"),
        ("~~~\n```\n\n~~~\n\nx", "~~~\n```\n\n~~~\n\n"),
        ("a\n\nb\n\nc", "a\n\nb\n\n"),
        ("a\n \t\nb", "a\n \t\n"),
        ("a\n\n", "a\n\n"),
    ],
)
def test_where_finished_blocks_end(text: str, finished: str) -> None:
    assert text[: block_end(text)] == finished


def test_values_are_shortened_to_one_line() -> None:
    assert shorten({"a": "x\ny"}) == '{"a": "x\\ny"}'
    assert shorten("a\n  b") == "a b"
    assert shorten("x" * 500, 10) == "x" * 10 + "…"


def test_text_of_a_message() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "file"}, {"type": "text", "text": "b"}]
    assert message_text({"parts": parts}) == "a\n\nb"
    assert message_text({}) == ""


def view(terminal: bool) -> tuple[TerminalView, io.StringIO]:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80, no_color=True)
    return TerminalView(console), stream


def stream_answer(shown: TerminalView, *deltas: str) -> None:
    shown.chunk({"type": "start", "messageId": "a"})
    for delta in deltas:
        shown.chunk({"type": "text-delta", "id": "t", "delta": delta})
    shown.chunk({"type": "text-end", "id": "t"})
    shown.ended("completed", None)


def test_elsewhere_than_on_a_terminal_the_text_is_written_as_it_is() -> None:
    shown, stream = view(terminal=False)
    stream_answer(shown, "[bold]a[/bold] ", "**b**\n", "\n", "c")
    assert stream.getvalue() == "[bold]a[/bold] **b**\n\nc\n"


def test_on_a_terminal_finished_paragraphs_are_drawn_once() -> None:
    shown, stream = view(terminal=True)
    stream_answer(shown, "first **strong", "** words\n\n", "second ", "words")
    shown_text = stream.getvalue()
    assert "**" not in shown_text.rsplit("first", 1)[1]
    assert shown_text.rstrip().endswith("second words")


def test_a_restored_answer_is_continued_where_it_stopped() -> None:
    shown, stream = view(terminal=False)
    shown.chunk({"type": "start", "messageId": "a"})
    shown.chunk({"type": "text-delta", "id": "t", "delta": "Half an "})
    shown.restored({"parts": [{"type": "text", "text": "Half an answer"}]})
    assert stream.getvalue() == "Half an answer\n"


def test_tools_and_failures_are_told() -> None:
    shown, stream = view(terminal=False)
    call = {"toolCallId": "c", "toolName": "search", "input": {"q": "x"}}
    shown.chunk({"type": "tool-input-available", **call})
    shown.chunk({"type": "tool-output-error", "toolCallId": "c", "errorText": "no [link]"})
    shown.ended("aborted", None)
    shown.ended("error", "The model rests.")
    lines = stream.getvalue().splitlines()
    assert lines == [
        '  tool search {"q": "x"}',
        "  → failed: no [link]",
        "Stopped. What was written is kept.",
        "The model rests.",
    ]


def test_search_hits_are_marked() -> None:
    stream = io.StringIO()
    shown = TerminalView(Console(file=stream, force_terminal=True, width=100))
    hit = {"snippet": "the \ue000oil\ue001 of \ue000Ines\ue001", "sessionName": "", "role": "user"}
    shown.hits([{**hit, "sessionId": ""}])
    text = stream.getvalue()
    assert "\ue000" not in text
    assert "\x1b[1;7moil\x1b[0m of \x1b[1;7mInes\x1b[0m" in text


def test_events_as_json_lines() -> None:
    stream = io.StringIO()
    output = JsonOutput(stream)
    chunk: dict[str, Any] = {"type": "text-delta", "id": "t", "delta": "é\n"}
    output.event(ChunkReceived("r", chunk, own=True))
    output.event(TurnEnded("r", "completed", None, own=True))
    assert stream.getvalue().splitlines() == [
        '{"event": "chunk", "requestId": "r", "own": true, '
        '"chunk": {"type": "text-delta", "id": "t", "delta": "é\\n"}}',
        '{"event": "done", "requestId": "r", "own": true, "outcome": "completed"}',
    ]
    assert event_record(Refused(4001, "no")) == {"event": "refused", "code": 4001, "reason": "no"}
    assert event_record(Disconnected("gone", 0.5))["retrySeconds"] == 0.5
    assert event_record(Compaction("idle", 5, None))["tokenThreshold"] is None


@pytest.mark.parametrize("terminal", [True, False])
def test_what_others_wrote_controls_no_terminal(terminal: bool) -> None:
    stream = io.StringIO()
    console = PipeConsole(file=stream, force_terminal=terminal, width=80, no_color=True)
    hostile = "cat \x1b]0;title\x07\x1b[2J\x9b31m end"
    view = TerminalView(console)
    view.note(hostile)
    view.history([text_message("m1", "user", hostile)])
    view.hits([{"snippet": hostile, "sessionName": hostile, "role": "user"}])
    answer = AnswerView(console)
    answer.add(hostile)
    answer.finish()
    written = stream.getvalue()
    assert written.count("]0;title") >= 5
    for sequence in ("\x1b]", "\x07", "\x1b[2J", "\x9b"):
        assert sequence not in written
