"""Callable methods: what may be called, arguments, results, streams, errors, the Python client."""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import pytest
from actors import call, connect, frames, send, started
from pydantic import BaseModel, Field

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.actor.client import AgentClient
from palimpsest.errors import CallError


class Order(BaseModel):
    """An argument with a shape."""

    item: str
    count: Annotated[int, Field(ge=1)] = 1


class Shop(Agent):
    """Has callable methods, and others that are not."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.closed_early = False

    @callable_method
    def add(self, a: int, b: int = 10) -> int:
        """Adds two numbers.

        More text.
        """
        return a + b

    @callable_method
    async def order(self, order: Order, note: str | None = None) -> dict[str, Any]:
        assert isinstance(order, Order)
        return {"order": order, "note": note, "at": datetime.date(2026, 1, 2)}

    @callable_method(name="pickMode", description="Chooses a mode.")
    def pick_mode(self, mode: Literal["fast", "slow"]) -> str:
        return mode

    @callable_method
    def everything(self, *values: int) -> list[Any]:
        return list(values)

    @callable_method
    def nothing(self) -> None:
        return None

    @callable_method
    def fails(self) -> None:
        raise LookupError("no such order")

    @callable_method
    def unserialisable(self) -> Any:
        return object()

    @callable_method
    async def count(self, to: int) -> AsyncIterator[int]:
        """Counts."""
        try:
            for number in range(to):
                if number == 3:
                    raise ValueError("three is too many")
                yield number
        except GeneratorExit:
            self.closed_early = True
            raise

    def undecorated(self) -> str:
        return "secret"

    def _private(self) -> str:
        return "secret"


class Special(Shop):
    """Overrides a callable method without saying that it may be called."""

    def add(self, a: int, b: int = 10) -> int:
        return 0

    @callable_method
    def nothing(self) -> None:
        return None


async def test_results_come_back(host: Any) -> None:
    agent = await started(host, Shop)
    socket = await connect(agent)
    assert await call(agent, socket, "add", 1) == [
        {"type": "rpc", "id": "1", "success": True, "result": 11, "done": True}
    ]
    (answer,) = await call(agent, socket, "order", {"item": "tea"}, "soon")
    assert answer["result"] == {
        "order": {"item": "tea", "count": 1},
        "note": "soon",
        "at": "2026-01-02",
    }
    assert (await call(agent, socket, "pickMode", "fast"))[0]["result"] == "fast"
    assert (await call(agent, socket, "everything", 1, 2, 3))[0]["result"] == [1, 2, 3]
    assert (await call(agent, socket, "nothing"))[0]["result"] is None


BAD_CALLS: list[tuple[str, list[Any], str]] = [
    ("add", ["x"], "add(): a: Input should be a valid integer"),
    ("add", [], "add() needs the arguments: a"),
    ("add", [1, 2, 3], "add() takes at most 2 arguments, got 3"),
    ("add", [None], "add(): a: Input should be a valid integer"),
    ("order", [{"item": "x", "count": 0}], "order(): order.count: Input should be greater"),
    ("pickMode", ["medium"], "pickMode(): mode: Input should be 'fast' or 'slow'"),
    ("pick_mode", ["fast"], "Method pick_mode is not callable"),
    ("everything", [1, "x"], "everything(): values.1: Input should be a valid integer"),
    ("undecorated", [], "Method undecorated is not callable"),
    ("_private", [], "Method _private does not exist"),
    ("__init__", [None], "Method __init__ does not exist"),
    ("__class__", [], "Method __class__ does not exist"),
    ("destroy", [], "Method destroy is not callable"),
    ("set_state", [{}], "Method set_state is not callable"),
    ("handle_call", ["add", []], "Method handle_call is not callable"),
    ("host", [], "Method host does not exist"),
    ("add.__call__", [1], "Method add.__call__ does not exist"),
    ("missing", [], "Method missing does not exist"),
    ("$methods", [], "Method $methods does not exist"),
    ("", [], "Method  does not exist"),
    ("fails", [], "no such order"),
    ("unserialisable", [], "unserialisable(): the result is not JSON"),
]


@pytest.mark.parametrize(("method", "arguments", "error"), BAD_CALLS)
async def test_what_cannot_be_done_is_a_clear_error(
    host: Any, method: str, arguments: list[Any], error: str
) -> None:
    agent = await started(host, Shop)
    (answer,) = await call(agent, await connect(agent), method, *arguments)
    assert answer["success"] is False
    assert answer["error"].startswith(error)
    assert "Traceback" not in answer["error"]
    assert ".py" not in answer["error"]


async def test_malformed_calls_do_no_harm(host: Any) -> None:
    agent = await started(host, Shop)
    socket = await connect(agent)
    before = len(socket.sent)
    await send(agent, socket, {"type": "rpc", "method": "add", "args": [1]})
    await send(agent, socket, {"type": "rpc", "id": 7, "method": "add", "args": [1]})
    assert len(socket.sent) == before
    for frame in (
        {"type": "rpc", "id": "a", "method": "add", "args": "nope"},
        {"type": "rpc", "id": "a", "method": ["add"], "args": []},
        {"type": "rpc", "id": "a", "method": None},
        {"type": "rpc", "id": "a"},
    ):
        await send(agent, socket, frame)
        assert frames(socket)[-1]["success"] is False
    await send(agent, socket, {"type": "rpc", "id": "b", "method": "nothing"})
    assert frames(socket)[-1]["success"] is True


async def test_an_override_without_the_decorator_is_not_callable(host: Any) -> None:
    agent = await started(host, Special)
    socket = await connect(agent)
    assert (await call(agent, socket, "add", 1))[0]["error"] == "Method add is not callable"
    assert (await call(agent, socket, "nothing"))[0]["success"] is True
    assert (await call(agent, socket, "pickMode", "slow"))[0]["success"] is True


async def test_a_stream_comes_piece_by_piece(host: Any) -> None:
    agent = await started(host, Shop)
    socket = await connect(agent)
    answers = await call(agent, socket, "count", 2)
    assert [(a["success"], a.get("result"), a["done"]) for a in answers] == [
        (True, 0, False),
        (True, 1, False),
        (True, None, True),
    ]


async def test_a_stream_that_fails_says_so(host: Any) -> None:
    agent = await started(host, Shop)
    answers = await call(agent, await connect(agent), "count", 9)
    assert [a.get("result") for a in answers] == [0, 1, 2, None]
    assert answers[-1] == {
        "type": "rpc",
        "id": "1",
        "success": False,
        "error": "three is too many",
    }


async def test_a_stream_ends_when_its_client_goes(host: Any) -> None:
    agent = await started(host, Shop)
    socket = await connect(agent)

    def leave(text: str | bytes) -> None:
        if '"done":false' in str(text):
            socket.close()

    socket.listener = leave
    await call(agent, socket, "count", 3)
    assert agent.closed_early


async def test_metadata_lists_the_methods_with_their_schema(host: Any) -> None:
    agent = await started(host, Shop)
    methods = {method["name"]: method for method in agent.callable_methods()}
    assert sorted(methods) == [
        "add",
        "count",
        "everything",
        "fails",
        "nothing",
        "order",
        "pickMode",
        "unserialisable",
    ]
    add = methods["add"]
    assert (add["description"], add["streaming"]) == ("Adds two numbers.", False)
    assert add["parameters"] == ["a", "b"]
    assert add["schema"]["required"] == ["a"]
    assert add["schema"]["properties"]["b"] == {"default": 10, "title": "B", "type": "integer"}
    assert methods["pickMode"]["description"] == "Chooses a mode."
    assert methods["count"]["streaming"] is True


class Stub:
    """Reaches the agent as the shell's ``call`` does."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def call(self, method: str, *arguments: Any) -> Any:
        return await self.agent.handle_call(method, list(arguments))


