"""Workers AI through its binding: models that run on Cloudflare, without a key."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Protocol, cast

from palimpsest.abort import iterate_abortable, run_abortable
from palimpsest.errors import ModelNetworkError, ModelResponseError, ModelTimeoutError
from palimpsest.models.chat_completions import ChunkReader, chat_messages, chat_tools
from palimpsest.models.failures import classify_failure, error_in
from palimpsest.models.interface import ModelEvent, ModelRequest
from palimpsest.models.provider_model import ProviderModel
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.sse import read_events
from palimpsest.models.transport import TimeLimits, parse_json

PROVIDER = "workers-ai"


class AiBinding(Protocol):
    """The binding as a host gives it."""

    async def run(self, model: str, inputs: Mapping[str, Any], **options: Any) -> Any:
        """Run a model: an object, or an async iterator of bytes where the answer streams.

        :raises ConnectionError: it failed; the text is the platform's.
        """
        ...


class WorkersAIModel(ProviderModel):
    """A model of the Workers AI catalogue.

    :param binding: the ``AI`` binding.
    :param model: its name in the catalogue, such as ``@cf/meta/llama-4-scout-17b-16e-instruct``.
    :param context_window: tokens that a request and its answer may have together.
    :param max_output_tokens: tokens that an answer may have; the platform's own default is 256.
    :param options: more arguments of ``run``, such as ``gateway={"id": "my-gateway"}``.
    """

    provider = PROVIDER

    def __init__(
        self,
        binding: AiBinding,
        model: str,
        *,
        context_window: int = 32_000,
        max_output_tokens: int = 4_096,
        limits: TimeLimits | None = None,
        retries: RetryPolicy | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            context_window=context_window,
            max_output_tokens=max_output_tokens,
            limits=limits,
            retries=retries,
        )
        self._binding = binding
        self._options = dict(options or {})

    async def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        abort = request.abort
        try:
            answer = await run_abortable(
                self._binding.run(self._model, self._inputs(request), **self._options),
                abort,
                seconds=self._limits.answer,
            )
        except TimeoutError as error:
            raise ModelTimeoutError(
                f"{PROVIDER}: no answer in {self._limits.answer:g} s"
            ) from error
        except ConnectionError as error:
            raise classify_failure(PROVIDER, _without_prefix(str(error))) from error
        reader = ChunkReader(PROVIDER)
        if hasattr(answer, "__anext__"):
            chunks = cast("AsyncIterator[bytes]", answer)
            limited = iterate_abortable(chunks, abort, seconds=self._limits.stall)
            async with aclosing(self._stream_of(limited, reader)) as events:
                async for event in events:
                    yield event
        else:
            for event in _take(reader, answer):
                yield event
            reader.done()
        for event in reader.end():
            yield event

    async def _stream_of(
        self, chunks: AsyncGenerator[bytes, None], reader: ChunkReader
    ) -> AsyncGenerator[ModelEvent, None]:
        try:
            async with aclosing(chunks), aclosing(read_events(chunks)) as events:
                async for event in events:
                    if event.data.strip() == "[DONE]":
                        reader.done()
                        return
                    for made in _take(reader, parse_json(PROVIDER, event.data)):
                        yield made
        except TimeoutError as error:
            raise ModelTimeoutError(
                f"{PROVIDER}: nothing more came for {self._limits.stall:g} s"
            ) from error
        except ConnectionError as error:
            raise ModelNetworkError(
                f"{PROVIDER}: the connection was lost in the middle of the answer"
            ) from error

    def _inputs(self, request: ModelRequest) -> dict[str, Any]:
        limit = request.max_output_tokens or self.max_output_tokens
        inputs: dict[str, Any] = {
            "messages": chat_messages(request.messages, request.system),
            "stream": True,
            "max_tokens": min(limit, self.max_output_tokens),
        }
        if request.tools and request.tool_choice != "none":
            inputs["tools"] = chat_tools(request.tools)
        if request.temperature is not None:
            inputs["temperature"] = request.temperature
        return inputs


def _take(reader: ChunkReader, answer: Any) -> Iterator[ModelEvent]:
    """Events of one answer or chunk; the platform's own older form becomes chat completions'.

    :raises ModelError: it holds an error or is no object.
    """
    problem = error_in(answer)
    if problem is not None:
        raise classify_failure(PROVIDER, problem)
    if not isinstance(answer, Mapping):
        raise ModelResponseError(f"{PROVIDER} sent {answer!r:.100} instead of an object")
    fields = cast("Mapping[str, Any]", answer)
    if "choices" in fields:
        yield from reader.take(fields)
        return
    delta = {"content": fields.get("response"), "tool_calls": fields.get("tool_calls")}
    yield from reader.take({"choices": [{"delta": delta}], "usage": fields.get("usage")})


def _without_prefix(text: str) -> str:
    for prefix in ("InferenceUpstreamError: ", "AiError: ", "Error: "):
        text = text.removeprefix(prefix)
    return text
