"""What providers say when they fail, told apart; histories repaired; requests fitted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from palimpsest.chat.fitting import RUN_MESSAGE_ID, RequestFitter
from palimpsest.errors import (
    AuthenticationError,
    ContextOverflowError,
    ModelError,
    ModelRequestError,
    ModelUnavailableError,
    RateLimitError,
)
from palimpsest.messages import Message, text_message
from palimpsest.models.convert import (
    CONTINUE,
    EARLIER,
    NO_RESULT,
    CallBlock,
    FileBlock,
    ResultBlock,
    TextBlock,
    base64_of,
    read_data_url,
    to_turns,
)
from palimpsest.models.failures import classify_failure, failure_of_answer
from palimpsest.models.retry import RetryPolicy
from palimpsest.tokens import TokenCounter
from palimpsest.tools.tool import Tool


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (
            "5021: The estimated number of input and maximum output tokens (9000) exceeded this "
            "model context window limit (8000).",
            ContextOverflowError,
        ),
        ("This model's maximum context length is 8192 tokens.", ContextOverflowError),
        ("prompt is too long: 210000 tokens > 200000 maximum", ContextOverflowError),
        ("input length and `max_tokens` exceed context limit", ContextOverflowError),
        ("Please reduce the length of the messages", ContextOverflowError),
        (
            "request (70 tokens) exceeds the available context size (64)",
            ContextOverflowError,
        ),
        ("3040: Capacity temporarily exceeded, please try again.", ModelUnavailableError),
        (
            "3036: You have used up your daily free allocation of neurons",
            AuthenticationError,
        ),
        ("5007: No such model @cf/x or task", ModelRequestError),
        ({"error": {"code": 503, "message": "no"}}, ModelUnavailableError),
        (
            {"errors": [{"code": 10000, "message": "Authentication error"}], "success": False},
            ModelRequestError,
        ),
        (
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
            RateLimitError,
        ),
        (None, ModelRequestError),
        ([], ModelRequestError),
        ({"error": {"message": ["odd"]}}, ModelRequestError),
    ],
)
def test_errors_without_a_status(details: Any, expected: type[ModelError]) -> None:
    assert type(classify_failure("p", details)) is expected


def test_a_token_limit_of_the_minute_is_no_overflow() -> None:
    body = {"error": {"message": "Rate limit reached: tokens per min limit 30000, token limit"}}
    assert type(failure_of_answer("p", 429, {}, json.dumps(body))) is RateLimitError


def test_texts_are_short_and_without_keys() -> None:
    body = "<html><h1>Bad</h1> sk-abcdefghijklmnop Bearer abcdefghijklmn " + "x" * 5000
    error = failure_of_answer("p", 502, {}, body)
    assert isinstance(error, ModelUnavailableError)
    assert len(str(error)) < 700
    assert "abcdefgh" not in str(error)
    assert str(error).startswith("p: Bad sk-***")


def test_the_wait_that_a_server_asks_for() -> None:
    def waits(headers: dict[str, str]) -> float | None:
        return failure_of_answer("p", 429, headers, "").retry_after

    assert waits({"retry-after": "2.5"}) == 2.5
    assert waits({"retry-after-ms": "1500"}) == 1.5
    date = "Mon, 30 Nov 2026 18:00:00 GMT"
    later = "Mon, 30 Nov 2026 18:00:07 GMT"
    assert waits({"date": date, "retry-after": later}) == 7
    assert waits({"retry-after": later}) is None
    assert waits({"retry-after": "soon"}) is None
    assert waits({}) is None


def test_waits_grow_and_end() -> None:
    policy = RetryPolicy(attempts=4, first_wait=1, longest_wait=3)
    error = ModelUnavailableError("x")
    waits = [policy.wait_before(attempt, error) for attempt in (1, 2, 3, 4)]
    assert waits[3] is None
    for wait, longest in zip(waits[:3], (1, 2, 3), strict=True):
        assert wait is not None
        assert longest / 2 <= wait <= longest
    assert policy.wait_before(1, ModelRequestError("x")) is None
    assert policy.wait_before(1, RateLimitError("x", retry_after=2)) == 2
    assert policy.wait_before(1, RateLimitError("x", retry_after=4)) is None


def assistant(*parts: dict[str, Any], identifier: str = "a") -> Message:
    return {"id": identifier, "role": "assistant", "parts": list(parts)}


def part(identifier: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-read", "toolCallId": identifier, "input": {}, **fields}


def shape(messages: list[Message]) -> list[tuple[str, list[str]]]:
    return [
        (turn.role, [type(block).__name__.removesuffix("Block") for block in turn.blocks])
        for turn in to_turns(messages)
    ]


def test_steps_become_turns() -> None:
    step = {"type": "step-start"}
    text = {"type": "text", "text": "hm"}
    done = part("c1", state="output-available", output="x")
    message = assistant(step, text, done, part("c2", output={}), step, text)
    expected = [
        ("user", ["Text"]),
        ("assistant", ["Text", "Call", "Call"]),
        ("tool", ["Result", "Result"]),
        ("assistant", ["Text"]),
        ("user", ["Text"]),
    ]
    assert shape([text_message("u", "user", "q"), message]) == expected
    unmarked = assistant(text, done, part("c2", output={}), text)
    assert shape([text_message("u", "user", "q"), unmarked]) == expected


def test_results_of_every_state() -> None:
    states = [
        part("c1", state="input-available"),
        part("c2", state="output-error", errorText="bad"),
        part("c3", state="output-denied", approval={"id": "x", "reason": "too dear"}),
        part("c4", state="output-available", output=""),
        part("c5", state="output-available", output={"a": "é"}),
        part("c6", state="approval-requested"),
        {
            "type": "tool-invocation",
            "toolInvocation": {
                "toolCallId": "c7",
                "toolName": "old",
                "args": {"q": 1},
                "result": "was",
            },
        },
    ]
    turns = to_turns([text_message("u", "user", "q"), assistant(*states)])
    results = [block for block in turns[2].blocks if isinstance(block, ResultBlock)]
    assert [(block.text, block.is_error) for block in results] == [
        (NO_RESULT, True),
        ("Error: bad", True),
        ("The user denied this call. Reason: too dear", True),
        ("(empty)", False),
        ('{"a":"é"}', False),
        (NO_RESULT, True),
        ("was", False),
    ]
    old = turns[1].blocks[-1]
    assert isinstance(old, CallBlock)
    assert (old.name, old.input) == ("old", {"q": 1})


def test_results_in_messages_of_their_own_join_their_calls() -> None:
    history = [
        text_message("u", "user", "q"),
        assistant(part("c1")),
        assistant({"type": "tool-result", "toolCallId": "c1", "result": "late"}, identifier="b"),
        assistant({"type": "tool-result", "toolCallId": "lost", "result": "x"}, identifier="c"),
    ]
    turns = to_turns(history)
    assert [turn.role for turn in turns] == ["user", "assistant", "tool"]
    (result,) = turns[2].blocks
    assert isinstance(result, ResultBlock)
    assert result.text == "late"


def test_ids_and_names_that_providers_refuse_are_replaced() -> None:
    strange = {
        "type": "dynamic-tool",
        "toolName": "läs fil!",
        "toolCallId": "call:" + "x" * 80,
        "input": "no object",
        "output": 1,
    }
    again = {**strange}
    turns = to_turns([text_message("u", "user", "q"), assistant(strange, again)])
    calls = [block for block in turns[1].blocks if isinstance(block, CallBlock)]
    assert len({block.call_id for block in calls}) == 2
    for block in calls:
        assert len(block.call_id) <= 40
        assert block.call_id.replace("_", "").isalnum()
        assert block.name == "l_s_fil_"
        assert block.input == {"value": "no object"}


def test_a_history_begins_and_ends_with_the_user() -> None:
    assert to_turns([])[0].blocks == [TextBlock(EARLIER)]
    turns = to_turns([text_message("a", "assistant", "Hello.")])
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    assert turns[2].blocks == [TextBlock(CONTINUE)]
    joined = to_turns([text_message("1", "user", "a"), text_message("2", "system", "b")])
    assert len(joined) == 1
    assert joined[0].blocks == [TextBlock("a"), TextBlock("[system]"), TextBlock("b")]


def test_data_urls() -> None:
    assert read_data_url("data:text/plain;charset=utf-8;base64,aGk=") == ("text/plain", b"hi")
    assert read_data_url("data:,a%20b") == ("", b"a b")
    assert read_data_url("https://x") is None
    assert base64_of("data:text/plain,hi") == ("text/plain", "aGk=")
    message = {
        "id": "u",
        "role": "user",
        "parts": [
            {"type": "file", "mediaType": "image/png", "url": "https://x/a.png"},
            {"type": "file", "mediaType": "image/png"},
        ],
    }
    picture, missing = to_turns([message])[0].blocks
    assert isinstance(picture, FileBlock)
    assert isinstance(missing, TextBlock)
    assert "not available" in missing.text


def reader(chars: int = 16_000) -> dict[str, Tool]:
    made = Tool(
        name="read",
        description="",
        parameters={"type": "object"},
        execute=None,
        max_output_chars=chars,
    )
    return {"read": made}


def output_of(message: Message, index: int = 0) -> str:
    return message["parts"][index]["output"]


def test_older_results_are_shortened_first_and_stay_so() -> None:
    fitter = RequestFitter(TokenCounter(), reader(), 100)
    words = "word " * 2_000
    messages = [
        assistant(part(f"c{n}", output=f"{n} {words}"), identifier=f"m{n}") for n in range(6)
    ]
    fitted = fitter.fit(messages, 9_000, newest=5, may_shorten_newest=False)
    assert fitted.fits
    sizes = [len(output_of(message)) for message in fitted.messages]
    assert sizes == sorted(sizes)
    assert sizes[0] <= 2_000
    assert sizes[5] > 10_000
    assert len(output_of(messages[0])) > 10_000
    # A larger budget later does not undo it: the beginning of the request stays the same.
    again = fitter.fit(messages, 90_000, newest=5, may_shorten_newest=False)
    assert [len(output_of(message)) for message in again.messages] == sizes


def test_the_newest_results_are_shortened_only_when_allowed() -> None:
    fitter = RequestFitter(TokenCounter(), reader(), 100)
    messages = [assistant(part("c1", output="word " * 3_000))]
    assert not fitter.fit(messages, 1_000, newest=0, may_shorten_newest=False).fits
    fitted = fitter.fit(messages, 1_000, newest=0, may_shorten_newest=True)
    assert fitted.fits
    assert "left out" in output_of(fitted.messages[0])


def test_a_tools_own_limit_holds() -> None:
    fitter = RequestFitter(TokenCounter(), reader(500), 0)
    messages = [assistant(part("c1", output="word " * 3_000))]
    fitted = fitter.fit(messages, 100_000, newest=1, may_shorten_newest=False)
    assert len(output_of(fitted.messages[0])) <= 500


def test_reasoning_counts_only_where_it_is_sent() -> None:
    thought: dict[str, Any] = {"type": "reasoning", "text": "hm " * 1_000}
    signed = {**thought, "providerMetadata": {"anthropic": {"signature": "s"}}}
    fitter = RequestFitter(TokenCounter(), {}, 0)

    def tokens(identifier: str, one: dict[str, Any]) -> int:
        message = assistant(one, identifier=identifier)
        return fitter.fit([message], 10_000, newest=1, may_shorten_newest=False).tokens

    assert tokens("earlier", signed) == tokens(RUN_MESSAGE_ID, thought) == 4
    assert tokens(RUN_MESSAGE_ID, signed) > 700
