"""Durable jobs: many of them on the object's one alarm.

A job is a row with a time, a kind and a JSON payload. The alarm is always armed for the earliest
job; when it fires, :meth:`Jobs.run_due` runs what is due through the handler registered for its
kind. Delivery is at least once: the row is marked before the handler is called and removed after
it returned, so a crash in between runs it again. Failures back off and end as dead letters, which
stay visible; nothing loops for ever, and no alarm is armed while nothing is due.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any
from zlib import crc32

from palimpsest.abort import asked_to_end
from palimpsest.errors import JobError, error_words
from palimpsest.hosts.interface import MAX_INTEGER, Host, host_of
from palimpsest.store.jobs import MAX_JOB_ID_LENGTH, Job, JobStore, Wake, has_job_tables

__all__ = ["GiveUp", "Job", "JobHandler", "Jobs", "Postpone", "rearm_after_failed_start"]

DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_BASE_DELAY_MS = 2_000
DEFAULT_MAX_DELAY_MS = 300_000
DEFAULT_TIMEOUT_MS = 600_000
"""How long a handler may run: well inside the platform's 15 minutes for one alarm."""

MAX_INTERRUPTIONS = 5
"""How often a job may be cut short by eviction or a crash before it is a dead letter."""

MAX_DEAD_LETTERS = 1_000
"""How many dead letters are kept; the oldest go first."""

MAX_DONE_MARKS = 10_000
"""How many marks of finished one-time jobs are kept; the oldest go first."""

WATCHDOG_MS = 30_000
"""While jobs run or a lease is held, the alarm is armed at most this far ahead, in ms."""

RUN_BUDGET_MS = 600_000
"""After this time one alarm waits no longer; what still runs is watched by the next alarm."""


@dataclasses.dataclass(frozen=True, slots=True)
class Postpone:
    """Returned by a handler: run this same job again at ``at`` (ms since 1970).

    The attempts are counted anew: it is a planned repetition, not a failure.
    """

    at: int
    payload: Any = dataclasses.field(default_factory=lambda: _SAME)
    """The payload from then on; left out, it stays."""


_SAME = object()


class GiveUp(JobError):
    """Raised by a handler: further attempts are pointless, make it a dead letter at once."""


