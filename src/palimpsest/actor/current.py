"""What the running code works for, wherever it is in the call stack."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent
    from palimpsest.actor.connections import Connection
    from palimpsest.hosts.interface import HttpRequest


class Current:
    """The agent at work, and the connection and request it works for."""

    __slots__ = ("agent", "connection", "request")

    def __init__(
        self, agent: Agent, connection: Connection | None, request: HttpRequest | None
    ) -> None:
        self.agent = agent
        self.connection = connection
        self.request = request


_current: ContextVar[Current | None] = ContextVar("palimpsest_current", default=None)


def current() -> Current | None:
    """The agent, connection and request that the running code works for; None outside of any.

    Tasks that are started meanwhile inherit it.
    """
    return _current.get()


class working:
    """``with working(agent):`` sets what :func:`current` returns while the block runs.

    A class, because a generator's context manager costs several times as much, for each message.
    """

    __slots__ = ("_token", "_work")

    def __init__(
        self,
        agent: Agent,
        *,
        connection: Connection | None = None,
        request: HttpRequest | None = None,
    ) -> None:
        self._work = Current(agent, connection, request)

    def __enter__(self) -> None:
        self._token = _current.set(self._work)

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)
