"""Every adapter over real HTTP against a server that speaks its provider's format, with faults."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from model_rig import KEY, PROVIDERS, ServerRun, collect

from palimpsest.abort import Abort
from palimpsest.errors import (
    AbortedError,
    AuthenticationError,
    ContextOverflowError,
    ModelError,
    ModelNetworkError,
    ModelRequestError,
    ModelResponseError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
    RefusalError,
)
from palimpsest.messages import text_message
from palimpsest.models import (
    Finish,
    Model,
    ModelRequest,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    generate_text,
)
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.transport import Secret, TimeLimits
from palimpsest.tools import Tool

HTTP_PROVIDERS = ("openai", "anthropic")


@pytest.fixture
def run(host: Any, model_server: str) -> ServerRun:
    """A run of the test's own at the model server."""
    return ServerRun(host, model_server)


def question(text: str = "How are you?", **fields: Any) -> ModelRequest:
    return ModelRequest([text_message("m1", "user", text)], **fields)


async def take_texts(model: Model, request: ModelRequest, told: Callable[[str], None]) -> None:
    async for event in model.stream(request):
        if isinstance(event, TextDelta):
            told(event.text)


def weather_tool() -> Tool:
    async def execute(arguments: dict[str, Any], context: Any) -> str:
        return "sunny"

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    return Tool(name="weather", description="The weather.", parameters=schema, execute=execute)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_text_and_usage_stream(run: ServerRun, provider: str) -> None:
    await run.script({"text": "All is well, thank you — 你好 🎉.", "usage": [12, 7]})
    model = run.model(provider)
    events = await collect(model, question(system="Be brief."))
    texts = [event.text for event in events if isinstance(event, TextDelta)]
    assert "".join(texts) == "All is well, thank you — 你好 🎉."
    assert len(texts) > 1
    assert [event for event in events if isinstance(event, Usage)] == [Usage(12, 7)]
    assert events[-1] == Finish("stop")
    received = (await run.requests())[0]["body"]
    assert "How are you?" in json.dumps(received)
    assert "Be brief." in json.dumps(received)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_parallel_tool_calls(run: ServerRun, provider: str) -> None:
    calls = [
        {"id": "c1", "name": "weather", "arguments": '{"city": "Bergen"}'},
        {"id": "c2", "name": "weather", "arguments": '{"city": "Oslo"}'},
    ]
    await run.script({"text": "I will look.", "calls": calls})
    events = await collect(run.model(provider), question(tools={"weather": weather_tool()}))
    made = [event for event in events if isinstance(event, ToolCall)]
    assert [call.input for call in made] == [{"city": "Bergen"}, {"city": "Oslo"}]
    assert len({call.call_id for call in made}) == 2
    for call in made:
        deltas = [event for event in events if isinstance(event, ToolCallDelta)]
        text = "".join(delta.text for delta in deltas if delta.call_id == call.call_id)
        assert json.loads(text) == call.input
    assert isinstance(events[-1], Finish)
    declared = (await run.requests())[0]["body"]["tools"]
    assert "The weather." in json.dumps(declared)


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
async def test_reasoning_streams_before_the_text(run: ServerRun, provider: str) -> None:
    await run.script({"reasoning": "let me think about this", "text": "Yes."})
    model = run.model(provider, **({"thinking_tokens": 2000} if provider == "anthropic" else {}))
    events = await collect(model, question())
    reasoning = "".join(event.text for event in events if isinstance(event, ReasoningDelta))
    assert reasoning == "let me think about this"
    if provider == "anthropic":
        ends = [event.metadata for event in events if isinstance(event, ReasoningEnd)]
        assert ends == [{"anthropic": {"signature": "signed"}}]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_call_goes_back_with_its_result(run: ServerRun, provider: str) -> None:
    await run.script({"text": "It is sunny."})
    part = {
        "type": "tool-weather",
        "toolCallId": "c1",
        "state": "output-available",
        "input": {"city": "Bergen"},
        "output": {"sky": "sunny"},
    }
    history = [
        text_message("m1", "user", "Weather?"),
        {"id": "m2", "role": "assistant", "parts": [{"type": "step-start"}, part]},
    ]
    request = ModelRequest(history, tools={"weather": weather_tool()})
    await collect(run.model(provider), request)
    assert await generate_text(run.model(provider), history) == "It is sunny."
    with_tools, without = [json.dumps(received["body"]) for received in await run.requests()]
    assert with_tools.count('"c1"') == 2
    for sent in (with_tools, without):
        assert "Bergen" in sent
        assert "sky" in sent
    if provider == "anthropic":
        assert "tool_use" not in without