JobHandler = Callable[[Job], Awaitable[Postpone | None]]
DeadHook = Callable[[Job, str, bool], Postpone | None]
"""Given the job, the error's text and whether a handler raised :class:`GiveUp`."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    handler: JobHandler
    on_dead: DeadHook | None
    detached: bool
    keep_mark: Callable[[Job], bool] | None


class Jobs:
    """The durable jobs of one object; use :meth:`of`, there is one per host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._store = JobStore(host.sql)
        self._kinds: dict[str, _Kind] = {}
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._current: dict[str, asyncio.Task[Any]] = {}
        self._attached: set[str] = set()
        self._stopped: set[str] = set()
        self._wake = asyncio.Event()
        self._in_run = False
        self._leases = 0
        self._armed: int | None = None
        """What the alarm is armed for: 0 for nothing, None while that is not known."""
        self._recovered = False
        self._nothing_waits = False
        """Known from the wake, until a job is put."""
        self._ending = False
        self._ended = False
        self.shared: dict[str, Any] = {}
        """Helpers of which an object has one, by name: module globals are shared by objects."""
        self.completed = 0
        """Runs that succeeded since the instance woke."""
        self.failed = 0
        """Runs that failed since the instance woke."""

    @classmethod
    def of(cls, owner: Any) -> Jobs:
        """The jobs of an agent or host, made on first use; sets the host's alarm handler."""
        host = host_of(owner)
        if host.jobs is None:
            host.jobs = cls(host)
            if host.alarm_handler is None:
                host.alarm_handler = host.jobs.run_due
        return host.jobs

    # --- kinds ---------------------------------------------------------------------------------

    def register(
        self,
        kind: str,
        handler: JobHandler,
        *,
        on_dead: DeadHook | None = None,
        detached: bool = False,
        keep_mark: Callable[[Job], bool] | None = None,
    ) -> None:
        """Give the handler for a kind; registering again replaces it.

        :param on_dead: called when a job would become a dead letter. If it returns a
            :class:`Postpone` the job goes on, and a copy is kept as the dead letter.
        :param detached: jobs of this kind may run for long; an alarm does not wait for them.
        :param keep_mark: whether a finished job leaves a mark (see :meth:`Jobs.status_of`).
        """
        self._kinds[kind] = _Kind(handler, on_dead, detached, keep_mark)

    # --- rows ----------------------------------------------------------------------------------

    def put(
        self,
        *,
        id: str,  # noqa: A002 - the field's name
        kind: str,
        at_ms: int,
        payload: Any = None,
        lane: str | None = None,
        fifo: bool = False,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        base_delay_ms: int = DEFAULT_BASE_DELAY_MS,
        max_delay_ms: int = DEFAULT_MAX_DELAY_MS,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Store a job and arm the alarm for it; a job with the same id is replaced.

        A job that is running may put its own id again: the new row stands when it ends.

        :param at_ms: when it is due, in ms since 1970; the past means at once.
        :param lane: jobs of one lane run one at a time, in order of ``at_ms`` and then of arrival;
            the default is the kind.
        :param fifo: keep strictly to the order of arrival: a failed job's later neighbours wait.
        :param max_attempts: runs before it becomes a dead letter.
        :param base_delay_ms: wait after the first failure, doubled after each further one.
        :param max_delay_ms: the longest wait between attempts.
        :param timeout_ms: how long one run may take before it counts as failed.
        :raises JobError: an argument is out of range.
        :raises LimitError: the payload is too large for a row.
        """
        check_job_id(id)
        if not kind:
            raise JobError("a job needs a kind")
        figures = (max_attempts, base_delay_ms, max_delay_ms, timeout_ms)
        whole = all(type(figure) is int and figure <= MAX_INTEGER for figure in figures)
        if (
            not whole
            or max_attempts < 1
            or not 0 <= base_delay_ms <= max_delay_ms
            or timeout_ms < 1
        ):
            raise JobError(
                "a job needs whole numbers max_attempts >= 1, 0 <= base_delay_ms <= max_delay_ms "
                f"and timeout_ms >= 1; got {figures!r:.200}"
            )
        at = max(int(at_ms), 1)
        self._store.put(
            Job(
                id=id,
                kind=kind,
                lane=lane or kind,
                at=at,
                fifo=fifo,
                payload=payload,
                status="pending",
                attempts=0,
                interruptions=0,
                max_attempts=max_attempts,
                base_delay_ms=base_delay_ms,
                max_delay_ms=max_delay_ms,
                timeout_ms=timeout_ms,
                created_at=self._host.now(),
                error=None,
                failed_at=None,
            )
        )
        self._arm_by(at)
        self._wake.set()

    def get(self, identifier: str) -> Job | None:
        """The job with this id, of any status."""
        return self._store.get(identifier)

    def status_of(self, identifier: str) -> str | None:
        """``pending``, ``running``, ``dead`` or ``done``; None if there is no such job."""
        return self._store.status_of(identifier)

    def cancel(self, identifier: str) -> bool:
        """Remove a job; whether there was one. One that runs already is not stopped."""
        removed = self._store.delete(identifier)
        if removed and not self._in_run:
            self.arm()
        return removed

    def stop(self, identifier: str) -> bool:
        """Remove a job and, if it runs, cancel its handler; whether there was one."""
        task = self._current.get(identifier)
        removed = self.cancel(identifier)
        if task is not None:
            self._stopped.add(identifier)
            task.cancel()
        return removed or task is not None

    def list(
        self, *, kind: str | None = None, status: str | None = None, limit: int = 1000
    ) -> list[Job]:
        """Jobs in order of their time."""
        return self._store.list(kind=kind, status=status, limit=limit)

    def of_lane(self, lane: str, *, limit: int = 10_000) -> list[Job]:
        """The jobs of a lane that run or wait, in order."""
        running = [job for job in self._store.running() if job.lane == lane]
        return [*running, *self._store.waiting(lane, limit)]

    def counts(self) -> Mapping[str, int]:
        """How many jobs there are of each status."""
        return self._store.counts()

    def count(self, lane: str) -> int:
        """How many jobs of a lane wait or run."""
        return self._store.count(lane)

    def dead_letters(self, *, limit: int = 100) -> list[Job]:
        """Jobs that were given up, newest first."""
        return self._store.dead(limit)

    def retry_dead(self, identifier: str) -> bool:
        """Run a dead letter again at once, its attempts counted anew; whether there was one."""
        job = self._store.get(identifier)
        if job is None or job.status != "dead":
            return False
        at = self._host.now()
        self._store.put(dataclasses.replace(job, at=at))
        self._arm_by(at)
        self._wake.set()
        return True

    def discard_dead(self, identifier: str) -> bool:
        """Forget a dead letter; whether there was one."""
        return self._store.status_of(identifier) == "dead" and self._store.delete(identifier)

    # --- the alarm -----------------------------------------------------------------------------

    @contextmanager
    def lease(self) -> Generator[None]:
        """Keep the object in memory while the block runs: the alarm fires every 30 s."""
        self._leases += 1
        self._arm_by(self._host.now() + WATCHDOG_MS)
        try:
            yield
        finally:
            self._leases -= 1
            if self._leases == 0 and not self._in_run:
                self.arm()

    @property
    def leases(self) -> int:
        """How many leases are held."""
        return self._leases

    @property
    def running(self) -> list[str]:
        """The ids of the jobs that run now."""
        return list(self._current)

    def next_due(self) -> int | None:
        """When the earliest pending job is due, in ms; None if there is none."""
        return min((at for _, at in self._store.heads()), default=None)

    def arm(self) -> None:
        """Arm the alarm for what is due next, or disarm it if nothing is."""
        if self._ended:
            return
        if self._ending:
            self._host.set_alarm(self._host.now())
            return
        due = min(
            (at for lane, at in self._store.heads() if lane not in self._lanes), default=None
        )
        if self._leases or self._lanes:
            # Should the process die, this alarm wakes the object to what was cut short.
            watchdog = self._host.now() + WATCHDOG_MS
            due = watchdog if due is None else min(due, watchdog)
        if due is not None:
            self._host.set_alarm(due)
            self._armed = due
        elif self._armed != 0:
            self._host.delete_alarm()
            self._armed = 0

    def end_with_mark(self, identifier: str) -> None:
        """Begin no further job, store a mark, and arm the alarm for now: the object's end."""
        self._store.insert_mark(identifier, self._host.now())
        self._ending = True
        self.arm()

    def stop_all(self) -> None:
        """Cancel what runs; from now on nothing is read, written or armed: tables may go."""
        self._ended = True
        for task in [*self._lanes.values(), *self._current.values()]:
            task.cancel()

    def _arm_by(self, at: int) -> None:
        """Arm the alarm for ``at`` unless it fires before."""
        self._nothing_waits = False
        if self._ending or self._ended:
            return
        if self._armed is None:
            self.arm()
        elif self._armed == 0 or at < self._armed:
            self._host.set_alarm(at)
            self._armed = at

    def look(self, mark: str) -> Wake:
        """What a waking object must know; jobs that were cut short become pending again."""
        wake = self._store.look(mark)
        if not wake.marked and wake.running:
            self.recover()
        self._recovered = True
        self._nothing_waits = not wake.waiting and not wake.running
        return wake

    def recover(self) -> None:
        """After a wake: jobs that were cut short become pending again. Once per instance."""
        if self._recovered:
            return
        self._recovered = True
        cut_short = [job for job in self._store.running() if job.id not in self._current]
        for job in cut_short:
            if job.interruptions + 1 >= MAX_INTERRUPTIONS:
                self._give_up(job, f"cut short {job.interruptions + 1} times while running", True)
            else:
                self._store.interrupt(job.id, self._host.now())
                self._log("job.interrupted", job)
        if cut_short:
            self.arm()

    async def check_alarm(self) -> None:
        """After a wake: arm the alarm if it is lost or later than what is due."""
        due = None if self._nothing_waits else self.next_due()
        if due is None:
            return
        armed = await self._host.get_alarm()
        if armed is None or armed > due:
            self._host.set_alarm(due)
            armed = due
        self._armed = armed

    def started(self) -> None:
        """The object has started: failed starts are forgotten."""
        self._store.clear_failed_starts()

    async def run_due(self) -> None:
        """Run every job that is due, and those that become due meanwhile; then arm the alarm.

        Lanes run side by side, the jobs of one lane one at a time, in order. A second call while
        one runs only wakes the first. A handler's failure never leaves this method.
        """
        self._armed = 0  # the alarm that fired is spent
        if self._in_run:
            self._wake.set()
            self.arm()
            return
        self._in_run = True
        started = self._host.now()
        try:
            self.recover()
            while not self._ending and self._host.now() - started < RUN_BUDGET_MS:
                self._wake.clear()
                self._begin_due()
                if not self._attached:
                    break
                await self._wait_for_change(started + RUN_BUDGET_MS)
        finally:
            self._in_run = False
            self.arm()

    def _begin_due(self) -> None:
        if self._ending or self._ended:
            return
        now = self._host.now()
        begun = False
        for lane, at in self._store.heads():
            job = None if at > now or lane in self._lanes else self._store.head(lane)
            if job is None:
                continue
            kind = self._kinds.get(job.kind)
            if kind is None or not kind.detached:
                self._attached.add(lane)
            self._lanes[lane] = self._host.spawn(self._run_lane(lane), name=f"jobs:{lane}")
            begun = True
        if begun:
            self.arm()

    async def _wait_for_change(self, until: int) -> None:
        """Until a lane ends, a job is put, or the next pending job is due."""
        now = self._host.now()
        idle = [at for lane, at in self._store.heads() if lane not in self._lanes]
        seconds = max((min([until, *idle]) - now) / 1000, 0.005)
        waker = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait(
                [waker, *(self._lanes[lane] for lane in self._attached)],
                timeout=seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waker.cancel()

    async def _run_lane(self, lane: str) -> None:
        started = self._host.now()
        try:
            while not self._ending and self._host.now() - started < RUN_BUDGET_MS:
                job = self._store.head(lane)
                if job is None or job.at > self._host.now():
                    return
                await self._run_one(job)
        finally:
            del self._lanes[lane]
            self._attached.discard(lane)
            self._wake.set()
            if not self._in_run:
                self.arm()

    async def _run_one(self, job: Job) -> None:
        self._store.begin(job.id, self._host.now())
        # Let the mark reach the disk before user code runs: a handler that kills the isolate
        # must find its attempt counted.
        await asyncio.sleep(0)
        begun = None if self._ended else self._store.get(job.id)
        if begun is None or begun.status != "running":
            return  # cancelled or replaced in between
        task = asyncio.ensure_future(self._handle(begun))
        self._current[job.id] = task
        try:
            await task
        finally:
            self._current.pop(job.id, None)
            self._stopped.discard(job.id)

    async def _handle(self, job: Job) -> None:
        try:
            kind = self._kinds.get(job.kind)
            if kind is None:
                raise JobError(f"no handler is registered for jobs of kind {job.kind!r}")
            async with asyncio.timeout(job.timeout_ms / 1000):
                outcome = await kind.handler(job)
        except GiveUp as error:
            self.failed += 1
            self._give_up(job, describe(error), True)
        except asyncio.CancelledError as error:
            if job.id in self._stopped or self._ended:
                return
            if asked_to_end():
                raise  # the instance is going down: the next one runs the job again
            self._failed(job, describe(error))
        except Exception as error:
            self._failed(job, describe(error))
        except BaseException as error:
            self._failed(job, describe(error))  # out of CPU time, say: the row must not hang
            raise
        else:
            self.completed += 1
            self._finish(job, kind, outcome)

    def _finish(self, job: Job, kind: _Kind, outcome: Postpone | None) -> None:
        if self._store.status_of(job.id) != "running":
            return  # cancelled, or put anew by its own handler: that row stands
        if outcome is not None:
            self._put_again(job, outcome)
        elif kind.keep_mark is not None and kind.keep_mark(job):
            self._store.mark_done(job.id, self._host.now())
            if crc32(job.id.encode()) % 100 == 0:  # counting every time would read every mark
                self._store.prune("done", MAX_DONE_MARKS)
        else:
            self._store.delete(job.id)

    def _put_again(self, job: Job, outcome: Postpone) -> None:
        payload = job.payload if outcome.payload is _SAME else outcome.payload
        self._store.put(dataclasses.replace(job, at=max(outcome.at, 1), payload=payload))

    def _failed(self, job: Job, error: str) -> None:
        self.failed += 1
        if self._store.status_of(job.id) != "running":
            return
        if job.attempts >= job.max_attempts:
            self._give_up(job, error, False)
            return
        delay = min(job.base_delay_ms * 2 ** min(job.attempts - 1, 30), job.max_delay_ms)
        self._store.postpone(job.id, self._host.now() + delay, error)
        self._log("job.failed", job, error=error.partition(":")[0], retry_in_ms=delay)

    def _give_up(self, job: Job, error: str, final: bool) -> None:
        if self._store.status_of(job.id) != "running":
            return
        now = self._host.now()
        self._log("job.dead", job, error=error.partition(":")[0])
        kind = self._kinds.get(job.kind)
        outcome = kind.on_dead(job, error, final) if kind and kind.on_dead else None
        if outcome is None:
            self._store.bury(job.id, now, error)
        else:
            letter = f"{job.id[: MAX_JOB_ID_LENGTH - 20]}@{now}"
            self._store.put(dataclasses.replace(job, id=letter))
            self._store.bury(letter, now, error)
            self._put_again(job, outcome)
        self._store.prune("dead", MAX_DEAD_LETTERS)

    def _log(self, event: str, job: Job, **fields: Any) -> None:
        self._host.log(
            {"event": event, "job": job.id, "kind": job.kind, "attempt": job.attempts, **fields}
        )


def check_job_id(identifier: Any) -> None:
    """Refuse what cannot be the id of a job.

    :raises JobError: it is no text, empty or too long.
    """
    if not isinstance(identifier, str) or not 0 < len(identifier) <= MAX_JOB_ID_LENGTH:
        raise JobError(
            f"a job id is a text of 1 to {MAX_JOB_ID_LENGTH} characters: {identifier!r:.80}"
        )


def describe(error: BaseException) -> str:
    """An error's class and text, at most 500 characters, without a traceback."""
    text, name = error_words(error), type(error).__name__
    return (text if isinstance(error, GiveUp) or text == name else f"{name}: {text}")[:500]


def rearm_after_failed_start(host: Host) -> int | None:
    """The object could not start when its alarm fired: arm it again, later each time.

    Without this the platform would drop the alarm after six failures, and with it every job.

    :returns: the time it is armed for, in ms since 1970; None if the object has no jobs.
    """
    if not has_job_tables(host.sql):
        return None
    failures = JobStore(host.sql).count_failed_start()
    at = host.now() + min(DEFAULT_BASE_DELAY_MS * 2 ** min(failures - 1, 30), DEFAULT_MAX_DELAY_MS)
    host.set_alarm(at)
    return at
