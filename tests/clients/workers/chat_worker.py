"""Chat agents whose model does what the message says, for tests with unmodified npm clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.actor.callables import callable_method
from palimpsest.actor.hooks import Reject
from palimpsest.chat.agent import ChatAgent
from palimpsest.chat.turns import Concurrency
from palimpsest.errors import ModelError
from palimpsest.hosts.interface import HttpRequest
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import text_of, tool_parts
from palimpsest.models.interface import (
    Finish,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallStart,
)
from palimpsest.tools import tool

WORD_SECONDS = 0.02


class DirectiveModel:
    """``slow N`` streams N words, ``call NAME…`` calls tools, ``fail`` fails; else it repeats."""

    name = "directive"
    context_window = 100_000
    max_output_tokens = 4_000
    max_input_tokens = 96_000

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer the newest user message, or go on after the results of its tools."""
        messages = list(request.messages)
        start = max(index for index, item in enumerate(messages) if item["role"] == "user")
        text = text_of(messages[start])
        results = [part for message in messages[start:] for part in tool_parts(message)]
        word, _, rest = text.partition(" ")
        if results:
            told = [part.get("output", part.get("errorText", part["state"])) for part in results]
            yield TextDelta(f"after {json.dumps(told)}")
        elif word == "slow":
            for number in range(int(rest.split()[0])):
                yield TextDelta(f"w{number} ")
                await asyncio.sleep(WORD_SECONDS)
        elif word == "think":
            yield ReasoningDelta("hm")
            yield TextDelta("thought")
        elif word == "fail":
            yield TextDelta("half an answer")
            raise ModelError("the model is tired")
        elif word == "call":
            for name in rest.split():
                call = f"call-{name}-{len(messages)}"
                yield ToolCallStart(call, name)
                yield ToolCall(call, name, {"path": "/tmp/x"})
            yield Finish("tool-calls")
            return
        else:
            for piece in f"you said {text}".split(" "):
                yield TextDelta(f"{piece} ")
        yield Finish("stop")


class Base(ChatAgent):
    """What all agents of this Worker share."""

    stall_seconds = 20.0

    def model(self) -> Any:
        return DirectiveModel()

    @tool(needs_approval=True)
    def remove_file(self, path: str) -> str:
        """Remove a file."""
        return f"removed {path}"

    @tool
    def clock(self, path: str) -> str:
        """Tell the time."""
        return f"noon at {path}"

    @callable_method
    def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @callable_method
    def crash(self) -> None:
        """Drop the instance in the middle of whatever it does."""
        self.host.abort("a test asked for it")

    def before_connect(self, request: HttpRequest) -> Any:
        if _query(request, "token") == "bad":
            return Reject("no such token", 4401, 401)
        return None

    def connection_readonly(self, request: HttpRequest) -> bool:
        return _query(request, "readonly") == "1"

    def connection_protocol(self, request: HttpRequest) -> bool:
        return _query(request, "plain") != "1"


def _query(request: HttpRequest, name: str) -> str:
    return parse_qs(urlsplit(request.url).query).get(name, [""])[0]


@durable_object
class Tester(Base):
    """Messages queue."""


@durable_object
class Dropper(Base):
    """Messages sent meanwhile are refused."""

    concurrency = "drop"


@durable_object
class Merger(Base):
    """Messages sent meanwhile become one."""

    concurrency = "merge"


@durable_object
class Latest(Base):
    """Only the newest of the messages sent meanwhile is answered."""

    concurrency = "latest"


@durable_object
class Debouncer(Base):
    """Answers once it is quiet."""

    concurrency = Concurrency("debounce", 300)


@durable_object
class Closer(Base):
    """Closes an interrupted turn instead of taking it up again."""

    recovery = "close"


Default = worker_entrypoint(cors=True)
