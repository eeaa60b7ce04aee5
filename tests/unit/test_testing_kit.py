"""The testing kit, used as an agent's author would."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.chat.agent import ChatAgent
from palimpsest.errors import SqlError
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.models.interface import ModelRequest, TextDelta, ToolCall, generate_text
from palimpsest.testing import LocalAgent, LocalHost, ScriptedModel, assert_history, load_agents

ROOT = Path(__file__).parents[2]
MakeAgent = Callable[..., LocalAgent[Any]]


class Counter(Agent):
    initial_state = 0

    def on_start(self) -> None:
        self.starts = 1

    @callable_method
    def add(self, amount: int) -> int:
        self.set_state(self.state + amount)
        return self.state

    def on_request(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {"content-type": "text/plain"}, request.body[::-1])

    async def count_slowly(self) -> None:
        await asyncio.sleep(60)
        self.set_state(-1)


async def test_agent_answers_requests_and_connections(local_agent: MakeAgent) -> None:
    async with local_agent(Counter) as local:
        answer = await local.request("POST", "anything", body="abc")
        assert (answer.status, answer.text) == (200, "cba")
        client = await local.connect("_pk=one")
        assert (await client.receive("cf_agent_identity"))["name"] == "test"
        await client.send({"type": "rpc", "id": "1", "method": "add", "args": [2]})
        assert (await client.receive("rpc"))["result"] == 2
        states = [(await client.receive("cf_agent_state"))["state"] for _ in range(2)]
        assert states == [0, 2]


async def test_eviction_keeps_storage_and_sockets_and_drops_memory(local_agent: MakeAgent) -> None:
    async with local_agent(Counter) as local:
        client = await local.connect()
        first = local.agent
        local.agent.add(5)
        second = await local.evict()
        assert second is not first
        assert second.state == 5
        assert client.socket.is_open
        await client.send({"type": "rpc", "id": "1", "method": "add", "args": [1]})
        assert (await client.receive("rpc"))["result"] == 6


async def test_crash_stops_work_in_the_middle_and_closes_sockets(local_agent: MakeAgent) -> None:
    async with local_agent(Counter) as local:
        client = await local.connect()
        old = local.agent
        old.set_state(3)
        task = local.host.spawn(old.count_slowly(), name="slow")
        await asyncio.sleep(0)
        agent = await local.crash()
        assert task.cancelled()
        assert agent.state == 3
        assert not client.socket.is_open
        with pytest.raises(SqlError, match="dropped"):
            old.set_state(4)


async def test_storage_survives_on_a_path(tmp_path: Any, local_agent: MakeAgent) -> None:
    path = tmp_path / "agent.sqlite"
    async with local_agent(Counter, path=path) as local:
        local.agent.add(7)
    async with local_agent(Counter, path=path) as local:
        assert local.agent.state == 7


async def test_clock_moves_only_by_hand(local_host: LocalHost) -> None:
    before = local_host.now()
    await asyncio.sleep(0.01)
    assert local_host.now() == before
    await local_host.advance(1.5)
    assert local_host.now() == before + 1500


async def test_scripted_model_plays_its_steps_and_keeps_requests(local_host: LocalHost) -> None:
    def echo(request: ModelRequest) -> str:
        return f"you sent {len(request.messages)} message"

    model = ScriptedModel("two words", echo, ConnectionError("gone"), [TextDelta("x")])
    assert await generate_text(model, "a") == "two words"
    assert await generate_text(model, "b") == "you sent 1 message"
    with pytest.raises(ConnectionError, match="gone"):
        await generate_text(model, "c")
    assert await generate_text(model, "d") == "x"
    with pytest.raises(AssertionError, match="request 5 has no step"):
        await generate_text(model, "e")
    assert len(model.requests) == 5


async def test_scripted_tool_call_ends_with_its_reason(local_host: LocalHost) -> None:
    model = ScriptedModel([ToolCall("c1", "look", {"at": "it"})])
    events = [event async for event in model.stream(ModelRequest([]))]
    assert getattr(events[-1], "reason", None) == "tool-calls"


async def test_agents_of_a_main_module_run_here(local_agent: MakeAgent) -> None:
    agents = load_agents(ROOT / "src" / "entry.py")
    assert list(agents) == ["Assistant"]
    async with local_agent(agents["Assistant"]) as local:
        client = await local.connect()
        await client.chat("My cat is called Minka.")
        assert "Minka" in await client.chat("What is my cat called?")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_agents_of_every_example_can_be_read(example: Path) -> None:
    assert len(load_agents(example)) == 1
    assert "palimpsest.hosts.workers" not in sys.modules


async def test_a_client_tells_of_no_answer_and_of_a_closed_connection(
    local_agent: MakeAgent,
) -> None:
    class Silent(ChatAgent):
        def on_chat_message(self, turn: Any) -> None:
            return None

    async with local_agent(Silent) as local:
        client = await local.connect()
        assert await client.chat("hello") == ""
        client.socket.close(4403, "not for you")
        with pytest.raises(ConnectionError, match="4403: not for you"):
            await client.chat("hello")


@pytest.mark.filterwarnings("error")
async def test_a_crash_before_the_turn_began_loses_nothing_and_warns_of_nothing(
    local_agent: MakeAgent,
) -> None:
    async with local_agent(ChatAgent, model=ScriptedModel("an answer")) as local:
        client = await local.connect()
        message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
        await client.request_chat([message], request_id="r1")
        await local.crash()
        gc.collect()
        await local.advance(60)
        await assert_history(local.agent.session(), ["user: hello", "assistant: an answer"])


async def test_a_main_module_may_have_modules_beside_it_and_types_of_its_own(
    tmp_path: Path, local_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "worker_main", raising=False)
    (tmp_path / "beside_it.py").write_text("NUMBER = 7\n")
    (tmp_path / "worker_main.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from palimpsest import ChatAgent, tool\n"
        "from palimpsest.hosts.workers import durable_object\n"
        "@dataclass\n"
        "class Note:\n"
        "    text: str\n"
        "    inner: Note | None = None\n"
        "@durable_object\n"
        "class Notes(ChatAgent):\n"
        "    @tool\n"
        "    async def keep(self, note: Note) -> Note:\n"
        "        'Keep a note.'\n"
        "        from beside_it import NUMBER\n"
        "        return Note(note.text * NUMBER, note)\n"
    )
    async with local_agent(load_agents(tmp_path / "worker_main.py")["Notes"]) as local:
        client = await local.connect()
        answer = await client.chat('/keep {"note": {"text": "a"}}')
        assert "aaaaaaa" in answer


def test_a_main_module_without_agents_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no main module"):
        load_agents(tmp_path / "entry.py")
    (tmp_path / "entry.py").write_text("VALUE = 1\n")
    with pytest.raises(ValueError, match="exports no agent"):
        load_agents(tmp_path / "entry.py")
    (tmp_path / "entry.py").write_text("raise RuntimeError('in it')\n")
    with pytest.raises(RuntimeError, match="in it"):
        load_agents(tmp_path / "entry.py")
    assert "palimpsest.hosts.workers" not in sys.modules


async def test_a_model_is_there_from_the_start_and_after_an_eviction(
    local_agent: MakeAgent,
) -> None:
    model = ScriptedModel("first", "second", "third")
    async with local_agent(ChatAgent, model=model) as local:
        client = await local.connect()
        assert await client.chat("one") == "first"
        await local.evict()
        assert await client.chat("two") == "second"
        await local.crash()
        client = await local.connect()
        assert await client.chat("three") == "third"
