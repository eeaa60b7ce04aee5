"""Lines from standard input without holding up the event loop.

Reading a terminal cannot be cancelled, so a daemon thread does it: it does not keep the program
from ending.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """The result of ``function``, run in a thread that may be left behind."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[], None]) -> None:
        if not future.done():
            settle()

    def work() -> None:
        try:
            result = function()
        except (EOFError, OSError, ValueError) as error:
            settle = partial(future.set_exception, error)
        else:
            settle = partial(future.set_result, result)
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, settle)

    threading.Thread(target=work, daemon=True).start()
    return await future


async def read_lines() -> AsyncIterator[str]:
    """Lines of standard input, without their ends; blank ones are left out."""
    while line := await in_daemon_thread(sys.stdin.readline):
        if line.strip():
            yield line.strip()
