"""Methods that durable work calls later, by name: a name survives a restart."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from palimpsest.actor.hooks import settle
from palimpsest.errors import JobError
from palimpsest.jobs import GiveUp, check_job_id
from palimpsest.signatures import signature_of

Callback = str | Callable[..., Any]
"""A public method of the agent: its name, or the bound method itself."""


def callback_name(agent: object, callback: Callback) -> str:
    """The name of a method that the agent's class has.

    :raises JobError: it has no such method, or the name is private.
    """
    name = callback if isinstance(callback, str) else getattr(callback, "__name__", "")
    if not isinstance(callback, str) and getattr(callback, "__self__", None) is not agent:
        raise JobError(f"a callback is a method of this agent or its name, got {callback!r:.100}")
    if not name.isidentifier() or name.startswith("_"):
        raise JobError(f"a callback is a public method's name, got {name!r:.100}")
    problem = _problem(type(agent), name)
    if problem is not None:
        raise JobError(problem)
    return name


def named_id(prefix: str, identifier: Any) -> str | None:
    """The id that a user gave to a piece of work; None where it is to be made.

    :param prefix: what stands before it in the id of the job.
    :raises JobError: it cannot be one.
    """
    if identifier is not None:
        check_job_id(f"{prefix}{identifier}" if isinstance(identifier, str) else identifier)
    return identifier


def _problem(agent_class: type, name: str, since: str = "") -> str | None:
    """Why the class's method cannot be called later; None where it can."""
    method = getattr(agent_class, name, None)
    if not callable(method):
        return f"{agent_class.__name__} has no method {name!r}{since}"
    if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
        return f"{agent_class.__name__}.{name} is a generator: calling it would run nothing of it"
    return None


async def run_callback(agent: object, name: str, *arguments: Any) -> Any:
    """Call the method with as many of the arguments as it takes.

    :raises GiveUp: the class no longer has the method (it went with a deploy).
    """
    problem = _problem(type(agent), name, " any more")
    if problem is not None:
        raise GiveUp(problem)
    method = getattr(agent, name)
    return await settle(method(*arguments[: _taken(method, len(arguments))]))


def _taken(method: Callable[..., Any], offered: int) -> int:
    count = 0
    for parameter in signature_of(method).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            return offered
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            count += 1
    return min(count, offered)
