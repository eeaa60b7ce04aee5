"""The host seam on a Durable Object."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

import js
import workers
from pyodide.ffi import JsException, create_once_callable, to_js

from palimpsest.hosts.background import BackgroundTasks
from palimpsest.hosts.interface import FetchResponse, HttpResponse, Socket
from palimpsest.hosts.limits import check_tags, dump_attachment
from palimpsest.hosts.workers.ffi import is_nothing
from palimpsest.hosts.workers.outgoing import send_request
from palimpsest.hosts.workers.sockets import WorkersSocket
from palimpsest.hosts.workers.storage import WorkersSql
from palimpsest.hosts.workers.urllib_transport import install_urllib_transport

_ABORT_PAUSE_SECONDS = 0.05
"""Between an abort's request and the abort: time for the asking event's answer to leave."""


class WorkersHost:
    """One Durable Object's platform.

    :param context: the raw ``DurableObjectState``.
    :param environment: what the deployment gives.
    """

    def __init__(self, context: Any, environment: Mapping[str, Any]) -> None:
        install_urllib_transport()
        self._context = context
        self._storage = context.storage
        self.sql = WorkersSql(self._storage)
        name = context.id.name
        self.name = name if isinstance(name, str) else ""
        self.environment = environment
        self.jobs: Any = None
        self.alarm_handler: Callable[[], Awaitable[None]] | None = None
        self._background = BackgroundTasks(self.log, describe_error)

    def now(self) -> int:
        """Milliseconds since 1970; stands still between I/O on Cloudflare."""
        return int(time.time() * 1000)

    def random_id(self) -> str:
        """A fresh UUID."""
        return str(js.crypto.randomUUID())

    def set_alarm(self, at: int) -> None:
        """See :meth:`palimpsest.hosts.interface.Host.set_alarm`."""
        if at <= 0:
            raise ValueError(f"an alarm's time must be positive, got {at}")
        self._storage.setAlarm(at)

    def delete_alarm(self) -> None:
        """Disarm the alarm."""
        self._storage.deleteAlarm()

    async def get_alarm(self) -> int | None:
        """When the alarm is armed for."""
        at = await self._storage.getAlarm()
        return None if is_nothing(at) else int(at)

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """See :meth:`palimpsest.hosts.interface.Host.spawn`."""
        task = self._background.spawn(work, name)
        # Without this the platform may evict the object while the work still runs.
        workers.wait_until(_until_done(task))
        return task

    async def background_idle(self) -> None:
        """Wait until all spawned work has ended."""
        await self._background.idle()

    def accept_socket(
        self, tags: Sequence[str], attachment: Any
    ) -> tuple[WorkersSocket, HttpResponse]:
        """See :meth:`palimpsest.hosts.interface.Host.accept_socket`."""
        check_tags(tags)
        text = dump_attachment(attachment)
        client, server = js.WebSocketPair.new().object_values()
        self._context.acceptWebSocket(server, to_js(list(tags)))
        server.serializeAttachment(text)
        return WorkersSocket(server, self._context), HttpResponse(101, upgrade=client)

    def refuse_socket(self, code: int, reason: str) -> HttpResponse:
        """See :meth:`palimpsest.hosts.interface.Host.refuse_socket`."""
        return refuse_upgrade(code, reason)

    def sockets(self, tag: str | None = None) -> list[Socket]:
        """The open sockets, or those that carry ``tag``."""
        context = self._context
        found = context.getWebSockets() if tag is None else context.getWebSockets(tag)
        sockets = [WorkersSocket(raw, context) for raw in found]
        return [socket for socket in sockets if socket.is_open]

    def socket(self, raw: Any) -> WorkersSocket:
        """The socket of an event."""
        return WorkersSocket(raw, self._context)

    def set_auto_response(self, request: str, response: str) -> None:
        """See :meth:`palimpsest.hosts.interface.Host.set_auto_response`."""
        pair = js.WebSocketRequestResponsePair.new(request, response)
        self._context.setWebSocketAutoResponse(pair)

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> FetchResponse:
        """See :meth:`palimpsest.hosts.interface.Host.fetch`."""
        return await send_request(method, url, headers, body, timeout)

    def delete_all(self) -> None:
        """Remove every table and row, the key-value storage and the alarm."""
        self._storage.deleteAlarm()
        self._storage.deleteAll()

    def abort(self, reason: str) -> None:
        """See :meth:`palimpsest.hosts.interface.Host.abort`. What was written until now stays."""
        self.spawn(self._abort(reason), name="abort")

    async def _abort(self, reason: str) -> None:
        # An abort throws away what is not yet on disk, and answers that have not left.
        await self._storage.sync()
        await asyncio.sleep(_ABORT_PAUSE_SECONDS)
        context = self._context
        # The platform's abort ends JavaScript at once; doing that while Python runs would leave
        # the event loop in the middle of a task for every other object of the isolate.
        js.queueMicrotask(create_once_callable(lambda: context.abort(reason)))

    def log(self, event: Mapping[str, Any]) -> None:
        """Write one structured event as one line of JSON; failures as errors."""
        line = json.dumps(event, ensure_ascii=False, default=repr)
        (js.console.error if "error" in event else js.console.log)(line)

    def heap_bytes(self) -> int:
        """The size of the isolate's WebAssembly memory, which all its objects share."""
        from pyodide_js import _module  # a snapshot cannot hold it: not at top level

        return int(_module.HEAP8.length)

    def stream_body(self, body: AsyncIterator[bytes]) -> Any:
        """A JavaScript stream of what ``body`` yields, pumped in the background."""
        pipe = js.IdentityTransformStream.new()
        self.spawn(_pump(body, pipe.writable.getWriter()), name="response body")
        return pipe.readable


def refuse_upgrade(code: int, reason: str) -> HttpResponse:
    """Accept a WebSocket only to close it.

    Not as a hibernating socket: workerd ends the connection of one that the server closed only
    when the object hibernates, ten seconds later, and until then clients do not notice.
    """
    client, server = js.WebSocketPair.new().object_values()
    server.accept()
    server.close(code, reason)
    return HttpResponse(101, upgrade=client)


async def _until_done(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])


async def _pump(body: AsyncIterator[bytes], writer: Any) -> None:
    """Write all chunks; a reader that went away ends it quietly, a failing source aborts."""
    try:
        async for chunk in body:
            try:
                await writer.write(to_js(chunk))
            except JsException:
                return
    except Exception as error:
        await writer.abort(str(error))
        raise
    else:
        await writer.close()
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()


def describe_error(error: BaseException) -> str:
    """An error with its traceback, for the log."""
    return "".join(traceback.format_exception(error))
