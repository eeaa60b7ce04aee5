"""A Worker that imports one way of reaching a model and streams one answer with it."""

from __future__ import annotations

import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import js
import workers

Found = dict[str, Any]


def heap() -> int:
    """Bytes of the WebAssembly memory."""
    from pyodide_js import _module  # a snapshot could not hold it

    return int(_module.HEAP8.length)


async def own(url: str) -> tuple[float, int]:
    """The project's adapters, all three, over the platform's fetch.

    ``import palimpsest`` has them loaded; they are loaded a second time to see what that takes.
    """
    for name in [name for name in sys.modules if name.startswith("palimpsest.models")]:
        del sys.modules[name]
    began = js.performance.now()
    from palimpsest.hosts.workers.host import WorkersHost
    from palimpsest.messages import text_message
    from palimpsest.models import (
        AnthropicModel,
        ModelRequest,
        OpenAIChatModel,
        TextDelta,
        WorkersAIModel,
    )

    assert AnthropicModel
    assert WorkersAIModel
    took = js.performance.now() - began

    class Fetcher:
        fetch = WorkersHost.fetch

    fetcher: Any = Fetcher()
    model = OpenAIChatModel(fetcher, "m", api_key="k", base_url=f"{url}/v1")
    request = ModelRequest([text_message("m", "user", "Hello?")])
    pieces = 0
    async for event in model.stream(request):
        pieces += isinstance(event, TextDelta)
    return took, pieces


async def openai(url: str) -> tuple[float, int]:
    """OpenAI's package."""
    began = js.performance.now()
    from openai import AsyncOpenAI

    took = js.performance.now() - began
    client = AsyncOpenAI(api_key="k", base_url=f"{url}/v1")
    answer = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hello?"}], stream=True
    )
    pieces = 0
    async for chunk in answer:
        pieces += bool(chunk.choices and chunk.choices[0].delta.content)
    return took, pieces


async def anthropic(url: str) -> tuple[float, int]:
    """Anthropic's package."""
    began = js.performance.now()
    from anthropic import AsyncAnthropic

    took = js.performance.now() - began
    client = AsyncAnthropic(api_key="k", base_url=url)
    pieces = 0
    try:
        async with client.messages.stream(
            model="m", max_tokens=100, messages=[{"role": "user", "content": "Hello?"}]
        ) as answer:
            async for _text in answer.text_stream:
                pieces += 1
    except Exception as error:
        print(f"anthropic cannot stream here: {type(error).__name__}: {error}")
    return took, pieces


async def pydantic_ai(url: str) -> tuple[float, int]:
    """pydantic-ai, with its function model: the framework alone."""
    began = js.performance.now()
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    took = js.performance.now() - began
    agent = Agent(TestModel(custom_output_text="Hello there, how are you?"))
    pieces = 0
    async with agent.run_stream("Hello?") as answer:
        async for _text in answer.stream_text(delta=True, debounce_by=None):
            pieces += 1
    return took, pieces


VARIANTS = {"own": own, "openai": openai, "anthropic": anthropic, "pydantic-ai": pydantic_ai}


class Default(workers.WorkerEntrypoint):
    """``/?variant=NAME&url=SERVER`` measures one variant, once per isolate."""

    async def fetch(self, request: Any) -> Any:
        """Import, stream, and tell what both cost."""
        query = parse_qs(urlsplit(str(request.url)).query)
        if "variant" not in query:
            return workers.Response("ready")
        # What every Worker of the project has anyway is not counted.
        import pydantic

        from palimpsest.hosts.workers.host import WorkersHost

        assert pydantic
        assert WorkersHost
        before = heap()
        found: Found
        try:
            took, pieces = await VARIANTS[query["variant"][0]](query["url"][0])
            found = {"import_ms": took, "pieces": pieces}
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"}
        return workers.Response(json.dumps({**found, "before": before, "after": heap()}))