async def test_signed_reasoning_goes_back_within_the_same_answer(run: ServerRun) -> None:
    await run.script({"text": "ok"})
    thought = {"type": "reasoning", "text": "hm"}
    signed = {**thought, "providerMetadata": {"anthropic": {"signature": "signed"}}}
    call: dict[str, Any] = {"type": "tool-weather", "toolCallId": "c1", "input": {}, "output": 1}

    def answer(identifier: str, *parts: dict[str, Any]) -> dict[str, Any]:
        return {"id": identifier, "role": "assistant", "parts": list(parts)}

    history = [
        text_message("m1", "user", "Weather?"),
        answer("m2", signed, {"type": "text", "text": "Sunny."}),
        text_message("m3", "user", "And now?"),
        answer("m4", signed, call),
    ]
    tools = {"weather": weather_tool()}
    model = run.model("anthropic", thinking_tokens=2_000)
    await collect(model, ModelRequest(history, tools=tools))
    await collect(model, ModelRequest(history, tools=tools, max_output_tokens=1_000))
    first, second = [received["body"] for received in await run.requests()]
    assert json.dumps(first["messages"]).count('"signature": "signed"') == 1
    assert first["thinking"] == {"type": "enabled", "budget_tokens": 2_000}
    assert "thinking" not in json.dumps(second)


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"error": {"message": "prompt is too long: 9 > 8"}}, ContextOverflowError),
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}, ContextOverflowError),
        (413, {"error": {"type": "request_too_large", "message": "too big"}}, ContextOverflowError),
        (400, {"error": {"message": "unknown field"}}, ModelRequestError),
        (400, {"error": {"code": "content_filter", "message": "no"}}, RefusalError),
        (401, {"error": {"message": f"wrong key {KEY}"}}, AuthenticationError),
        (403, "<html><body>Forbidden</body></html>", AuthenticationError),
        (404, {"error": {"message": "no such model"}}, ModelRequestError),
        (402, {"error": {"message": "pay"}}, AuthenticationError),
        (429, {"error": {"code": "insufficient_quota", "message": "quota"}}, AuthenticationError),
    ],
)
async def test_errors_that_stay_errors(
    run: ServerRun, provider: str, status: int, body: Any, expected: type[ModelError]
) -> None:
    await run.script({"status": status, "body": body})
    with pytest.raises(expected) as caught:
        await collect(run.model(provider), question())
    assert type(caught.value) is expected
    assert caught.value.status == status
    assert KEY not in str(caught.value)
    assert len(await run.requests()) == 1


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (429, RateLimitError),
        (500, ModelUnavailableError),
        (503, ModelUnavailableError),
        (529, ModelUnavailableError),
        (504, ModelTimeoutError),
    ],
)
async def test_passing_errors_are_tried_again(
    run: ServerRun, provider: str, status: int, expected: type[ModelError]
) -> None:
    busy = {"status": status, "body": {"error": {"message": "busy"}}}
    await run.script(busy, busy, {"text": "There you are."})
    assert await generate_text(run.model(provider), "Hello?") == "There you are."
    assert len(await run.requests()) == 3
    await run.script(busy)
    with pytest.raises(expected) as caught:
        await collect(run.model(provider), question())
    assert type(caught.value) is expected
    assert len(await run.requests()) == 3


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
async def test_the_servers_own_waiting_time_is_obeyed(run: ServerRun, provider: str) -> None:
    slow = {"status": 429, "headers": {"retry-after": "0.05"}, "body": ""}
    await run.script(slow, {"text": "Now."})
    model = run.model(provider, retries=RetryPolicy(attempts=2, first_wait=30, longest_wait=60))
    async with asyncio.timeout(10):
        assert await generate_text(model, "Hello?") == "Now."
    await run.script({**slow, "headers": {"retry-after": "3600"}})
    async with asyncio.timeout(10):
        with pytest.raises(RateLimitError) as caught:
            await generate_text(model, "Hello?")
    assert caught.value.retry_after == 3600
    assert len(await run.requests()) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_connection_lost_in_the_middle_is_told(run: ServerRun, provider: str) -> None:
    await run.script({"text": "one two three four five six seven eight nine ten", "cut": 4})
    got: list[str] = []
    with pytest.raises(ModelNetworkError):
        await take_texts(run.model(provider), question(), got.append)
    assert got
    assert len(await run.requests()) == 1


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
async def test_a_connection_lost_before_anything_is_tried_again(
    run: ServerRun, provider: str
) -> None:
    await run.script({"text": "a b c", "cut": 0}, {"text": "whole"})
    assert await generate_text(run.model(provider), "Hello?") == "whole"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stream_that_just_ends_is_no_answer(run: ServerRun, provider: str) -> None:
    await run.script({"text": "one two three four five six seven eight nine", "unfinished": 3})
    with pytest.raises(ModelResponseError, match="stopped in the middle"):
        await collect(run.model(provider), question())


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_invalid_json_in_the_stream(run: ServerRun, provider: str) -> None:
    await run.script({"raw": 'data: {"choices": [{"delta"\n\n'})
    with pytest.raises(ModelResponseError, match="invalid JSON"):
        await collect(run.model(provider), question())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, ModelUnavailableError),
        ({"code": "context_length_exceeded", "message": "too long"}, ContextOverflowError),
        ({"code": 429, "message": "slow down"}, RateLimitError),
        ({"message": "bad"}, ModelRequestError),
    ],
)
async def test_a_good_status_that_holds_an_error(
    run: ServerRun, provider: str, error: Any, expected: type[ModelError]
) -> None:
    whole = json.dumps({"type": "error", "error": error})
    await run.script({"raw": whole, "content_type": "application/json"})
    with pytest.raises(expected):
        await collect(run.model(provider), question())
    await run.script({"raw": f"data: {whole}\n\n"})
    with pytest.raises(expected):
        await collect(run.model(provider), question())


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("usage", [None, [0, 0]])
async def test_usage_of_zero_is_no_usage(run: ServerRun, provider: str, usage: Any) -> None:
    await run.script({"text": "Fine.", "usage": usage})
    events = await collect(run.model(provider), question())
    assert all(event.total_tokens is None for event in events if isinstance(event, Usage))
    assert events[-1] == Finish("stop")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("text", "problem"),
    [('{"city": "Ber', "not valid JSON"), ('["Bergen"]', "must be a JSON object")],
)
async def test_broken_arguments_are_kept_and_told(
    run: ServerRun, provider: str, text: str, problem: str
) -> None:
    await run.script({"calls": [{"id": "c1", "name": "weather", "arguments": text}]})
    events = await collect(run.model(provider), question(tools={"weather": weather_tool()}))
    (call,) = [event for event in events if isinstance(event, ToolCall)]
    assert call.input == text
    assert problem in (call.error or "")


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_arguments_are_an_empty_object(run: ServerRun, provider: str) -> None:
    await run.script({"calls": [{"id": "c1", "name": "weather", "arguments": ""}]})
    events = await collect(run.model(provider), question(tools={"weather": weather_tool()}))
    (call,) = [event for event in events if isinstance(event, ToolCall)]
    assert (call.input, call.error) == ({}, None)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_abort_stops_the_request_at_the_server(run: ServerRun, provider: str) -> None:
    await run.script({"text": " ".join(f"word{n}" for n in range(3000)), "delay": 0.02})
    abort = Abort()
    seen: list[str] = []

    def stop_after_three(text: str) -> None:
        seen.append(text)
        if len(seen) == 3:
            abort.set("enough")

    with pytest.raises(AbortedError, match="enough"):
        await take_texts(run.model(provider), question(abort=abort), stop_after_three)
    assert len(seen) == 3
    await _wait_until_gone(run)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_abort_while_waiting_stops_at_once(run: ServerRun, provider: str) -> None:
    await run.script({"text": "late", "silent": 20})
    abort = Abort()
    asyncio.get_running_loop().call_later(0.2, abort.set, "enough")
    async with asyncio.timeout(10):
        with pytest.raises(AbortedError):
            await collect(run.model(provider), question(abort=abort))
    with pytest.raises(AbortedError):
        await collect(run.model(provider), question(abort=abort))
    assert len(await run.requests()) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_leaving_early_stops_the_request_at_the_server(run: ServerRun, provider: str) -> None:
    await run.script({"text": " ".join(f"word{n}" for n in range(3000)), "delay": 0.02})
    events = run.model(provider).stream(question())
    async for event in events:
        if isinstance(event, TextDelta):
            break
    await events.aclose()
    await _wait_until_gone(run)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stalled_stream_ends_in_time(run: ServerRun, provider: str) -> None:
    await run.script({"text": "never", "delay": 20})
    model = run.model(
        provider, limits=TimeLimits(answer=5, stall=0.2), retries=RetryPolicy(attempts=1)
    )
    async with asyncio.timeout(10):
        with pytest.raises(ModelTimeoutError):
            await collect(model, question())


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_silent_server_ends_in_time(run: ServerRun, provider: str) -> None:
    await run.script({"text": "never", "silent": 20})
    model = run.model(
        provider, limits=TimeLimits(answer=0.2, stall=5), retries=RetryPolicy(attempts=1)
    )
    async with asyncio.timeout(10):
        with pytest.raises(ModelTimeoutError):
            await collect(model, question())


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
async def test_a_refusal_is_told_apart(run: ServerRun, provider: str) -> None:
    await run.script({"text": "I would", "finish": "content_filter"})
    with pytest.raises(RefusalError):
        await collect(run.model(provider), question())


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
async def test_an_unreachable_server(host: Any, provider: str, run: ServerRun) -> None:
    run.address = "http://127.0.0.1:9"
    with pytest.raises(ModelNetworkError):
        await collect(run.model(provider, retries=RetryPolicy(attempts=1)), question())


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_an_answer_that_was_not_streamed(run: ServerRun, provider: str) -> None:
    whole: dict[str, Any] = {
        "openai": {
            "choices": [{"message": {"content": "Whole."}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        },
        "anthropic": {
            "type": "message",
            "content": [{"type": "text", "text": "Whole."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 5, "output_tokens": 2},
        },
        "workers-ai": {
            "response": "Whole.",
            "usage": {"prompt_tokens": 5, "completion_tokens": 2},
        },
    }
    await run.script({"raw": json.dumps(whole[provider]), "content_type": "application/json"})
    events = await collect(run.model(provider), question())
    assert events == [TextDelta("Whole."), Usage(5, 2), Finish("stop")]


@pytest.mark.parametrize("provider", HTTP_PROVIDERS)
async def test_images_and_documents_go_along(run: ServerRun, provider: str) -> None:
    await run.script({"text": "A dot."})
    picture = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
    note = "data:text/plain;base64," + base64.b64encode(b"remember the milk").decode()
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "file", "mediaType": "image/png", "url": picture},
        {"type": "file", "mediaType": "text/plain", "url": note, "filename": "note.txt"},
        {"type": "file", "mediaType": "application/x-tar", "url": "data:,x", "filename": "a.tar"},
    ]
    message = {"id": "m1", "role": "user", "parts": parts}
    assert await generate_text(run.model(provider), [message]) == "A dot."
    sent = json.dumps((await run.requests())[0]["body"])
    assert base64.b64encode(b"\x89PNG").decode() in sent
    assert "remember the milk" in sent
    assert "a.tar (application/x-tar); this model cannot read it" in sent.replace("; ", "; ")


async def test_the_key_is_only_in_the_header(run: ServerRun) -> None:
    await run.script({"text": "ok"})
    for provider, header in (("openai", "authorization"), ("anthropic", "x-api-key")):
        model = run.model(provider)
        await collect(model, question())
        received = (await run.requests())[-1]
        assert KEY in received["headers"][header]
        assert KEY not in json.dumps(received["body"])
        assert KEY not in repr(vars(model))
    assert KEY not in repr(Secret(KEY))


async def _wait_until_gone(run: ServerRun) -> None:
    """The server notices within seconds that nobody reads any more, far from its end."""
    (received,) = await run.requests()
    for _attempt in range(100):
        if received["gone"] or received["ended"]:
            break
        await asyncio.sleep(0.05)
        (received,) = await run.requests()
    assert received["gone"]
    assert not received["ended"]
    assert received["events"] < 900
