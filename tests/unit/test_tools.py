"""Functions as tools: schema, arguments, results, what may not be one; shortened outputs."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest

from palimpsest.abort import Abort
from palimpsest.errors import ToolDefinitionError, ToolError
from palimpsest.messages import dump_json
from palimpsest.tools import Tool, ToolContext, as_tool, client_tools, make_tools, tool, tools_of
from palimpsest.tools.execute import PendingCall, needs_approval, run_call, run_calls
from palimpsest.tools.truncate import shorten_output, shorten_text

Json = dict[str, Any]


def context(identifier: str = "c1", abort: Abort | None = None) -> ToolContext:
    return ToolContext(tool_call_id=identifier, abort=abort or Abort())


async def called(made: Tool, **arguments: Any) -> Any:
    assert made.execute is not None
    return await made.execute(arguments, context())


class Unit(enum.Enum):
    C = "celsius"
    F = "fahrenheit"


class Place(pydantic.BaseModel):
    name: str
    height: int = 0


async def test_types_defaults_and_docstring_make_the_schema() -> None:
    @tool
    async def forecast(
        city: str,
        days: Annotated[int, pydantic.Field(ge=1, le=7)] = 3,
        unit: Unit = Unit.C,
        place: Place | None = None,
        kind: Literal["short", "long"] = "short",
    ) -> str:
        """Tell the weather of
        the coming days.

        More about it, which the model need not know.

        :param city: the city's name,
            in English
        :param days: how many
        """
        return f"{city} {days} {unit.value} {kind} {place.height if place else None}"

    made = as_tool(forecast)
    assert (made.name, made.description) == (
        "forecast",
        "Tell the weather of the coming days.",
    )
    schema = made.parameters
    assert schema["type"] == "object"
    assert schema["required"] == ["city"]
    properties: Json = schema["properties"]
    assert properties["city"] == {
        "type": "string",
        "description": "the city's name, in English",
    }
    assert properties["days"] == {
        "type": "integer",
        "default": 3,
        "minimum": 1,
        "maximum": 7,
        "description": "how many",
    }
    assert "title" not in json.dumps(schema)
    assert await called(made, city="Oslo") == "Oslo 3 celsius short None"
    given = await called(made, city="Oslo", place={"name": "x", "height": 4}, unit="fahrenheit")
    assert given == "Oslo 3 fahrenheit short 4"


async def test_wrong_arguments_are_explained() -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    made = as_tool(add)
    assert await called(made, a=1, b="2") == 3
    with pytest.raises(ToolError, match="b: Field required"):
        await called(made, a=1)
    with pytest.raises(ToolError, match="c: Extra inputs"):
        await called(made, a=1, b=2, c=3)
    with pytest.raises(ToolError, match="valid integer"):
        await called(made, a="x", b=2)


async def test_results_become_json() -> None:
    @dataclass
    class Point:
        x: int
        at: datetime.date

    @tool
    def point() -> Point:
        """Where."""
        return Point(1, datetime.date(2026, 11, 30))

    @tool
    def place() -> list[Place]:
        """Which."""
        return [Place(name="a")]

    @tool
    def weekdays() -> Annotated[
        list[int], pydantic.PlainSerializer(lambda days: [f"day {day}" for day in days])
    ]:
        """When."""
        return [1, 2]

    @tool
    def loose() -> int:
        """Another type than declared."""
        return Place(name="b")  # type: ignore[return-value]

    assert await called(as_tool(weekdays)) == ["day 1", "day 2"]
    assert await called(as_tool(loose)) == {"name": "b", "height": 0}
    assert await called(as_tool(point)) == {"x": 1, "at": "2026-11-30"}
    assert await called(as_tool(place)) == [{"name": "a", "height": 0}]


async def test_the_context_is_given_and_not_shown() -> None:
    @tool
    def which(word: str, context: ToolContext) -> str:
        """Which call."""
        return f"{word} {context.tool_call_id}"

    made = as_tool(which)
    assert list(made.parameters["properties"]) == ["word"]
    assert await called(made, word="call") == "call c1"


async def test_parameters_may_be_called_like_model_methods() -> None:
    @tool
    def odd(json: str, model_dump: int, copy: bool = False) -> str:
        """Odd names."""
        return f"{json} {model_dump} {copy}"

    assert await called(as_tool(odd), json="a", model_dump=2, copy=True) == "a 2 True"


class Keeper:
    """An agent with tools."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    @tool(name="take_note", timeout=5)
    async def note(self, text: str) -> int:
        """Note something down."""
        self.notes.append(text)
        return len(self.notes)

    @tool
    def count(self) -> int:
        """How many notes there are."""
        return len(self.notes)

    @tool
    @staticmethod
    def fixed() -> str:
        """A constant."""
        return "x"

    def not_a_tool(self) -> None: ...


class Silent(Keeper):
    def count(self) -> int:
        return 0


