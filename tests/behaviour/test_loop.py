"""The agent loop: whole turns with tools on every adapter, and everything that can go wrong."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import pytest
from model_rig import PROVIDERS, ServerRun

from palimpsest.abort import Abort
from palimpsest.chat.calibration import LearnedCounter
from palimpsest.chat.loop import StepReport, run_loop
from palimpsest.messages import Message, text_message
from palimpsest.models import OfflineModel
from palimpsest.models.interface import Finish, ModelEvent, ModelRequest, TextDelta
from palimpsest.models.retry import RetryPolicy
from palimpsest.tokens import TokenCounter
from palimpsest.tools import Tool, ToolContext, client_tools, make_tools, tool

Chunk = dict[str, Any]
LAST = ("finish", "error", "abort")


@pytest.fixture
def run(host: Any, model_server: str) -> ServerRun:
    """A run of the test's own at the model server."""
    return ServerRun(host, model_server)


def call(name: str, arguments: Any = None, identifier: str = "c1") -> dict[str, str]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": identifier, "name": name, "arguments": text}


@tool
async def weather(city: str) -> dict[str, str]:
    """Tell the weather."""
    return {"city": city, "sky": "sunny"}


async def take(
    model: Any, question: str | Sequence[Message] = "Weather?", **options: Any
) -> list[Chunk]:
    """All chunks of one run, checked against the rules that clients enforce."""
    history = (
        [text_message("m1", "user", question)] if isinstance(question, str) else list(question)
    )

    async def context() -> list[Message]:
        return list(history)

    options.setdefault("context", context)
    chunks = [chunk async for chunk in run_loop(model=model, **options)]
    check_rules(chunks, history)
    return chunks


def check_rules(chunks: Sequence[Chunk], history: Sequence[Message]) -> None:
    kinds = [chunk["type"] for chunk in chunks]
    assert kinds[0] == "start"
    assert [kind for kind in kinds if kind in LAST] == [kinds[-1]]
    open_blocks: set[str] = set()
    ended: set[str] = set()
    calls = {
        part["toolCallId"]
        for message in history
        for part in message["parts"]
        if "toolCallId" in part
    }
    for chunk in chunks:
        kind = chunk["type"]
        if kind in ("text-start", "reasoning-start"):
            assert chunk["id"] not in open_blocks | ended
            open_blocks.add(chunk["id"])
        elif kind in ("text-delta", "reasoning-delta"):
            assert chunk["id"] in open_blocks
            assert chunk["delta"]
        elif kind in ("text-end", "reasoning-end"):
            open_blocks.remove(chunk["id"])
            ended.add(chunk["id"])
        elif kind == "tool-input-start":
            assert chunk["toolCallId"] not in calls
            calls.add(chunk["toolCallId"])
        elif "toolCallId" in chunk:
            assert chunk["toolCallId"] in calls
    if kinds[-1] == "finish":
        assert not open_blocks
        assert kinds.count("start-step") == kinds.count("finish-step")


def text_of_chunks(chunks: Sequence[Chunk]) -> str:
    return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


def only(chunks: Sequence[Chunk], kind: str) -> list[Chunk]:
    return [chunk for chunk in chunks if chunk["type"] == kind]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_turn_with_tools(run: ServerRun, provider: str) -> None:
    await run.script(
        {"text": "I look.", "calls": [call("weather", {"city": "Bergen"})], "usage": [50, 10]},
        {"text": "It is sunny in Bergen.", "usage": [80, 6]},
    )
    reports: list[StepReport] = []
    chunks = await take(
        run.model(provider),
        tools=make_tools([weather]),
        system="Be kind.",
        on_step=reports.append,
        message_id="answer",
    )
    assert chunks[0] == {"type": "start", "messageId": "answer"}
    assert text_of_chunks(chunks) == "I look.It is sunny in Bergen."
    (available,) = only(chunks, "tool-input-available")
    assert available["input"] == {"city": "Bergen"}
    (output,) = only(chunks, "tool-output-available")
    assert output["output"] == {"city": "Bergen", "sky": "sunny"}
    assert output["toolCallId"] == available["toolCallId"]
    assert chunks[-1]["finishReason"] == "stop"
    assert chunks[-1]["messageMetadata"]["usage"] == {
        "inputTokens": 130,
        "outputTokens": 16,
        "totalTokens": 146,
    }
    assert [report.usage and report.usage.input_tokens for report in reports] == [50, 80]
    second = json.dumps((await run.requests())[1]["body"])
    assert "sunny" in second
    assert "Be kind." in second


