"""Structured events and counters: what an operator sees of an agent.

An event is one JSON object on one line: ``event`` (a stable dotted name), ``agent``, ``name`` and
a few fields. Events never carry prompts, tokens, message bodies, payloads or results.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from palimpsest.hosts.interface import Host

MAX_LAST_ERRORS = 20
"""How many of the newest errors :meth:`Events.last_errors` shows."""


class Events:
    """Writes one agent's events and counts them, since this instance woke."""

    def __init__(self, host: Host, agent: str) -> None:
        self._host = host
        self._agent = agent
        self._errors: deque[dict[str, Any]] = deque(maxlen=MAX_LAST_ERRORS)
        self.counts: Counter[str] = Counter()

    def emit(self, event: str, **fields: Any) -> None:
        """Count and write an event. Fields are ids, names, numbers and times only."""
        self.counts[event] += 1
        self._host.log({"event": event, "agent": self._agent, "name": self._host.name, **fields})

    def count(self, event: str) -> None:
        """Count without writing: for what happens too often for a line each."""
        self.counts[event] += 1

    def failure(self, event: str, error: BaseException, **fields: Any) -> None:
        """Write and remember an error: its class and where it arose, never its text.

        The text may quote a prompt or a body; the class, the function and the line do not.
        """
        self._errors.append(
            {"event": event, "at": self._host.now(), "error": type(error).__name__, **fields}
        )
        self.emit(event, error=type(error).__name__, place=place_of(error), **fields)

    def last_errors(self) -> list[Mapping[str, Any]]:
        """The newest errors, oldest first."""
        return list(self._errors)


def place_of(error: BaseException) -> str:
    """The innermost function, file and line where an error arose: ``name (file.py:12)``."""
    traceback = error.__traceback__
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return f"{code.co_name} ({code.co_filename.rsplit('/', 1)[-1]}:{traceback.tb_lineno})"