async def test_methods_of_an_agent_are_bound() -> None:
    keeper = Keeper()
    tools = tools_of(keeper)
    assert list(tools) == ["take_note", "count", "fixed"]
    assert await called(tools["take_note"], text="a") == 1
    assert await called(tools["count"]) == 1
    assert keeper.notes == ["a"]
    assert list(tools_of(Silent())) == ["take_note", "fixed"]
    assert tools["take_note"].timeout == 5


def test_what_cannot_be_a_tool_is_refused() -> None:
    def untyped(a) -> None:  # type: ignore[no-untyped-def]
        """No type."""

    def variadic(*words: str) -> None:
        """Any number."""

    def unknown(a: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037
        """A type that does not exist."""

    def strange(a: Keeper) -> None:
        """A type without a schema."""

    refused: list[Any] = [untyped, variadic, unknown, strange]
    for function in refused:
        with pytest.raises(ToolDefinitionError, match=function.__name__):
            as_tool(function)
    with pytest.raises(ToolDefinitionError, match="parameter 'a': its type Keeper has no JSON Sch"):
        as_tool(strange)
    with pytest.raises(ToolDefinitionError, match="letters, digits"):
        Tool(name="a b", description="", parameters={"type": "object"}, execute=None)
    with pytest.raises(ToolDefinitionError, match="object schema"):
        Tool(name="a", description="", parameters={"type": "string"}, execute=None)

    @tool(name="same")
    def one() -> None:
        """One."""

    @tool(name="same")
    def two() -> None:
        """Two."""

    with pytest.raises(ToolDefinitionError, match="two tools"):
        make_tools([one, two])


def test_client_tools_of_a_request() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    declared: list[Any] = [
        {"name": "ok", "description": "Fine.", "parameters": schema},
        {"name": "bare"},
        {"name": "bad name"},
        {"name": 7},
        {"name": "typed", "parameters": {"type": "array"}},
        "text",
        None,
    ]
    found = client_tools(declared)
    assert list(found) == ["ok", "bare"]
    assert found["ok"].parameters == schema
    assert found["bare"].parameters == {"type": "object", "properties": {}}
    assert all(made.execute is None for made in found.values())
    assert client_tools(None) == client_tools({"a": 1}) == {}


async def test_a_failing_approval_rule_asks() -> None:
    def rule(arguments: Json, context: ToolContext) -> bool:
        return arguments["amount"] > 10

    made = Tool(
        name="pay",
        description="",
        parameters={"type": "object"},
        execute=None,
        needs_approval=rule,
    )
    assert not await needs_approval(PendingCall(made, {"amount": 5}, context()))
    assert await needs_approval(PendingCall(made, {"amount": 50}, context()))
    assert await needs_approval(PendingCall(made, {}, context()))


async def test_many_calls_run_a_few_at_a_time() -> None:
    import asyncio

    running = most = 0

    @tool
    async def work(number: int) -> int:
        """Work."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return number

    made = as_tool(work)
    calls = [PendingCall(made, {"number": n}, context(f"c{n}")) for n in range(20)]
    results = [result async for result in run_calls(calls)]
    assert sorted(result.output for result in results) == list(range(20))
    assert most == 6


async def test_a_tool_of_the_client_is_not_run_here() -> None:
    made = client_tools([{"name": "where"}])["where"]
    result = await run_call(PendingCall(made, {}, context()))
    assert "client" in (result.error or "")


@pytest.mark.parametrize("limit", [200, 1_000, 8_000])
@pytest.mark.parametrize(
    "value",
    [
        "word " * 20_000,
        [{"id": n, "text": "word " * 30} for n in range(2_000)],
        {"rows": [{"a": n} for n in range(5_000)], "total": 5_000, "note": "x" * 50_000},
        {f"key{n}": "value " * 20 for n in range(3_000)},
        [[[[[["deep " * 200] * 20] * 4] * 4] * 4] * 2],
        [1.5] * 40_000,
    ],
)
def test_a_shortened_output_fits_and_keeps_its_shape(value: Any, limit: int) -> None:
    shortened = shorten_output(value, limit)
    size = len(shortened if isinstance(shortened, str) else dump_json(shortened))
    assert size <= limit
    assert "left out" in (shortened if isinstance(shortened, str) else dump_json(shortened))
    if limit >= 1_000:
        assert type(shortened) is type(value)


def test_a_shortened_object_keeps_its_keys() -> None:
    value = {"rows": [{"a": n} for n in range(5_000)], "total": 5_000, "note": "x" * 50_000}
    shortened = shorten_output(value, 2_000)
    assert list(shortened) == ["rows", "total", "note"]
    assert shortened["total"] == 5_000
    assert shortened["rows"][0] == {"a": 0}


def test_small_outputs_are_left_alone() -> None:
    value = {"a": [1, 2, "three"]}
    assert shorten_output(value, 100) is value
    assert shorten_text("abc", 3) == "abc"
    long = shorten_text("a" * 500 + "z" * 500, 300)
    assert len(long) <= 300
    assert long.startswith("aaa")
    assert long.endswith("zzz")
