"""Stopping work in the middle: one signal that anything may set and anything may watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from palimpsest.errors import AbortedError

T = TypeVar("T")


def asked_to_end() -> bool:
    """Whether the running task is being cancelled, as against a function that raised by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def contained(what: str, kind: type[Exception] = RuntimeError) -> Generator[None]:
    """Code of the user's runs inside and ends nothing but itself; ``kind`` is raised instead.

    Whoever awaits something that was cancelled raises CancelledError without anybody having asked
    for an end, and ``sys.exit`` raises SystemExit. Passed on, these would end the library's own
    task, or the process.

    :param what: what runs, for the error's text.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        if asked_to_end():
            raise
        raise kind(f"{what} was cancelled") from error
    except SystemExit as error:
        raise kind(f"{what} wanted to end the process") from error


class Abort:
    """A signal that is set once, with a reason; watchers are told at once."""

    def __init__(self) -> None:
        self._reason: str | None = None
        self._watchers: dict[int, Callable[[], None]] = {}
        self._next_watcher = 0

    @property
    def aborted(self) -> bool:
        """Whether the signal is set."""
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Why it was set; '' while it is not."""
        return self._reason or ""

    def set(self, reason: str = "stopped") -> None:
        """Set the signal. Setting it again changes nothing."""
        if self._reason is not None:
            return
        self._reason = reason or "stopped"
        watchers = list(self._watchers.values())
        self._watchers.clear()
        for watcher in watchers:
            watcher()

    def raise_if_aborted(self) -> None:
        """Raise when the signal is set.

        :raises AbortedError: it is.
        """
        if self._reason is not None:
            raise AbortedError(self._reason)

    def watch(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call ``watcher`` when the signal is set (now, if it is); returns how to stop watching."""
        if self._reason is not None:
            watcher()
            return _nothing
        key = self._next_watcher
        self._next_watcher += 1
        self._watchers[key] = watcher

        def forget() -> None:
            self._watchers.pop(key, None)

        return forget


def _nothing() -> None:
    return None


async def run_abortable(
    work: Awaitable[T], abort: Abort | None, *, seconds: float | None = None
) -> T:
    """Await ``work``, cancelling it when the signal is set or the time is over.

    The work runs in the calling task, so nothing is left behind: when this returns or raises, the
    work has ended.

    :raises AbortedError: the signal was set.
    :raises TimeoutError: ``seconds`` passed.
    """
    if abort is None and seconds is None:
        return await work
    if abort is not None and abort.aborted:
        close = getattr(work, "close", None)
        if close is not None:
            close()
        abort.raise_if_aborted()
    loop = asyncio.get_running_loop()
    forget: Callable[[], None] = _nothing
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            if abort is not None:
                # A deadline in the past makes the time-out cancel this task right away.
                forget = abort.watch(lambda: timeout.reschedule(loop.time() - 1))
            return await work
    except TimeoutError:
        if timeout.expired() and abort is not None:
            abort.raise_if_aborted()
        raise
    finally:
        forget()


async def iterate_abortable(
    items: AsyncIterator[T], abort: Abort | None, *, seconds: float | None = None
) -> AsyncGenerator[T, None]:
    """The items as they come, until the signal is set; ``seconds`` bounds the wait for each.

    :raises AbortedError: the signal was set.
    :raises TimeoutError: the next item took longer than ``seconds``.
    """
    try:
        while True:
            try:
                item = await run_abortable(anext(items), abort, seconds=seconds)
            except StopAsyncIteration:
                return
            yield item
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()
