"""The server's copy of a message, assembled from chunks as clients assemble theirs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.chat.accumulator import INTERRUPTED_TOOL, MessageAccumulator, merge_objects


def feed(accumulator: MessageAccumulator, *chunks: dict[str, Any]) -> list[dict[str, Any]]:
    return [sent for chunk in chunks for sent in accumulator.accept(dict(chunk))]


def test_text_and_reasoning_become_parts() -> None:
    accumulator = MessageAccumulator("m1")
    sent = feed(
        accumulator,
        {"type": "start"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "hm"},
        {"type": "reasoning-end", "id": "r", "providerMetadata": {"x": 1}},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "Hel"},
        {"type": "text-delta", "id": "t", "delta": "lo"},
        {"type": "text-end", "id": "t"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop", "messageMetadata": {"model": "x"}},
    )
    assert sent[0] == {"type": "start", "messageId": "m1"}
    assert sent[-1] == {
        "type": "finish",
        "messageMetadata": {"model": "x", "finishReason": "stop"},
    }
    assert accumulator.message() == {
        "id": "m1",
        "role": "assistant",
        "parts": [
            {"type": "step-start"},
            {
                "type": "reasoning",
                "text": "hm",
                "state": "done",
                "id": "r",
                "providerMetadata": {"x": 1},
            },
            {"type": "text", "text": "Hello", "state": "done"},
        ],
        "metadata": {"model": "x", "finishReason": "stop"},
    }
    assert accumulator.finish_reason == "stop"


def test_what_a_client_would_refuse_is_preceded_by_what_it_lacks() -> None:
    accumulator = MessageAccumulator("m1")
    sent = feed(accumulator, {"type": "text-delta", "id": "t", "delta": "x"})
    assert [chunk["type"] for chunk in sent] == ["start", "text-start", "text-delta"]
    assert feed(accumulator, {"type": "text-end", "id": "other"}) == []
    assert [chunk["type"] for chunk in feed(accumulator, {"type": "finish"})] == [
        "text-end",
        "finish",
    ]


def test_a_continuation_starts_without_an_id_and_keeps_its_base() -> None:
    base: dict[str, Any] = {
        "id": "m1",
        "role": "assistant",
        "parts": [
            {"type": "tool-a", "toolCallId": "c1", "state": "approval-responded", "input": {}}
        ],
    }
    accumulator = MessageAccumulator("m1", base)
    sent = feed(
        accumulator,
        {"type": "start", "messageId": "other"},
        {"type": "tool-output-available", "toolCallId": "c1", "output": 1},
    )
    assert sent == [{"type": "start"}]
    assert accumulator.base_changed
    assert base["parts"][0]["state"] == "approval-responded", "the caller's message is not changed"
    assert accumulator.message()["parts"][0]["state"] == "output-available"
    assert accumulator.is_empty
    feed(accumulator, {"type": "text-delta", "id": "t", "delta": "so"})
    assert not accumulator.is_empty


def test_tool_calls_go_through_their_states() -> None:
    accumulator = MessageAccumulator("m1")
    feed(
        accumulator,
        {"type": "tool-input-start", "toolCallId": "c", "toolName": "find"},
        {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"a"'},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "find", "input": {"a": 1}},
        {"type": "tool-output-available", "toolCallId": "c", "output": 1, "preliminary": True},
        {"type": "tool-output-available", "toolCallId": "c", "output": 2},
    )
    assert accumulator.message()["parts"] == [
        {
            "type": "tool-find",
            "toolCallId": "c",
            "state": "output-available",
            "input": {"a": 1},
            "output": 2,
        }
    ]


def test_a_provider_that_repeats_a_call_adds_nothing() -> None:
    accumulator = MessageAccumulator("m1")
    call: dict[str, Any] = {
        "type": "tool-input-available",
        "toolCallId": "c",
        "toolName": "find",
        "input": {},
    }
    output = {"type": "tool-output-available", "toolCallId": "c", "output": 1}
    feed(accumulator, call, output)
    start = {"type": "tool-input-start", "toolCallId": "c", "toolName": "find"}
    assert feed(accumulator, start, call, {**output, "output": 9}) == []
    assert accumulator.message()["parts"][0]["output"] == 1


def test_dynamic_tools_errors_denials_and_approvals() -> None:
    accumulator = MessageAccumulator("m1")
    feed(
        accumulator,
        {
            "type": "tool-input-available",
            "toolCallId": "d",
            "toolName": "any",
            "input": 1,
            "dynamic": True,
        },
        {"type": "tool-output-error", "toolCallId": "d", "errorText": "no"},
        {"type": "tool-input-available", "toolCallId": "e", "toolName": "rm", "input": {}},
        {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "e", "reason": "why"},
        {"type": "tool-approval-response", "approvalId": "p", "approved": False, "reason": "no!"},
        {"type": "tool-output-denied", "toolCallId": "e"},
        {
            "type": "tool-input-error",
            "toolCallId": "f",
            "toolName": "rm",
            "input": "{",
            "errorText": "not JSON",
        },
    )
    first, second, third = accumulator.message()["parts"]
    assert (first["type"], first["toolName"], first["state"]) == (
        "dynamic-tool",
        "any",
        "output-error",
    )
    assert second["state"] == "output-denied"
    assert second["approval"] == {
        "id": "p",
        "requestReason": "why",
        "approved": False,
        "reason": "no!",
    }
    assert (third["state"], third["errorText"]) == ("output-error", "not JSON")


def test_data_sources_and_files_become_parts_unless_transient() -> None:
    accumulator = MessageAccumulator("m1")
    sent = feed(
        accumulator,
        {"type": "data-weather", "id": "w", "data": 1},
        {"type": "data-weather", "id": "w", "data": 2},
        {"type": "data-note", "data": 3, "transient": True},
        {"type": "source-url", "sourceId": "s", "url": "http://x", "title": None},
        {"type": "file", "url": "http://f", "mediaType": "image/png"},
        {"type": "something-new", "x": 1},
    )
    assert len(sent) == 7, "the start, and each as it came"
    assert accumulator.message()["parts"] == [
        {"type": "data-weather", "id": "w", "data": 2},
        {"type": "source-url", "sourceId": "s", "url": "http://x"},
        {"type": "file", "url": "http://f", "mediaType": "image/png"},
    ]


def test_reset_step_takes_the_last_step_back() -> None:
    accumulator = MessageAccumulator("m1")
    feed(
        accumulator,
        {"type": "start-step"},
        {"type": "text-delta", "id": "t", "delta": "stays"},
        {"type": "finish-step"},
        {"type": "start-step"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {}},
        {"type": "text-delta", "id": "t", "delta": "goes"},
        {"type": "reset-step"},
        {"type": "tool-input-available", "toolCallId": "c", "toolName": "x", "input": {"n": 2}},
    )
    parts = accumulator.message()["parts"]
    assert [part["type"] for part in parts] == ["step-start", "text", "step-start", "tool-x"]


def test_interrupting_leaves_no_call_open() -> None:
    accumulator = MessageAccumulator("m1")
    feed(
        accumulator,
        {"type": "text-delta", "id": "t", "delta": "x"},
        {"type": "tool-input-start", "toolCallId": "a", "toolName": "x"},
        {"type": "tool-input-available", "toolCallId": "b", "toolName": "x", "input": {}},
    )
    sent = accumulator.interrupt_tools(True)
    assert [chunk["type"] for chunk in sent] == [
        "text-end",
        "tool-input-error",
        "tool-output-error",
    ]
    states = [part.get("state") for part in accumulator.message()["parts"]]
    assert states == ["done", "output-error", "output-error"]
    assert accumulator.message()["parts"][1]["errorText"] == INTERRUPTED_TOOL


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"type": ""},
        {"type": 5},
        {"type": "text-delta", "id": "t"},
        {"type": "text-delta", "delta": "x"},
        {"type": "text-start"},
        {"type": "tool-input-start", "toolCallId": "c"},
        {"type": "tool-output-available", "toolCallId": "unknown"},
        {"type": "tool-approval-request", "approvalId": "p", "toolCallId": "unknown"},
        {"type": "tool-approval-response", "approvalId": "unknown", "approved": True},
    ],
)
def test_a_chunk_that_makes_no_sense_is_refused(chunk: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        MessageAccumulator("m1").accept(chunk)


CHUNKS = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["text-delta", "reasoning-delta"]),
            "id": st.sampled_from("ab"),
            "delta": st.text(max_size=3),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["text-start", "text-end", "reasoning-start", "reasoning-end"]),
            "id": st.sampled_from("ab"),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["tool-input-start", "tool-input-available"]),
            "toolCallId": st.sampled_from("xy"),
            "toolName": st.just("n"),
            "input": st.integers(),
        }
    ),
    st.sampled_from(
        [
            {"type": "start"},
            {"type": "start-step"},
            {"type": "finish-step"},
            {"type": "reset-step"},
            {"type": "finish", "finishReason": "stop"},
            {"type": "message-metadata", "messageMetadata": {"k": {"l": 1}}},
        ]
    ),
)


@given(st.lists(CHUNKS, max_size=40))
def test_what_is_sent_adds_up_to_the_same_message(chunks: list[dict[str, Any]]) -> None:
    """A client that applies what was sent has the stored message; and so has a second server."""
    first = MessageAccumulator("m1")
    sent = feed(first, *chunks) + first.close()
    second = MessageAccumulator("m1")
    again = feed(second, *sent)
    assert again == sent
    assert second.message() == first.message()
    open_texts: set[tuple[str, str]] = set()
    for chunk in sent:
        family, _, action = chunk["type"].partition("-")
        if family in ("text", "reasoning"):
            key = (family, chunk["id"])
            if action == "start":
                assert key not in open_texts
                open_texts.add(key)
            else:
                assert key in open_texts
                if action == "end":
                    open_texts.discard(key)
        elif chunk["type"] == "reset-step":
            open_texts.clear()
    assert not open_texts


def test_metadata_is_merged_deeply() -> None:
    assert merge_objects({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": 3}, "d": None}) == {
        "a": {"b": 3, "c": 2},
        "d": None,
    }
