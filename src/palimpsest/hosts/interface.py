"""The host seam: all that the library asks of the platform under it.

Everything outside :mod:`palimpsest.hosts` is plain Python that runs anywhere. Two hosts implement
these protocols: :mod:`palimpsest.hosts.workers` (a Durable Object on Cloudflare's workerd) and
:mod:`palimpsest.hosts.local` (the standard library's ``sqlite3`` and a movable clock). The same
behaviour tests run on both, and the local host enforces the platform's limits, so that a test
cannot pass locally and fail when deployed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

SqlValue = None | int | float | str | bytes
"""What may be bound and what comes back. ``bool`` binds as 0 or 1."""

Row = Sequence[SqlValue]

MAX_VALUE_BYTES = 2_000_000
"""The largest string, blob or row that a Durable Object stores, in bytes (platform limit)."""

MAX_BOUND_PARAMETERS = 100
"""The most parameters one statement may bind (platform limit)."""

MAX_PATTERN_BYTES = 50
"""The longest LIKE or GLOB pattern, in UTF-8 bytes (platform limit)."""

MAX_STATEMENT_BYTES = 100_000
"""The longest SQL text, in bytes (platform limit)."""

MAX_INTEGER = 2**53 - 1
"""The largest integer magnitude that crosses the JavaScript boundary unchanged."""

MAX_ATTACHMENT_BYTES = 16_384
"""The largest serialized attachment of a hibernating WebSocket, in bytes (platform limit)."""

MAX_BODY_BYTES = 32 * 1024 * 1024
"""The largest request body that is read."""

MAX_TAGS = 10
"""The most tags of one hibernating WebSocket (platform limit)."""

MAX_TAG_LENGTH = 256
"""The longest tag, in characters (platform limit)."""

MAX_SOCKET_MESSAGE_BYTES = 32 * 1024 * 1024
"""The largest WebSocket message, in bytes (platform limit)."""


class Sql(Protocol):
    """Synchronous SQL on the object's own database."""

    rows_read: int
    """Rows read since the host was made, as Cloudflare bills them (0 where it cannot be told)."""

    rows_written: int
    """Rows written since the host was made, as Cloudflare bills them (0 where unknown)."""

    rollbacks: int
    """How many transactions were rolled back: what was remembered of rows before is void then."""

    keeps_writes_together: bool
    """Whether what is written without an ``await`` in between reaches the disk together.

    So it is on the platform: if the process ends, either all of it was stored or nothing.
    """

    def execute(self, sql: str, *bindings: SqlValue) -> list[list[SqlValue]]:
        """Run one statement (or several, parameters for the last) and return all its rows.

        Integers bind as REAL on the platform and so do they locally: write ``cast(? as integer)``
        where an untyped or TEXT column, a JSON function or string concatenation receives one.
        A REAL with an integral value comes back as ``int``.

        :raises BindingError: a value is not None, bool, int, float, str, bytes or memoryview.
        :raises LimitError: a platform limit is exceeded (value, parameters, integer, statement).
        :raises UniqueViolationError: a key exists already.
        :raises SqlError: anything else that SQLite refuses.
        """
        ...

    def value(self, sql: str, *bindings: SqlValue) -> SqlValue:
        """The column ``value`` of the only row of one reading statement.

        Costs half of what :meth:`execute` costs for the same row.

        :raises SqlError: it returns no row, or more than one; and all that ``execute`` raises.
        """
        ...

    def transaction(self, body: Callable[[], T]) -> T:
        """Run ``body`` in one transaction and return its result; nested calls are savepoints.

        Any exception rolls back and is raised again unchanged.

        :raises TransactionError: ``body`` is a coroutine function or returned an awaitable.
        """
        ...

    def database_size(self) -> int:
        """Bytes that the database occupies."""
        ...


@dataclass(slots=True)
class HttpRequest:
    """A request as every host shows it. ``headers`` has lower-case names."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


@dataclass(slots=True)
class HttpResponse:
    """A response; ``body`` may be produced piece by piece.

    ``upgrade`` is the host's own token for an accepted WebSocket (status 101) and is otherwise
    None.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes | str | AsyncIterator[bytes] = b""
    upgrade: Any = None


