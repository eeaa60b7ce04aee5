"""Tools called by hand through the offline model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from palimpsest import ChatAgent, tool
from palimpsest.models.tool_commands import read_command
from palimpsest.testing import LocalAgent
from palimpsest.tools import make_tools

MakeAgent = Callable[..., LocalAgent[Any]]


def roll_dice(sides: int = 6) -> int:
    """Roll."""
    return sides


def note(text: str) -> str:
    """Note."""
    return text


def send(to: str, text: str) -> str:
    """Send."""
    return to + text


def clock() -> str:
    """Tell the time."""
    return "noon"


TOOLS = make_tools([roll_dice, note, send, clock])


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("/roll_dice", "roll_dice", {}),
        ("/roll_dice 20", "roll_dice", {"sides": 20}),
        (' /roll_dice {"sides": 8} ', "roll_dice", {"sides": 8}),
        ("/note 12 eggs\nand milk", "note", {"text": "12 eggs\nand milk"}),
        ("/note 12", "note", {"text": "12"}),
        ("/note {not json", "note", {"text": "{not json"}),
        ('/send {"to": "a", "text": "b"}', "send", {"to": "a", "text": "b"}),
        ("/send a b", "send", {}),
        ("/clock now", "clock", {}),
    ],
)
def test_a_command_is_read(text: str, name: str, arguments: dict[str, Any]) -> None:
    command = read_command(text, TOOLS)
    assert command is not None
    assert (command.name, command.arguments) == (name, arguments)


@pytest.mark.parametrize("text", ["", "/", "/unknown 3", "roll_dice", "say /clock", "/clock/x"])
def test_other_messages_are_no_command(text: str) -> None:
    assert read_command(text, TOOLS) is None


class Player(ChatAgent):
    """Has tools of each kind."""

    @tool
    async def twice(self, number: int) -> int:
        """Double a number."""
        return 2 * number

    @tool
    async def fail(self) -> str:
        """Fail."""
        raise ValueError("no luck")


async def test_the_offline_model_calls_the_tool_and_tells_its_result(
    local_agent: MakeAgent,
) -> None:
    async with local_agent(Player) as local:
        client = await local.connect()
        assert await client.chat("/twice 21") == "42"
        assert await client.chat("/twice 4") == "8"
        assert "no luck" in await client.chat("/fail")
        assert "failed" in await client.chat("/twice many")
        assert "/nothing" in await client.chat("/nothing there")
