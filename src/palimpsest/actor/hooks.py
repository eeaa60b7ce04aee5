"""What users override: the life of an agent as a list of hooks that do nothing by themselves.

Every hook may be ``def`` or ``async def``.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palimpsest.abort import contained
from palimpsest.actor.connections import Connection
from palimpsest.hosts.interface import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from palimpsest.actor.fibers import Fiber

NO_RECONNECT_CODES = range(4000, 5000)
"""Close codes, besides 1008, after which the npm clients do not reconnect."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Refuse a connection so that the client stops retrying: accepted, then closed with ``code``.

    A refusal by HTTP status alone would be retried for ever, because a browser cannot see it.
    """

    reason: str = "forbidden"
    """At most 123 bytes of UTF-8, the limit of a close frame."""
    code: int = 4403
    """1008 or 4000 to 4999."""
    status: int = 403
    """The answer to a request that is not a WebSocket."""

    def __post_init__(self) -> None:
        if self.code != 1008 and self.code not in NO_RECONNECT_CODES:
            raise ValueError(f"a terminal close code is 1008 or 4000 to 4999, got {self.code}")
        if len(self.reason.encode()) > 123:
            raise ValueError("a close reason is at most 123 bytes")
        if not 400 <= self.status < 600:
            raise ValueError(f"a refusal's status is 400 to 599, got {self.status}")


Decision = HttpRequest | HttpResponse | Reject | None
"""Go on (None), go on with another request, answer at once, or refuse."""


class Hooks:
    """The hooks of an agent."""

    def on_start(self) -> Awaitable[None] | None:
        """The instance has woken: after creation, eviction, hibernation or a restart.

        If it raises, the event that woke the agent is answered with an error, and the next event
        tries again.
        """

    def before_connect(self, request: HttpRequest) -> Awaitable[Decision] | Decision:
        """A WebSocket wants to connect: see :data:`Decision`."""

    def before_request(self, request: HttpRequest) -> Awaitable[Decision] | Decision:
        """A plain HTTP request has come: see :data:`Decision`."""

    def on_connect(self, connection: Connection, request: HttpRequest) -> Awaitable[None] | None:
        """A client has connected and has got the protocol's first frames."""

    def on_message(self, connection: Connection, message: str | bytes) -> Awaitable[None] | None:
        """A message came that is not one of the protocol's frames."""

    def on_close(
        self, connection: Connection, code: int, reason: str, clean: bool
    ) -> Awaitable[None] | None:
        """A connection has closed."""

    def on_error(
        self, error: BaseException, connection: Connection | None
    ) -> Awaitable[None] | None:
        """A hook, a background task or a socket failed. It is logged already."""

    def on_request(
        self, request: HttpRequest
    ) -> Awaitable[HttpResponse | None] | HttpResponse | None:
        """Answer an HTTP request; None gives 404."""

    def on_alarm(self) -> Awaitable[None] | None:
        """The alarm fired and the jobs that were due have run."""

    def on_fiber_recovered(self, fiber: Fiber) -> Awaitable[bool | None] | bool | None:
        """A fiber was cut short by eviction or a crash; ``fiber.snapshot`` is its last stash.

        A method's fiber is run again unless this returns False; a function's fiber cannot be.
        """

    def connection_tags(self, request: HttpRequest) -> Sequence[str]:
        """Tags for a new connection, at most 8 of at most 256 characters."""
        return ()

    def connection_readonly(self, request: HttpRequest) -> bool:
        """Whether a new connection may not change the state."""
        return False

    def connection_protocol(self, request: HttpRequest) -> bool:
        """Whether a new connection gets the protocol's frames (identity, state, chat)."""
        return True

    def validate_state(self, state: Any, source: Connection | str) -> None:
        """Raise to refuse a new state. ``source`` is the connection, or ``"server"``."""

    def on_state_changed(
        self, state: Any, source: Connection | str
    ) -> Awaitable[None] | None:
        """The state has changed and has been sent to the clients."""


async def settle(value: Any) -> Any:
    """The value, awaited if it can be.

    :raises RuntimeError: it was cancelled, and not because its task was asked to end; or it called
        ``sys.exit``.
    """
    if not inspect.isawaitable(value):
        return value
    with contained("the hook"):
        return await value