async def test_the_python_client_calls_and_streams(host: Any) -> None:
    agent = await started(host, Shop)
    client = AgentClient(Stub(agent))
    assert await client.call("add", 1, 2) == 3
    assert await client.call("count", 2) == [0, 1]
    assert [chunk async for chunk in client.stream("count", 2)] == [0, 1]
    assert (await client.methods())[0]["name"] == "add"


async def test_the_python_client_gets_clear_errors(host: Any) -> None:
    agent = await started(host, Shop)
    client = AgentClient(Stub(agent))
    for method in ("undecorated", "_private", "$other", "$open", "$next"):
        with pytest.raises(CallError):
            await client.call(method)
    with pytest.raises(CallError, match="not open"):
        await client.call("$next", "nonsense")
    with pytest.raises(CallError, match=r"add\(\) does not stream"):
        [chunk async for chunk in client.stream("add", 1)]
    stream = client.stream("count", 9)
    assert [await anext(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(CallError, match="three is too many"):
        await anext(stream)
    with pytest.raises(CallError, match="no such order"):
        await client.call("fails")


async def test_leaving_a_stream_early_ends_it(host: Any) -> None:
    agent = await started(host, Shop)
    stream = AgentClient(Stub(agent)).stream("count", 3)
    assert await anext(stream) == 0
    await stream.aclose()
    assert agent.closed_early


async def test_streams_nobody_reads_are_closed(host: Any) -> None:
    agent = await started(host, Shop)
    stub = Stub(agent)
    identifier = await stub.call("$open", "count", 3)
    await stub.call("$next", identifier)
    await host.advance(301)
    await stub.call("$open", "count", 1)
    assert agent.closed_early
    with pytest.raises(CallError, match="not open"):
        await stub.call("$next", identifier)


def test_what_cannot_be_made_callable_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="public name"):

        @callable_method
        def _hidden(self: Any) -> None: ...

    with pytest.raises(TypeError, match="public name"):

        @callable_method(name="a.b")
        def fine(self: Any) -> None: ...

    with pytest.raises(TypeError, match="decorates a method"):
        callable_method(staticmethod(len))  # type: ignore[arg-type]