class FetchResponse(Protocol):
    """The answer to an outgoing request."""

    status: int
    headers: Mapping[str, str]

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; leaving the iterator early cancels the request upstream."""
        ...

    async def read(self) -> bytes:
        """The whole body."""
        ...


class Socket(Protocol):
    """One hibernating WebSocket, server side. Equal if it is the same socket."""

    @property
    def tags(self) -> list[str]:
        """The tags given at acceptance."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        ...

    def send(self, data: str | bytes) -> None:
        """Send one message; a socket that is no longer open drops it silently.

        :raises LimitError: the message exceeds :data:`MAX_SOCKET_MESSAGE_BYTES`.
        """
        ...

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Begin (or answer) the close handshake; closing twice is harmless."""
        ...

    def get_attachment(self) -> Any:
        """The JSON value that survives hibernation with the socket, or None."""
        ...

    def set_attachment(self, value: Any) -> None:
        """Store a JSON value with the socket.

        :raises LimitError: its JSON exceeds :data:`MAX_ATTACHMENT_BYTES`.
        """
        ...


class Host(Protocol):
    """One actor's platform: its database, alarm, sockets, clock and tasks."""

    name: str
    """The object's name (the last part of its address); '' where it has none."""

    environment: Mapping[str, Any]
    """Variables, secrets and bindings given by the deployment, by name."""

    jobs: Any
    """The object's one :class:`palimpsest.jobs.Jobs`, made on first use by ``Jobs.of(host)``."""

    alarm_handler: Callable[[], Awaitable[None]] | None
    """What an alarm runs; set by ``Jobs.of(host)``."""

    @property
    def sql(self) -> Sql:
        """The object's database."""
        ...

    def now(self) -> int:
        """Milliseconds since 1970 (UTC)."""
        ...

    def random_id(self) -> str:
        """A fresh UUID (version 4) in its usual text form."""
        ...

    def set_alarm(self, at: int) -> None:
        """Arm the object's one alarm for ``at`` (ms since 1970), replacing an earlier one."""
        ...

    def delete_alarm(self) -> None:
        """Disarm the alarm."""
        ...

    async def get_alarm(self) -> int | None:
        """When the alarm is armed for, in ms since 1970; None while none is armed."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run work in the background: held strongly, kept alive, its failure reported once."""
        ...

    async def background_idle(self) -> None:
        """Wait until all spawned work has ended."""
        ...

    def accept_socket(self, tags: Sequence[str], attachment: Any) -> tuple[Socket, HttpResponse]:
        """Accept a WebSocket upgrade: the server's end and the answer to return for it.

        :raises LimitError: more than 10 tags, a tag empty or over 256 characters, or an
            attachment too large.
        """
        ...

    def refuse_socket(self, code: int, reason: str) -> HttpResponse:
        """Accept a WebSocket upgrade only to close it with ``code``; the answer to return for it.

        It is no socket of the object: no event comes of it, and :meth:`sockets` does not list it.
        """
        ...

    def sockets(self, tag: str | None = None) -> list[Socket]:
        """The open sockets, or those that carry ``tag``."""
        ...

    def set_auto_response(self, request: str, response: str) -> None:
        """Answer this exact text without waking the object."""
        ...

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout: float | None = None,
    ) -> FetchResponse:
        """Send an outgoing HTTP request; ``timeout`` (seconds) bounds the wait for headers.

        :raises ConnectionError: the network failed.
        :raises TimeoutError: no headers arrived in time.
        """
        ...

    def delete_all(self) -> None:
        """Remove every table and row, the key-value storage and the alarm of this object."""
        ...

    def abort(self, reason: str) -> None:
        """Drop the running instance from memory; the next event starts a new one."""
        ...

    def log(self, event: Mapping[str, Any]) -> None:
        """Write one structured event as one line of JSON."""
        ...


def host_of(owner: Any) -> Host:
    """The host of ``owner``: an agent (anything with ``.host``) or a host itself.

    :raises TypeError: it is neither.
    """
    host = getattr(owner, "host", owner)
    if not hasattr(host, "sql") or not hasattr(host, "now"):
        raise TypeError(f"expected an agent or a host, got {type(owner).__name__}")
    return host


class Actor(Protocol):
    """What a host's shell calls on the object's one actor (an agent).

    The shell makes the actor with ``actor_class(host)``, awaits :meth:`handle_start` before the
    first event of an instance, and never runs two starts at once. A start that raises is answered
    as an error, and the next event makes a new actor and tries again.
    """

    async def handle_start(self) -> None:
        """Prepare a new instance: tables, handlers, what the user's own start hook does."""
        ...

    async def handle_request(self, request: HttpRequest) -> HttpResponse:
        """Answer an HTTP request; for an upgrade, return what ``accept_socket`` gave."""
        ...

    async def handle_message(self, socket: Socket, message: str | bytes) -> None:
        """Take one WebSocket message."""
        ...

    async def handle_close(self, socket: Socket, code: int, reason: str, clean: bool) -> None:
        """Take note of a closed WebSocket; the shell has answered the close."""
        ...

    async def handle_error(self, socket: Socket, error: str) -> None:
        """Take note of a broken WebSocket."""
        ...

    async def handle_alarm(self) -> None:
        """The alarm fired; raising makes the platform try again later, at most six times."""
        ...

    async def handle_call(self, method: str, arguments: list[Any]) -> Any:
        """Run a callable method for another Worker or object; the result is a JSON value.

        :raises PalimpsestError: the method is not callable from outside, or it failed.
        """
        ...