async def test_the_offline_model_searches_and_quotes() -> None:
    heard: list[str] = []

    @tool
    async def session_search(query: str) -> str:
        """Search the conversation."""
        heard.append(query)
        return "[user] My cat is called Minka. She is black.\n---\n[user] I live in Bergen."

    tools = make_tools([session_search])
    assert "My cat is called Minka." in text_of_chunks(
        await take(OfflineModel(), "My cat is called Minka.", tools=tools)
    )
    assert heard == []
    chunks = await take(OfflineModel(), "What is my cat called?", tools=tools)
    assert "“My cat is called Minka.”" in text_of_chunks(chunks)
    assert heard == ["cat"]
    assert len(only(chunks, "text-delta")) > 3
    lost = await take(OfflineModel(), "What is my dog called?", tools=tools)
    assert "found nothing" in text_of_chunks(lost)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_parallel_calls_run_side_by_side(run: ServerRun, provider: str) -> None:
    calls = [call("meet", {"who": "a"}, "c1"), call("meet", {"who": "b"}, "c2")]
    await run.script({"calls": calls}, {"text": "done"})
    arrived: dict[str, asyncio.Event] = {"a": asyncio.Event(), "b": asyncio.Event()}

    @tool(timeout=5)
    async def meet(who: str) -> str:
        """Wait for the other call."""
        arrived[who].set()
        await arrived["b" if who == "a" else "a"].wait()
        return f"{who} met"

    chunks = await take(run.model(provider), tools=make_tools([meet]))
    outputs = {chunk["output"] for chunk in only(chunks, "tool-output-available")}
    assert outputs == {"a met", "b met"}


async def test_failures_of_tools_are_told_to_the_model(run: ServerRun) -> None:
    await run.script(
        {
            "calls": [
                call("slow", None, "c1"),
                call("broken", None, "c2"),
                call("missing", None, "c3"),
                call("weather", '{"city": ', "c4"),
                call("weather", {"town": 3}, "c5"),
                call("odd", None, "c6"),
            ]
        },
        {"text": "I am sorry."},
    )

    @tool(timeout=0.05)
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(30)
        return "never"

    @tool
    async def broken() -> str:
        """Fail."""
        raise ValueError("the disk is full")

    @tool
    async def odd() -> object:
        """Return what JSON cannot hold."""
        return {"n": object()}

    tools = make_tools([slow, broken, odd, weather])
    chunks = await take(run.model("openai"), tools=tools)
    errors = {chunk["toolCallId"]: chunk["errorText"] for chunk in chunks if "errorText" in chunk}
    assert "did not finish within 0.05 seconds" in errors["c1"]
    assert errors["c2"] == "ValueError: the disk is full"
    assert "there is no tool 'missing'" in errors["c3"]
    assert "not valid JSON" in errors["c4"]
    assert "city" in errors["c5"]
    assert "cannot be written as JSON" in errors["c6"]
    assert [chunk["toolCallId"] for chunk in only(chunks, "tool-input-error")] == ["c3", "c4"]
    sent = json.dumps((await run.requests())[1]["body"])
    for words in ("disk is full", "there is no tool", "not valid JSON", "within 0.05"):
        assert words in sent
    assert text_of_chunks(chunks) == "I am sorry."


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_client_tool_ends_the_run_and_its_result_continues_it(
    run: ServerRun, provider: str
) -> None:
    await run.script(
        {"calls": [call("where", None, "c1"), call("weather", {"city": "Oslo"}, "c2")]},
        {"text": "You are in Oslo."},
    )
    where: dict[str, Any] = {"name": "where", "description": "Where?", "parameters": {}}
    declared = client_tools([where, "junk"])
    chunks = await take(run.model(provider), tools=make_tools([weather]), client_tools=declared)
    assert chunks[-1]["finishReason"] == "tool-calls"
    assert len(only(chunks, "tool-output-available")) == 1
    waiting, answered = only(chunks, "tool-input-available")
    parts = [
        {"type": "step-start"},
        {
            "type": "tool-where",
            "toolCallId": waiting["toolCallId"],
            "state": "output-available",
            "input": {},
            "output": {"place": "Oslo"},
        },
        {
            "type": "tool-weather",
            "toolCallId": answered["toolCallId"],
            "state": "output-available",
            "input": {"city": "Oslo"},
            "output": "rain",
        },
    ]
    history = [
        text_message("m1", "user", "Weather here?"),
        {"id": "m2", "role": "assistant", "parts": parts},
    ]
    chunks = await take(run.model(provider), history, tools=make_tools([weather]))
    assert text_of_chunks(chunks) == "You are in Oslo."
    assert "Oslo" in json.dumps((await run.requests())[1]["body"])


