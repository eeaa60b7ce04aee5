"""Any server that speaks OpenAI's chat completions, at any base URL, over the platform's fetch."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from palimpsest.hosts.interface import Host
from palimpsest.models.chat_completions import ChunkReader, chat_messages, chat_tools
from palimpsest.models.interface import ModelEvent, ModelRequest
from palimpsest.models.provider_model import ProviderModel
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.transport import Secret, TimeLimits, parse_json, stream_events

OPENAI_URL = "https://api.openai.com/v1"
"""The base URL where none is given."""


class OpenAIChatModel(ProviderModel):
    """A model behind ``{base_url}/chat/completions``.

    :param host: what sends the requests.
    :param model: the provider's name of the model.
    :param api_key: sent as a bearer token; '' sends none.
    :param base_url: the address up to ``/v1``.
    :param context_window: tokens that a request and its answer may have together.
    :param max_output_tokens: tokens kept free for the answer.
    :param extra: more fields of the request's body, as the server documents them.
    """

    provider = "openai"

    def __init__(
        self,
        host: Host,
        model: str,
        *,
        api_key: str | Secret = "",
        base_url: str = OPENAI_URL,
        context_window: int = 128_000,
        max_output_tokens: int = 16_384,
        limits: TimeLimits | None = None,
        retries: RetryPolicy | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            context_window=context_window,
            max_output_tokens=max_output_tokens,
            limits=limits,
            retries=retries,
        )
        self._host = host
        self._key = api_key if isinstance(api_key, Secret) else Secret(api_key)
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._extra = dict(extra or {})
        # OpenAI's newer models refuse the field that all other servers know.
        self._limit_field = (
            "max_completion_tokens" if base_url.startswith(OPENAI_URL) else "max_tokens"
        )

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        reader = ChunkReader(self.provider)
        events = stream_events(
            self._host,
            self.provider,
            self._url,
            headers={"authorization": f"Bearer {self._key.reveal()}"} if self._key else {},
            payload=self._payload(request),
            secret=self._key,
            limits=self._limits,
            abort=request.abort,
        )
        async with aclosing(events):
            async for event in events:
                if event.data.strip() == "[DONE]":
                    reader.done()
                    break
                for made in reader.take(parse_json(self.provider, event.data)):
                    yield made
        for made in reader.end():
            yield made

    def _payload(self, request: ModelRequest) -> dict[str, Any]:
        payload: dict[str, Any] = {
            "model": self._model,
            "messages": chat_messages(request.messages, request.system),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            payload["tools"] = chat_tools(request.tools)
            payload["tool_choice"] = request.tool_choice
        if request.max_output_tokens is not None:
            payload[self._limit_field] = request.max_output_tokens
        if request.temperature is not None:
            payload["temperature"] = request.temperature
        return {**payload, **self._extra}
