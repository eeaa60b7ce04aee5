"""Work that a host runs beside its events: kept from being collected, its failures logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any


class BackgroundTasks:
    """The tasks that one object's host has spawned and that have not ended."""

    def __init__(
        self,
        log: Callable[[Mapping[str, Any]], None],
        describe: Callable[[BaseException], str] = repr,
    ) -> None:
        """None yet.

        :param log: given an event for each task that fails.
        :param describe: an error as the event's text.
        """
        self._log = log
        self._describe = describe
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run ``work`` as a task."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        # The event loop itself keeps only weak references.
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            text = self._describe(error)
            self._log({"event": "task.failed", "task": task.get_name(), "error": text})

    async def idle(self) -> None:
        """Wait until all tasks have ended but the one that asks."""
        current = asyncio.current_task()
        while pending := [task for task in self._tasks if task is not current]:
            await asyncio.wait(pending)

    def cancel(self) -> None:
        """Cancel all of them."""
        for task in self._tasks:
            task.cancel()
