"""Timers of the event loop that end when they are cancelled.

Pyodide's event loop never clears a JavaScript timer: a cancelled ``asyncio.timeout(600)`` would
leave one that holds its callback for ten minutes, and a pending timer keeps an object from
hibernating. :func:`install_timers` makes cancelling a timer clear it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from importlib import import_module
from typing import Any

import js
from pyodide.ffi import create_once_callable

_SHORT_SECONDS = 0.05
"""Timers up to this long are left to the loop: they are over before it matters."""


class Timer(asyncio.Handle):
    """A callback that a JavaScript timer will run."""

    __slots__ = ("_callable", "_timer")

    def start(self, loop: Any, delay: float) -> None:
        """Start the JavaScript timer, ``delay`` in seconds."""

        def fire() -> None:
            self._timer = None
            # The loop's own path runs the callback: it installs what a callback needs.
            loop.call_soon(self._fire)

        self._callable: Any = create_once_callable(fire)
        self._timer: Any = js.setTimeout(self._callable, min(delay * 1000, 2**31 - 1))

    def _fire(self) -> None:
        if not self.cancelled():
            self._run()

    def cancel(self) -> None:
        """Clear the JavaScript timer and drop the callback."""
        super().cancel()
        timer, self._timer = self._timer, None
        if timer is not None:
            js.clearTimeout(timer)
            self._callable.destroy()


def install_timers() -> None:
    """Replace the loop's ``call_later`` for longer delays; doing it twice changes nothing."""
    loop_class: Any = import_module("pyodide.webloop").WebLoop
    original: Callable[..., Any] = loop_class.call_later
    if getattr(original, "clears_timers", False):
        return

    def call_later(
        self: Any,
        delay: float,
        callback: Callable[..., Any],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if not _SHORT_SECONDS < delay < 2**31:
            return original(self, delay, callback, *args, context=context)
        timer = Timer(callback, args, self, context)
        timer.start(self, delay)
        return timer

    call_later.clears_timers = True  # type: ignore[attr-defined]
    loop_class.call_later = call_later
