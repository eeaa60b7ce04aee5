"""What tests of models share: a run at the model server, and each adapter pointed at it."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any

from palimpsest.models import Model, ModelEvent, ModelRequest
from palimpsest.models.anthropic import AnthropicModel
from palimpsest.models.openai_chat import OpenAIChatModel
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.workers_ai import WorkersAIModel

PROVIDERS = ("openai", "anthropic", "workers-ai")
KEY = "sk-test-0123456789abcdef"
QUICK = RetryPolicy(attempts=3, first_wait=0.01, longest_wait=0.5)


class ServerRun:
    """One test's script at the model server."""

    def __init__(self, host: Any, server: str) -> None:
        self.host = host
        self.address = f"{server}/{host.random_id()}"

    async def script(self, *steps: dict[str, Any], max_tokens: int | None = None) -> None:
        """Set what the server answers; the last step repeats."""
        body = json.dumps({"steps": steps, "max_tokens": max_tokens}).encode()
        response = await self.host.fetch("POST", f"{self.address}/script", body=body)
        assert response.status == 200
        await response.read()

    async def requests(self) -> list[dict[str, Any]]:
        """What the server received, oldest first."""
        response = await self.host.fetch("GET", f"{self.address}/log")
        return json.loads(await response.read())["requests"]

    def model(self, provider: str, **options: Any) -> Model:
        """An adapter that asks this run."""
        options.setdefault("retries", QUICK)
        if provider == "openai":
            address = f"{self.address}/v1"
            return OpenAIChatModel(self.host, "m", api_key=KEY, base_url=address, **options)
        if provider == "anthropic":
            return AnthropicModel(self.host, "m", api_key=KEY, base_url=self.address, **options)
        return WorkersAIModel(ai_binding(self.host, f"{self.address}/run"), "@cf/m", **options)


def ai_binding(host: Any, url: str) -> Any:
    """A Workers AI binding that asks the model server; inside workerd a real JavaScript one."""
    if sys.platform == "emscripten":
        from fake_ai import javascript_ai

        return javascript_ai(url)
    return LocalAi(host, url)


class LocalAi:
    """The binding as a host gives it, over HTTP."""

    def __init__(self, host: Any, url: str) -> None:
        self._host = host
        self._url = url

    async def run(self, model: str, inputs: Mapping[str, Any], **options: Any) -> Any:
        """Ask the server as the platform would."""
        body = json.dumps({"model": model, **inputs}).encode()
        response = await self._host.fetch("POST", self._url, body=body)
        if response.status >= 400:
            words = (await response.read()).decode()
            raise ConnectionError(f"AiError: {words}")
        if "event-stream" in response.headers.get("content-type", ""):
            return self._stream(response)
        return json.loads(await response.read())

    async def _stream(self, response: Any) -> AsyncIterator[bytes]:
        async for chunk in response.chunks():
            yield chunk


async def collect(model: Model, request: ModelRequest) -> list[ModelEvent]:
    """All events of one answer."""
    return [event async for event in model.stream(request)]
