"""Asking a provider over HTTP: one streaming request, with time limits and typed failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from palimpsest.abort import Abort, iterate_abortable, run_abortable
from palimpsest.errors import (
    ModelNetworkError,
    ModelResponseError,
    ModelTimeoutError,
)
from palimpsest.hosts.interface import FetchResponse, Host
from palimpsest.json_input import load_json
from palimpsest.messages import dump_json
from palimpsest.models.failures import failure_of_answer
from palimpsest.models.sse import ServerSentEvent, read_events

MAX_ERROR_BYTES = 65_536
"""How much of an error's body is read."""


class Secret:
    """A key: it never shows in logs, representations or JSON."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for a request's header."""
        return self._value

    def remove_from(self, text: str) -> str:
        """The text without the key, for what a server repeats of a request."""
        return text.replace(self._value, "***") if self._value else text

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(***)" if self._value else "Secret()"


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long to wait for a provider, in seconds."""

    answer: float = 120.0
    """For the answer's headers."""
    stall: float = 120.0
    """For each next piece of the answer's body."""


async def stream_events(
    host: Host,
    provider: str,
    url: str,
    *,
    headers: Mapping[str, str],
    payload: Mapping[str, Any],
    secret: Secret,
    limits: TimeLimits,
    abort: Abort,
) -> AsyncGenerator[ServerSentEvent, None]:
    """POST JSON and yield the events of the answer.

    An answer that is one JSON value instead of a stream is one event named ``json``. Leaving this
    early, or the signal, stops the request at the provider.

    :param secret: the key among the headers; no error's text repeats it.
    :raises ModelError: one of its subclasses says why there is no (whole) answer.
    :raises AbortedError: the signal was set.
    """
    body = dump_json(payload).encode()
    try:
        response = await run_abortable(
            host.fetch(
                "POST",
                url,
                headers={
                    "content-type": "application/json",
                    "accept": "text/event-stream, application/json",
                    **headers,
                },
                body=body,
            ),
            abort,
            seconds=limits.answer,
        )
    except TimeoutError as error:
        raise ModelTimeoutError(f"{provider}: no answer in {limits.answer:g} s") from error
    except ConnectionError as error:
        raise ModelNetworkError(f"{provider} cannot be reached: {error}") from error
    chunks = iterate_abortable(response.chunks(), abort, seconds=limits.stall)
    try:
        async with aclosing(chunks):
            if response.status >= 400:
                text = secret.remove_from(await _read_text(chunks, MAX_ERROR_BYTES))
                raise failure_of_answer(provider, response.status, response.headers, text)
            if _is_json(response):
                yield ServerSentEvent("json", await _read_text(chunks, None))
                return
            async with aclosing(read_events(chunks)) as events:
                async for event in events:
                    yield event
    except TimeoutError as error:
        raise ModelTimeoutError(
            f"{provider}: nothing more came for {limits.stall:g} s in the middle of the answer"
        ) from error
    except ConnectionError as error:
        raise ModelNetworkError(
            f"{provider}: the connection was lost in the middle of the answer"
        ) from error


def parse_json(provider: str, text: str) -> Any:
    """A piece of an answer as JSON.

    :raises ModelResponseError: it is no JSON.
    """
    try:
        return load_json(text)
    except ValueError as error:
        raise ModelResponseError(f"{provider} sent invalid JSON: {text[:200]!r}") from error


def _is_json(response: FetchResponse) -> bool:
    return "application/json" in response.headers.get("content-type", "").lower()


async def _read_text(chunks: AsyncGenerator[bytes, None], limit: int | None) -> str:
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if limit is not None and len(found) > limit:
            break
    return found.decode("utf-8", "replace")