async def test_approval_is_asked_and_obeyed(run: ServerRun) -> None:
    done: list[str] = []

    @tool(needs_approval=True)
    async def send(to: str) -> str:
        """Send."""
        done.append(to)
        return f"sent to {to}"

    def expensive(arguments: dict[str, Any], context: ToolContext) -> bool:
        return arguments["amount"] > 10

    @tool(needs_approval=expensive)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    tools = make_tools([send, pay])
    calls = [
        call("send", {"to": "ada"}, "c1"),
        call("send", {"to": "bob"}, "c2"),
        call("pay", {"amount": 5}, "c3"),
        call("pay", {"amount": 50}, "c4"),
    ]
    await run.script({"calls": calls}, {"text": "All settled."})
    chunks = await take(run.model("openai"), tools=tools)
    asked = only(chunks, "tool-approval-request")
    assert [chunk["toolCallId"] for chunk in asked] == ["c1", "c2", "c4"]
    assert [chunk["output"] for chunk in only(chunks, "tool-output-available")] == ["paid 5"]
    assert chunks[-1]["finishReason"] == "tool-calls"
    assert done == []
    answers = {"c1": True, "c2": False, "c4": True}
    inputs = {made["id"]: json.loads(made["arguments"]) for made in calls}
    parts: list[dict[str, Any]] = [
        {
            "type": "tool-pay" if identifier == "c4" else "tool-send",
            "toolCallId": identifier,
            "state": "approval-responded",
            "input": inputs[identifier],
            "approval": {"id": f"a-{identifier}", "approved": approved, "reason": "not now"},
        }
        for identifier, approved in answers.items()
    ]
    history = [
        text_message("m1", "user", "Do it."),
        {"id": "m2", "role": "assistant", "parts": [{"type": "step-start"}, *parts]},
    ]
    chunks = await take(run.model("openai"), history, tools=tools)
    assert done == ["ada"]
    assert [chunk["toolCallId"] for chunk in only(chunks, "tool-output-denied")] == ["c2"]
    outputs = {chunk["output"] for chunk in only(chunks, "tool-output-available")}
    assert outputs == {"sent to ada", "paid 50"}
    before_step = [chunk["type"] for chunk in chunks[: chunks.index({"type": "start-step"})]]
    assert before_step.count("tool-output-available") == 2
    sent = json.dumps((await run.requests())[1]["body"])
    assert "sent to ada" in sent
    assert "denied" in sent
    assert text_of_chunks(chunks) == "All settled."


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_endless_tool_calling_ends_with_a_clear_error(run: ServerRun, provider: str) -> None:
    await run.script({"calls": [call("weather", {"city": "Bergen"}, "same")]})
    chunks = await take(run.model(provider), tools=make_tools([weather]), max_steps=6)
    assert chunks[-1]["type"] == "error"
    assert "kept calling tools for 6 steps" in chunks[-1]["errorText"]
    assert len(await run.requests()) == 6
    # The same call with the same result is not run more than three times; none stays open.
    assert len(only(chunks, "tool-output-available")) == 3
    started = [chunk["toolCallId"] for chunk in only(chunks, "tool-input-start")]
    assert len(set(started)) == 6
    settled = only(chunks, "tool-output-available") + only(chunks, "tool-input-error")
    assert sorted(chunk["toolCallId"] for chunk in settled) == sorted(started)


