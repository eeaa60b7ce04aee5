"""What others are told of a session's compactions: frames for clients, errors, log events."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from palimpsest.hosts.interface import Host

Frame = dict[str, Any]
"""A frame for clients: ``cf_agent_session`` or ``cf_agent_session_error``."""

ErrorHandler = Callable[[Exception], object]
"""Told of a failure; may be async."""

MAX_SHOWN_ERROR_CHARS = 300
"""The longest error text that clients are sent."""


def session_frame(phase: str, tokens: int, threshold: int | None) -> Frame:
    """The frame that tells clients the phase and the estimate (Sessions document)."""
    return {
        "type": "cf_agent_session",
        "phase": phase,
        "tokenEstimate": tokens,
        "tokenThreshold": threshold,
    }


def error_text(error: Exception) -> str:
    """An error's class and text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class CompactionNews:
    """Tells listeners, the error handler and the log; a failing listener harms nobody."""

    def __init__(self, host: Host, session_id: str) -> None:
        self._host = host
        self._session_id = session_id
        self._listeners: list[Callable[[Frame], None]] = []
        self.on_error: ErrorHandler | None = None

    def add_listener(self, listener: Callable[[Frame], None]) -> Callable[[], None]:
        """Send ``listener`` every frame; returns the function that ends this."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def send(self, frame: Frame) -> None:
        """Give a frame to all listeners."""
        for listener in list(self._listeners):
            try:
                listener(frame)
            except Exception as error:
                self.log_failure("compaction.listener_failed", error)

    async def report(self, error: Exception) -> None:
        """Tell the handler, the clients and the log of a failed compaction."""
        self.log_failure("compaction.failed", error)
        text = error_text(error)[:MAX_SHOWN_ERROR_CHARS]
        self.send({"type": "cf_agent_session_error", "error": f"Compaction failed: {text}"})
        if self.on_error is None:
            return
        try:
            told = self.on_error(error)
            if inspect.isawaitable(told):
                await told
        except Exception as failure:
            self.log_failure("compaction.error_handler_failed", failure)

    def log(self, event: str, **fields: Any) -> None:
        """One structured event; never any of the conversation's text."""
        self._host.log({"event": event, "session": self._session_id, **fields})

    def log_failure(self, event: str, error: Exception) -> None:
        """An event that names the error's class."""
        self.log(event, error=type(error).__name__)
