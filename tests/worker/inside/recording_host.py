"""The Workers host as behaviour tests need it: a clock they move, sockets they can look into.

Storage, SQL, attachments and tasks are the Durable Object's own. The alarm is kept in a table and
fired by ``advance``, as the local host does, because a test moves the clock further than the
platform's alarm would wait; real alarms have tests of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import js
from pyodide.ffi import to_js

from palimpsest.hosts.interface import HttpResponse, Socket
from palimpsest.hosts.limits import check_tags, dump_attachment
from palimpsest.hosts.workers.host import WorkersHost
from palimpsest.hosts.workers.sockets import WorkersSocket

_current: list[Any] = []


def set_context(context: Any, environment: Mapping[str, Any]) -> None:
    """Name the Durable Object whose platform the next ``fresh_host`` uses."""
    _current[:] = [context, environment]


def fresh_host() -> RecordingHost:
    """A host on the current Durable Object, emptied of what an earlier test case left."""
    context, environment = _current
    host = RecordingHost(context, environment)
    host.delete_all()
    return host


class RecordingSocket(WorkersSocket):
    """A real hibernating socket that also keeps what the server sent."""

    __slots__ = ("closed", "host", "listener", "sent")

    def __init__(self, raw: Any, context: Any, host: RecordingHost) -> None:
        super().__init__(raw, context)
        self.host = host
        self.sent: list[str | bytes] = []
        self.closed: tuple[int, str] | None = None
        self.listener: Callable[[str | bytes], None] | None = None

    @property
    def is_open(self) -> bool:
        """Open until the server or the test closes it."""
        return self.closed is None

    def send(self, data: str | bytes) -> None:
        """Send for real, and keep it."""
        super().send(data)
        if self.closed is None:
            self.sent.append(data)
            if self.listener is not None:
                self.listener(data)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close for real, once."""
        if self.closed is None:
            super().close(code, reason)
            self.closed = (code, reason)
            self.host.forget_socket(self)


class RecordingHost(WorkersHost):
    """What ``LocalHost`` offers to tests, over a Durable Object's storage."""

    def __init__(self, context: Any, environment: Mapping[str, Any]) -> None:
        super().__init__(context, environment)
        self.sql.counting = True
        self.name = "behaviour"
        self.logged: list[Mapping[str, Any]] = []
        self.aborted: str | None = None
        self.auto_responses: dict[str, str] = {}
        self._offset = 0
        self._open: list[RecordingSocket] = []
        self._alarm: int | None = None

    def now(self) -> int:
        """The moved clock, which stands still between moves."""
        if self._offset == 0:
            self._offset = super().now()
        return self._offset

    def set_alarm(self, at: int) -> None:
        """Arm the test's alarm."""
        if at <= 0:
            raise ValueError(f"an alarm's time must be positive, got {at}")
        self._alarm = at

    def delete_alarm(self) -> None:
        """Disarm it."""
        self._alarm = None

    async def get_alarm(self) -> int | None:
        """When it is armed for."""
        return self._alarm

    async def run_alarm(self) -> bool:
        """Fire the alarm if it is armed and due; whether it fired."""
        if self._alarm is None or self._alarm > self.now() or self.alarm_handler is None:
            return False
        self._alarm = None
        try:
            await self.alarm_handler()
        except Exception:
            if self._alarm is None:
                self._alarm = self.now() + 2000
            raise
        return True

    async def advance(self, seconds: float) -> None:
        """Move the clock forward, firing every alarm on the way at its own time."""
        end = self.now() + int(seconds * 1000)
        while self._alarm is not None and self._alarm <= end and self.alarm_handler is not None:
            self._offset = max(self._offset, self._alarm)
            await self.run_alarm()
            await asyncio.sleep(0)
        self._offset = max(self._offset, end)

    def accept_socket(
        self, tags: Sequence[str], attachment: Any
    ) -> tuple[RecordingSocket, HttpResponse]:
        """Accept the server's end of a new pair; the client's end stays with the test."""
        check_tags(tags)
        text = dump_attachment(attachment)
        client, server = js.WebSocketPair.new().object_values()
        self._context.acceptWebSocket(server, to_js(list(tags)))
        server.serializeAttachment(text)
        client.accept()
        socket = RecordingSocket(server, self._context, self)
        self._open.append(socket)
        return socket, HttpResponse(101, upgrade=socket)

    def refuse_socket(self, code: int, reason: str) -> HttpResponse:
        """Refuse for real; the answer shows how, and holds no sent message."""
        super().refuse_socket(code, reason)
        return HttpResponse(101, upgrade=SimpleNamespace(closed=(code, reason), sent=[]))

    def sockets(self, tag: str | None = None) -> list[Socket]:
        """The open sockets, or those that carry ``tag``."""
        return [socket for socket in self._open if tag is None or tag in socket.tags]

    def forget_socket(self, socket: RecordingSocket) -> None:
        """Drop a closed socket from the list."""
        if socket in self._open:
            self._open.remove(socket)

    def set_auto_response(self, request: str, response: str) -> None:
        """Set it for real, and keep it."""
        super().set_auto_response(request, response)
        self.auto_responses = {request: response}

    def abort(self, reason: str) -> None:
        """Note that the instance would be dropped."""
        self.aborted = reason

    def log(self, event: Mapping[str, Any]) -> None:
        """Keep the event and log it."""
        self.logged.append(dict(event))
        super().log(event)

    def delete_all(self) -> None:
        """Remove everything, and the test's alarm."""
        super().delete_all()
        self._alarm = None

    def restarted(self) -> RecordingHost:
        """A new host over the same storage and sockets, as after an eviction."""
        self._background.cancel()
        successor = RecordingHost(self._context, self.environment)
        successor.logged = self.logged
        successor.auto_responses = self.auto_responses
        successor._offset = self.now()
        successor._alarm = self._alarm
        successor._open = self._open
        for socket in successor._open:
            socket.host = successor
        return successor

    def close(self) -> None:
        """Nothing to close: the database is the platform's."""