async def test_a_call_whose_result_changes_may_be_repeated(run: ServerRun) -> None:
    await run.script(*[{"calls": [call("poll")]} for _ in range(6)], {"text": "ready"})
    count = 0

    @tool
    async def poll() -> int:
        """Look again."""
        nonlocal count
        count += 1
        return count

    chunks = await take(run.model("openai"), tools=make_tools([poll]))
    assert count == 6
    assert text_of_chunks(chunks) == "ready"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_overflow_leads_to_one_compaction_and_one_retry(
    run: ServerRun, provider: str
) -> None:
    too_long = {"status": 400, "body": {"error": {"message": "prompt is too long: 900 > 800"}}}
    await run.script(too_long, {"text": "Now it fits."})
    asked: list[int] = []
    history = [text_message(f"m{n}", "user", "word " * 50) for n in range(20)]

    async def context() -> list[Message]:
        return history[-5:] if asked else history

    async def compact(target: int) -> bool:
        asked.append(target)
        return True

    chunks = await take(run.model(provider), context=context, on_overflow=compact)
    assert text_of_chunks(chunks) == "Now it fits."
    first, second = [json.dumps(received["body"]) for received in await run.requests()]
    assert len(second) < len(first) / 2
    assert len(asked) == 1
    await run.script(too_long)
    asked.clear()
    chunks = await take(run.model(provider), context=context, on_overflow=compact)
    assert chunks[-1]["type"] == "error"
    assert "too long" in chunks[-1]["errorText"]
    assert len(await run.requests()) == 2
    assert len(asked) == 1


async def test_a_refusal_is_tried_again_even_after_a_compaction(run: ServerRun) -> None:
    too_long = {"status": 400, "body": {"error": {"message": "prompt is too long"}}}
    await run.script(too_long, {"text": "Now."})
    asked: list[int] = []
    history = [text_message(f"m{n}", "user", "word " * 1_000) for n in range(8)]

    async def context() -> list[Message]:
        return history[2 * len(asked) :]

    async def compact(target: int) -> bool:
        asked.append(target)
        return True

    counter = TokenCounter()
    model = run.model("openai", context_window=11_000, max_output_tokens=1_000)
    chunks = await take(model, context=context, on_overflow=compact, counter=counter)
    assert text_of_chunks(chunks) == "Now."
    assert len(asked) == 2
    assert counter.calibration.ratio > 1.1


