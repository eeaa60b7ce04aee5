"""Sending a request again when that may help, later each time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from palimpsest.abort import Abort, run_abortable
from palimpsest.errors import ModelError
from palimpsest.models.interface import ModelEvent


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try, and how long to wait in between.

    The wait doubles with each try and is drawn between half and the whole of that, so that many
    agents do not come back at the same moment. A server that names its own time is obeyed, unless
    it is longer than ``longest_wait``: then the failure is reported at once.
    """

    attempts: int = 4
    """Tries in all; 1 for no second one."""
    first_wait: float = 0.5
    """Seconds before the second try."""
    longest_wait: float = 30.0
    """Seconds that are waited at most."""

    def wait_before(self, attempt: int, error: ModelError) -> float | None:
        """Seconds to wait before the try after ``attempt`` (1 for the first); None to give up."""
        if not error.retryable or attempt >= self.attempts:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= self.longest_wait else None
        longest = min(self.first_wait * 2 ** (attempt - 1), self.longest_wait)
        return longest * (0.5 + random.random() / 2)


async def stream_with_retries(
    start: Callable[[], AsyncGenerator[ModelEvent, None]], policy: RetryPolicy, abort: Abort
) -> AsyncGenerator[ModelEvent, None]:
    """The events of ``start()``, which is called again while it fails before its first event.

    Once something was yielded, a failure is the caller's: what a user has seen is not unsaid.

    :raises ModelError: the last failure.
    :raises AbortedError: the signal was set.
    """
    attempt = 0
    while True:
        attempt += 1
        begun = False
        try:
            async with aclosing(start()) as events:
                async for event in events:
                    begun = True
                    yield event
            return
        except ModelError as error:
            wait = None if begun else policy.wait_before(attempt, error)
            if wait is None:
                raise
        await run_abortable(asyncio.sleep(wait), abort)
