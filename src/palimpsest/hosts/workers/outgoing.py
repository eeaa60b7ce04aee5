"""Outgoing HTTP, with streaming answers and requests that can be given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import js
from pyodide.ffi import JsException, to_js

from palimpsest.hosts.workers.ffi import bytes_of, is_nothing, to_object


async def stream_chunks(
    stream: Any, abort: Callable[[], None] | None = None
) -> AsyncIterator[bytes]:
    """The chunks of a JavaScript ReadableStream.

    Leaving early calls ``abort``, or cancels the stream itself where there is nothing to abort.
    """
    reader = stream.getReader()
    finished = False
    try:
        while True:
            part = await reader.read()
            if part.done:
                finished = True
                return
            yield bytes_of(part.value)
    except JsException as error:
        raise ConnectionError(str(error.message)) from None
    finally:
        if not finished:
            if abort is None:
                reader.cancel()
            else:
                abort()


class WorkersFetchResponse:
    """The answer to an outgoing request."""

    def __init__(self, raw: Any, controller: Any) -> None:
        self._raw = raw
        self._controller = controller
        self.status = int(raw.status)
        self.headers: Mapping[str, str] = js.Object.fromEntries(raw.headers).to_py()

    async def chunks(self) -> AsyncIterator[bytes]:
        """See :meth:`palimpsest.hosts.interface.FetchResponse.chunks`."""
        if is_nothing(self._raw.body):
            return
        async for chunk in stream_chunks(self._raw.body, self._controller.abort):
            yield chunk

    async def read(self) -> bytes:
        """The whole body."""
        try:
            return bytes_of(await self._raw.arrayBuffer())
        except JsException as error:
            raise ConnectionError(str(error.message)) from None
        except asyncio.CancelledError:
            self._controller.abort()
            raise


async def send_request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None,
    body: bytes | None,
    timeout: float | None,
) -> WorkersFetchResponse:
    """Send an outgoing request; see :meth:`palimpsest.hosts.interface.Host.fetch`."""
    controller = js.AbortController.new()
    options: dict[str, Any] = {"method": method, "signal": controller.signal}
    if headers:
        options["headers"] = dict(headers)
    if body is not None:
        options["body"] = to_js(body)
    try:
        async with asyncio.timeout(timeout):
            raw = await js.fetch(url, to_object(options))
    except TimeoutError:
        controller.abort()
        raise TimeoutError(f"no answer from {url} within {timeout} s") from None
    except asyncio.CancelledError:
        controller.abort()
        raise
    except JsException as error:
        raise ConnectionError(f"{url}: {error.message}") from None
    return WorkersFetchResponse(raw, controller)
