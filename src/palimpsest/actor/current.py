"""What the running code works for, wherever it is in the call stack."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent
    from palimpsest.actor.connections import Connection
    from palimpsest.hosts.interface import HttpRequest


@dataclass(frozen=True, slots=True)
class Current:
    """The agent at work, and the connection and request it works for."""

    agent: Agent
    connection: Connection | None = None
    request: HttpRequest | None = None


_current: ContextVar[Current | None] = ContextVar("palimpsest_current", default=None)


def current() -> Current | None:
    """The agent, connection and request that the running code works for; None outside of any.

    Tasks that are started meanwhile inherit it.
    """
    return _current.get()


@contextmanager
def working(
    agent: Agent, *, connection: Connection | None = None, request: HttpRequest | None = None
) -> Generator[None]:
    """Set what :func:`current` returns while the block runs."""
    token = _current.set(Current(agent, connection, request))
    try:
        yield
    finally:
        _current.reset(token)