async def test_overflow_without_help_is_a_clear_error(run: ServerRun) -> None:
    await run.script({"text": "never"})
    huge = "word " * 50_000
    model = run.model("openai", context_window=20_000, max_output_tokens=2_000)

    async def compact(target: int) -> bool:
        return False

    chunks = await take(model, huge, on_overflow=compact)
    assert chunks[-1]["type"] == "error"
    assert "does not fit" in chunks[-1]["errorText"]
    assert await run.requests() == []


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_thirty_steps_with_large_results_never_exceed_the_budget(
    run: ServerRun, provider: str
) -> None:
    budget = 12_000
    steps = [{"calls": [call("read", {"page": n}, f"c{n}")]} for n in range(29)]
    await run.script(*steps, {"text": "I have read all of it."}, max_tokens=budget)
    chance = random.Random(4)
    kinds: list[Callable[[int], Any]] = [
        lambda size: base64.b64encode(chance.randbytes(size * 3 // 4)).decode(),
        lambda size: chance.randbytes(size // 2).hex(),
        lambda size: "plain words about nothing in particular. " * (size // 41),
        lambda size: [{"id": n, "name": f"row {n}", "ok": True} for n in range(size // 40)],
        lambda size: "记忆是一切的开始" * (size // 8),
    ]
    whole: list[int] = []

    @tool
    async def read(page: int) -> Any:
        """Read a page."""
        result = kinds[page % 5](14_000)
        whole.append(len(json.dumps(result, ensure_ascii=False)))
        return result

    reports: list[StepReport] = []
    counter = TokenCounter()
    chunks = await take(
        run.model(provider, context_window=budget + 1_000, max_output_tokens=1_000),
        tools=make_tools([read]),
        max_steps=30,
        counter=counter,
        on_step=reports.append,
    )
    assert text_of_chunks(chunks) == "I have read all of it."
    assert sum(whole) >= 400_000
    outputs = [chunk["output"] for chunk in only(chunks, "tool-output-available")]
    assert [len(json.dumps(output, ensure_ascii=False)) for output in outputs] == whole
    received = await run.requests()
    assert len(received) == 30
    counts = [request["tokens"] for request in received]
    print("tokens of the requests:", counts)
    assert max(counts) <= budget
    assert max(counts) > budget / 4


async def test_abort_in_the_middle_of_a_stream(run: ServerRun) -> None:
    await run.script({"text": " ".join(f"word{n}" for n in range(2000)), "delay": 0.02})
    abort = Abort()

    async def context() -> list[Message]:
        return [text_message("m1", "user", "Talk.")]

    chunks: list[Chunk] = []
    async for chunk in run_loop(model=run.model("openai"), context=context, abort=abort):
        chunks.append(chunk)
        if len(only(chunks, "text-delta")) == 3:
            abort.set("stopped by the user")
    assert chunks[-1] == {"type": "abort", "reason": "stopped by the user"}
    assert len(only(chunks, "text-delta")) == 3


async def test_abort_cancels_running_tools(run: ServerRun) -> None:
    await run.script({"calls": [call("wait", None, "c1"), call("wait", None, "c2")]})
    abort = Abort()
    ended: list[str] = []

    @tool
    async def wait(context: ToolContext) -> None:
        """Wait."""
        try:
            abort.set("enough")
            await asyncio.sleep(30)
        finally:
            ended.append(context.tool_call_id)

    async with asyncio.timeout(10):
        chunks = await take(run.model("openai"), tools=make_tools([wait]), abort=abort)
    assert chunks[-1] == {"type": "abort", "reason": "enough"}
    assert "c1" in ended


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_stream_cut_in_the_middle_keeps_what_was_said(
    run: ServerRun, provider: str
) -> None:
    await run.script({"text": "one two three four five six seven eight nine ten", "cut": 4})
    chunks = await take(run.model(provider))
    assert chunks[-1]["type"] == "error"
    assert "connection was lost" in chunks[-1]["errorText"]
    assert text_of_chunks(chunks).startswith("one two three")


async def test_a_call_cut_in_the_middle_is_not_run(run: ServerRun) -> None:
    await run.script({"calls": [call("weather", {"city": "Bergen"})], "cut": 2})
    chunks = await take(
        run.model("openai", retries=RetryPolicy(attempts=1)), tools=make_tools([weather])
    )
    assert chunks[-1]["type"] == "error"
    assert only(chunks, "tool-output-available") == []


async def test_what_was_learned_from_usage_scales_the_next_estimate(run: ServerRun) -> None:
    await run.script({"text": "ok", "usage": [400, 1]})
    counter = TokenCounter()
    reports: list[StepReport] = []
    text = "word " * 200
    await take(run.model("openai"), text, counter=counter, on_step=reports.append)
    assert counter.calibration.samples == 1
    assert counter.scale(reports[0].estimated_tokens) == pytest.approx(400, abs=2)
    await run.script({"text": "ok", "usage": [0, 0]})
    await take(run.model("openai"), text, counter=counter)
    assert counter.calibration.samples == 1


async def test_interrupted_and_strange_histories_are_repaired(run: ServerRun) -> None:
    await run.script({"text": "fine"})
    open_call: dict[str, Any] = {"type": "tool-weather", "toolCallId": "c1", "input": {"city": "B"}}
    history: list[Message] = [
        text_message("m0", "assistant", "Welcome."),
        {"id": "m1", "role": "user", "parts": []},
        text_message("m2", "user", "Weather?"),
        {"id": "m3", "role": "assistant", "parts": [{**open_call, "state": "input-available"}]},
        text_message("m4", "user", "Hello?"),
        {"id": "m5", "role": "assistant", "parts": [{**open_call, "state": "input-streaming"}]},
        {"id": "m6", "role": "assistant", "parts": [{"type": "reasoning", "text": "hm"}]},
        text_message("m7", "user", "Again?"),
    ]
    for provider in PROVIDERS:
        chunks = await take(run.model(provider), history)
        assert text_of_chunks(chunks) == "fine"
    openai, anthropic, _workers = [request["body"] for request in await run.requests()]
    identifiers = [
        made["id"] for message in openai["messages"] for made in message.get("tool_calls", ())
    ]
    results = [message for message in openai["messages"] if message["role"] == "tool"]
    assert len(set(identifiers)) == 2
    assert [message["tool_call_id"] for message in results] == identifiers
    assert all("interrupted" in message["content"] for message in results)
    roles = [message["role"] for message in anthropic["messages"]]
    assert roles[0] == "user"
    assert all(role != after for role, after in itertools.pairwise(roles))


async def test_tools_see_their_context(run: ServerRun) -> None:
    await run.script({"calls": [call("who", None, "c9")]}, {"text": "ok"})
    seen: list[ToolContext] = []

    async def execute(arguments: dict[str, Any], context: ToolContext) -> str:
        seen.append(context)
        return "me"

    made = Tool(name="who", description="", parameters={"type": "object"}, execute=execute)
    await take(run.model("openai"), tools={"who": made}, agent="the agent", session_id="s1")
    assert (seen[0].tool_call_id, seen[0].agent, seen[0].session_id) == ("c9", "the agent", "s1")


async def test_what_was_learned_survives(host: Any) -> None:
    counter = LearnedCounter(host, "openai:m")
    assert counter.calibration.samples == 0
    for _ in range(3):
        counter.calibration.observe(1000, 1300)
    counter.save()
    again = LearnedCounter(host, "openai:m")
    assert again.calibration.ratio == pytest.approx(1.3)
    assert again.calibration.samples == 3
    assert LearnedCounter(host, "openai:other").calibration.samples == 0


class Silent:
    """A model that ends without having said anything."""

    name = "silent"
    context_window = 8_000
    max_input_tokens = 7_000
    max_output_tokens = 1_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("")
        yield Finish("stop")


async def test_a_model_that_says_nothing_has_not_answered() -> None:
    chunks = await take(Silent())
    assert chunks[-1] == {
        "type": "error",
        "errorText": "the model gave no answer (it ended with 'stop')",
    }


async def test_an_answer_that_goes_on_may_add_nothing() -> None:
    part = {"type": "tool-map", "toolCallId": "c1", "state": "output-available", "output": 1}
    answer: Message = {"id": "m2", "role": "assistant", "parts": [{**part, "input": {}}]}
    history = [text_message("m1", "user", "Where?"), answer]
    chunks = await take(Silent(), history)
    assert chunks[-1]["type"] == "finish"
