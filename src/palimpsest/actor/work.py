"""The part of an agent that does work later, for long, or alone."""

from __future__ import annotations

import asyncio
import datetime
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from palimpsest.actor import queue, schedules
from palimpsest.actor.callbacks import Callback
from palimpsest.actor.exclusive import Exclusive
from palimpsest.actor.fibers import Fiber, Fibers
from palimpsest.actor.hooks import Hooks
from palimpsest.actor.queue import Queue, QueueItem
from palimpsest.actor.schedules import CatchUp, Run, Schedule, Schedules
from palimpsest.errors import JobError
from palimpsest.jobs import Job
from palimpsest.store.fibers import FiberRecord

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent

T = TypeVar("T")


class Work(Hooks):
    """Schedules, the queue, fibers, background tasks, leases and locks of an agent."""

    def _open_work(self) -> None:
        agent = cast("Agent", self)
        self._schedules = Schedules(agent)
        self._queue = Queue(agent)
        self._fibers = Fibers(agent)
        self._exclusive = Exclusive()
        self._background: set[asyncio.Task[None]] = set()

    async def recover_fibers(self) -> None:
        """After a wake: see :meth:`palimpsest.actor.fibers.Fibers.recover`."""
        await self._fibers.recover()

    def adopt_schedule(
        self, identifier: str, timing: dict[str, Any], payload: Any, at_ms: int
    ) -> None:
        """Take over a schedule that another package stored."""
        self._schedules.adopt(identifier, {**timing, "payload": payload}, at_ms)

    def adopt_queue_item(self, identifier: str, name: str, payload: Any) -> None:
        """Take over a queue item that another package stored."""
        self._queue.adopt(identifier, name, payload)

    def work_counts(self) -> dict[str, Any]:
        """How much work waits: for :meth:`Agent.status`."""
        jobs = cast("Agent", self).jobs
        return {
            "schedules": jobs.count(schedules.KIND),
            "queue": jobs.count(queue.KIND),
            "fibers": self._fibers.counts(),
            "deadLetters": jobs.counts().get("dead", 0),
        }

    # --- schedules -----------------------------------------------------------------------------

    def schedule(
        self,
        when: float | datetime.datetime | str,
        callback: Callback,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        idempotent: bool | None = None,
        timezone: str = "UTC",
        catch_up: CatchUp = "once",
        max_attempts: int = 3,
        base_delay_ms: int = 2_000,
        timeout_seconds: float = 600,
    ) -> Schedule:
        """Run a method later; it survives eviction and restarts.

        :param when: seconds from now, a datetime with a time zone, or a cron line.
        :param callback: a public method of this agent, or its name. It may take the payload and,
            as a second argument, a :class:`~palimpsest.actor.schedules.ScheduledRun`.
        :param payload: a JSON value.
        :param id: names the schedule: scheduling it again changes nothing if all else is the
            same, and replaces it if not.
        :param idempotent: whether the same method, timing and payload mean the same schedule. The
            default: yes for cron lines, for a given ``id``, and for everything in ``on_start``.
        :param timezone: the IANA zone in which a cron line is read.
        :param catch_up: what becomes of a cron line's times missed during downtime: ``"once"``
            (one run for all), ``"all"`` (one run each) or ``"skip"``.
        :param max_attempts: runs before a failure becomes a dead letter.
        :param base_delay_ms: wait after the first failure, doubled after each further one.
        :param timeout_seconds: how long one run may take.
        :raises JobError: not a method, not a cron line, no such zone, a date in the past (in
            ``on_start`` such a date is passed over: it has run), a negative delay.
        :raises LimitError: the payload does not fit into a row.
        """
        run = Run(callback, payload, id, idempotent, max_attempts, base_delay_ms, timeout_seconds)
        return self._schedules.add(when, timezone, catch_up, run)

    def schedule_every(
        self,
        seconds: float,
        callback: Callback,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        idempotent: bool | None = None,
        catch_up: CatchUp = "once",
        max_attempts: int = 3,
        base_delay_ms: int = 2_000,
        timeout_seconds: float = 600,
    ) -> Schedule:
        """Run a method every so many seconds, the first time after one interval.

        The times lie on a fixed grid, whatever a run takes. See :meth:`schedule` for the rest.

        :raises JobError: the interval is shorter than a second, or the callback is no method.
        """
        run = Run(callback, payload, id, idempotent, max_attempts, base_delay_ms, timeout_seconds)
        return self._schedules.every(seconds, catch_up, run)

    def get_schedule(self, identifier: str) -> Schedule | None:
        """The schedule with this id, also a dead one; None if there is none."""
        return self._schedules.get(identifier)

    def list_schedules(
        self,
        *,
        type: str | None = None,  # noqa: A002 - the field's name
        callback: str | None = None,
    ) -> list[Schedule]:
        """The schedules that wait or run, in order of their time."""
        return self._schedules.list(type=type, callback=callback)

    def cancel_schedule(self, identifier: str) -> bool:
        """Remove a schedule; whether there was one. A run that has begun goes on to its end."""
        return self._schedules.cancel(identifier)

    # --- queue ---------------------------------------------------------------------------------

    def queue(
        self,
        callback: Callback,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        max_attempts: int = 3,
        base_delay_ms: int = 2_000,
        timeout_seconds: float = 600,
    ) -> str:
        """Append a call to the durable queue, which runs one item at a time, strictly in order.

        :param callback: a public method, or its name. It may take the payload and, as a second
            argument, the :class:`~palimpsest.actor.queue.QueueItem`.
        :param id: an item with this id that still waits is not added again.
        :returns: the item's id.
        :raises JobError: not a method. :raises LimitError: the payload does not fit into a row.
        """
        return self._queue.add(
            callback,
            payload,
            id=id,
            max_attempts=max_attempts,
            base_delay_ms=base_delay_ms,
            timeout_seconds=timeout_seconds,
        )

    def list_queue(self) -> list[QueueItem]:
        """The items that run or wait, in order."""
        return self._queue.list()

    def dequeue(self, identifier: str) -> bool:
        """Take an item out of the queue; whether it was there."""
        return self._queue.remove(identifier)

    def dequeue_all(self) -> int:
        """Empty the queue; how many items went."""
        return self._queue.clear()

    # --- dead letters --------------------------------------------------------------------------

    def dead_letters(self) -> list[Job]:
        """Schedules, queue items and other jobs that were given up, newest first."""
        return cast("Agent", self).jobs.dead_letters()

    def retry_dead_letter(self, job_id: str) -> bool:
        """Run a dead letter again; whether there was one."""
        return cast("Agent", self).jobs.retry_dead(job_id)

    def discard_dead_letter(self, job_id: str) -> bool:
        """Forget a dead letter; whether there was one."""
        return cast("Agent", self).jobs.discard_dead(job_id)

    # --- long work -----------------------------------------------------------------------------

    def start_fiber(
        self,
        callback: Callback,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002
    ) -> FiberRecord:
        """Run a method in the background, and again after an eviction, until it has ended.

        The method is given a :class:`~palimpsest.actor.fibers.Fiber`: its ``payload``, and in
        ``snapshot`` what an earlier run stashed. An error ends the fiber; it is not tried again.

        :param id: a fiber of this id that runs or has completed is not started again.
        :raises JobError: not a method. :raises LimitError: the payload does not fit into a row.
        """
        return self._fibers.start(callback, payload, id=id)

    async def run_fiber(
        self, name: str, work: Callable[[Fiber], Awaitable[T]], payload: Any = None
    ) -> T:
        """Run a function as a named fiber and return its result; the object stays in memory.

        If the object is evicted all the same, the next instance finds the fiber with its last
        stash in ``on_fiber_recovered``.
        """
        return await self._fibers.run(name, work, payload)

    def get_fiber(self, identifier: str) -> FiberRecord | None:
        """The fiber with this id, also after it has ended."""
        return self._fibers.get(identifier)

    def list_fibers(self, *, status: str | None = None) -> list[FiberRecord]:
        """Fibers, oldest first; ended ones are kept, the newest 1,000."""
        return self._fibers.list(status=status)

    def cancel_fiber(self, identifier: str) -> bool:
        """Stop a fiber; whether one was live."""
        return self._fibers.cancel(identifier)

    def delete_fiber(self, identifier: str) -> bool:
        """Forget a fiber that has ended; whether there was one."""
        return self._fibers.delete(identifier)

    def keep_alive(self) -> AbstractContextManager[None]:
        """``with agent.keep_alive():`` keeps the object in memory while the block runs.

        An alarm every 30 seconds renews it; after a crash nothing is left behind.
        """
        return cast("Agent", self).jobs.lease()

    def spawn(
        self, work: Coroutine[Any, Any, None], *, name: str = "background"
    ) -> asyncio.Task[None]:
        """Run work in the background of this instance; its failure goes to ``on_error``.

        It is held strongly and keeps the object in memory, but does not survive a crash: use
        :meth:`queue` or :meth:`start_fiber` for what must.
        """
        agent = cast("Agent", self)

        async def guarded() -> None:
            try:
                with agent.jobs.lease():
                    await work
            except Exception as error:
                await agent.report("background.failed", error, work=name)

        task = agent.host.spawn(guarded(), name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def cancel_background(self) -> None:
        """Cancel all that :meth:`spawn` started."""
        for task in self._background:
            task.cancel()

    def exclusive(self, name: str, *, wait: bool = True) -> AbstractAsyncContextManager[None]:
        """``async with agent.exclusive("checkout"):`` lets one in at a time, in order of arrival.

        :param wait: False refuses at once instead of waiting.
        :raises BusyError: on entering, if somebody is inside and ``wait`` is False.
        """
        return self._exclusive.enter(name, wait=wait)

    async def retry(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        max_attempts: int = 3,
        base_delay_ms: int = 100,
        max_delay_ms: int = 3_000,
        should_retry: Callable[[Exception], bool] = lambda _: True,
    ) -> T:
        """Call ``work`` until it succeeds, waiting a random part of a doubling time in between.

        :param should_retry: False for an error that will not go away.
        :raises Exception: the last error, after ``max_attempts`` or a refusal to retry.
        """
        if max_attempts < 1:
            raise JobError(f"max_attempts is at least 1, got {max_attempts}")
        for attempt in range(1, max_attempts):
            try:
                return await work()
            except Exception as error:
                if not should_retry(error):
                    raise
            ceiling = min(base_delay_ms * 2**attempt, max_delay_ms)
            await asyncio.sleep(random.uniform(0, ceiling) / 1000)
        return await work()
