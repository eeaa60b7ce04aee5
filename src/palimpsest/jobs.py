"""Durable jobs: many of them on the object's one alarm.

A job is a row with a time, a kind and a JSON payload. The alarm is always armed for the earliest
job; when it fires, :meth:`Jobs.run_due` runs what is due through the handler registered for its
kind. Delivery is at least once: the row is marked before the handler is called and removed after
it returned, so a crash in between runs it again. Failures back off and end as dead letters, which
stay visible; nothing loops for ever, and no alarm is armed while nothing is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from palimpsest.errors import JobError
from palimpsest.hosts.interface import Host, host_of
from palimpsest.store.jobs import MAX_JOB_ID_LENGTH, Job, JobStore

__all__ = ["Job", "JobHandler", "Jobs", "Postpone", "Repeat"]

DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_BASE_DELAY_MS = 2_000
DEFAULT_MAX_DELAY_MS = 300_000
DEFAULT_TIMEOUT_MS = 600_000
"""How long a handler may run: well inside the platform's 15 minutes for one alarm."""

MAX_INTERRUPTIONS = 5
"""How often a job may be cut short by eviction or a crash before it is a dead letter."""

MAX_DEAD_LETTERS = 1_000
"""How many dead letters are kept; the oldest go first."""

WATCHDOG_MS = 30_000
"""While jobs run or a lease is held, the alarm is armed this far ahead, in ms."""

RUN_BUDGET_MS = 600_000
"""After this time one alarm begins no further job and leaves the rest to the next alarm."""


class Postpone:
    """Returned by a handler: run this same job again at ``at`` (ms), with ``payload`` if given.

    The attempts are counted anew: it is a planned repetition, not a failure.
    """

    __slots__ = ("at", "payload", "payload_given")

    def __init__(self, at: int, *, payload: Any = ...) -> None:
        self.at = at
        self.payload_given = payload is not ...
        self.payload = None if payload is ... else payload


Repeat = Postpone
JobHandler = Callable[[Job], Awaitable["Postpone | None"]]
FailureHandler = Callable[[Job, str], "Postpone | None"]


class Jobs:
    """The durable jobs of one object; use :meth:`of`, there is one per host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._store = JobStore(host.sql)
        self._handlers: dict[str, JobHandler] = {}
        self._on_dead: dict[str, FailureHandler] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._busy_lanes: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._in_run = False
        self._leases = 0
        self._armed: int | None = None
        self._recovered = False
        self.completed = 0
        self.failed = 0

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
        self, kind: str, handler: JobHandler, *, on_dead: FailureHandler | None = None
    ) -> None:
        """Give the handler for a kind; registering again replaces it.

        :param on_dead: told (job, error text) when a job would become a dead letter; may return a
            :class:`Postpone` to keep the job going, after which a copy is kept as dead letter.
        """
        self._handlers[kind] = handler
        if on_dead is None:
            self._on_dead.pop(kind, None)
        else:
            self._on_dead[kind] = on_dead

    # --- rows ----------------------------------------------------------------------------------

    def put(
        self,
        *,
        id: str,  # noqa: A002 - the field's name
        kind: str,
        at_ms: int,
        payload: Any = None,
        lane: str | None = None,
        max_attempts: int = DEFAULT_MAX_ATTEMPTS,
        base_delay_ms: int = DEFAULT_BASE_DELAY_MS,
        max_delay_ms: int = DEFAULT_MAX_DELAY_MS,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        """Store a job and arm the alarm for it; a job with the same id is replaced.

        A job that is running may put its own id again: the new row stands when it ends.

        :param at_ms: when it is due, in ms since 1970; the past means at once.
        :param lane: jobs of one lane run one at a time, in order; the default is the kind.
        :param max_attempts: runs before it becomes a dead letter.
        :param base_delay_ms: wait after the first failure, doubled after each further one.
        :param max_delay_ms: the longest wait between attempts.
        :param timeout_ms: how long one run may take before it counts as failed.
        :raises JobError: an argument is out of range.
        :raises LimitError: the payload is too large for a row.
        """
        if not id or len(id) > MAX_JOB_ID_LENGTH:
            raise JobError(f"a job id has 1 to {MAX_JOB_ID_LENGTH} characters: {id!r:.80}")
        if not kind:
            raise JobError("a job needs a kind")
        if max_attempts < 1 or base_delay_ms < 0 or max_delay_ms < base_delay_ms or timeout_ms < 1:
            raise JobError(
                "a job needs max_attempts >= 1, 0 <= base_delay_ms <= max_delay_ms and "
                f"timeout_ms >= 1; got {max_attempts}, {base_delay_ms}, {max_delay_ms}, "
                f"{timeout_ms}"
            )
        now = self._host.now()
        self._store.put(
            id=id,
            kind=kind,
            lane=lane or kind,
            at=max(int(at_ms), 1),
            payload=payload,
            max_attempts=max_attempts,
            base_delay_ms=base_delay_ms,
            max_delay_ms=max_delay_ms,
            timeout_ms=timeout_ms,
            created_at=now,
        )
        self._arm_by(max(int(at_ms), 1))
        self._wake.set()

    def get(self, identifier: str) -> Job | None:
        """The job with this id, pending, running or dead."""
        return self._store.get(identifier)

    def cancel(self, identifier: str) -> bool:
        """Remove a job; whether there was one. One that runs already is not stopped."""
        removed = self._store.delete(identifier)
        if removed and not self._in_run:
            self.arm()
        return removed

    def list(
        self, *, kind: str | None = None, status: str | None = None, limit: int = 1000
    ) -> list[Job]:
        """Jobs in order of their time."""
        return self._store.list(kind=kind, status=status, limit=limit)

    def counts(self) -> Mapping[str, int]:
        """How many jobs there are of each status."""
        return self._store.counts()

    def dead_letters(self, *, limit: int = 100) -> list[Job]:
        """Jobs that were given up, newest first."""
        return self._store.list(kind=None, status="dead", limit=limit, newest_first=True)

    def retry_dead(self, identifier: str) -> bool:
        """Run a dead letter again at once, its attempts counted anew; whether there was one."""
        job = self._store.get(identifier)
        if job is None or job.status != "dead":
            return False
        self.put(
            id=job.id,
            kind=job.kind,
            at_ms=self._host.now(),
            payload=job.payload,
            lane=job.lane,
            max_attempts=job.max_attempts,
            base_delay_ms=job.base_delay_ms,
            max_delay_ms=job.max_delay_ms,
            timeout_ms=job.timeout_ms,
        )
        return True

    def discard_dead(self, identifier: str) -> bool:
        """Forget a dead letter; whether there was one."""
        job = self._store.get(identifier)
        return job is not None and job.status == "dead" and self._store.delete(identifier)

    # --- the alarm -----------------------------------------------------------------------------

    @contextmanager
    def lease(self) -> Iterator[None]:
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

    def next_due(self) -> int | None:
        """When the earliest pending job is due, in ms; None if there is none."""
        heads = self._store.heads()
        return min(at for _, at in heads) if heads else None

    def arm(self) -> None:
        """Arm the alarm for what is due next, or disarm it if nothing is."""
        due = self.next_due()
        if self._leases or self._running:
            watchdog = self._host.now() + WATCHDOG_MS
            due = watchdog if due is None else min(due, watchdog)
        if due is None:
            if self._armed != 0:
                self._host.delete_alarm()
            self._armed = 0
        else:
            self._host.set_alarm(due)
            self._armed = due

    def _arm_by(self, at: int) -> None:
        """Arm the alarm for ``at`` unless it is known to fire before."""
        if not self._recovered:
            self.arm()
        elif self._armed is None or self._armed == 0 or at < self._armed:
            self._host.set_alarm(at)
            self._armed = at

    def recover(self) -> None:
        """After a wake: jobs that were cut short become pending again. Once per instance."""
        if self._recovered:
            return
        self._recovered = True
        self._store.clear_failed_starts()
        now = self._host.now()
        for job in self._store.running():
            if job.id in self._running:
                continue
            if job.interruptions + 1 >= MAX_INTERRUPTIONS:
                self._give_up(job, f"interrupted {job.interruptions + 1} times while running")
            else:
                self._store.interrupt(job.id, now)
                self._log("job.interrupted", job)

    async def run_due(self) -> None:
        """Run every job that is due, and those that become due meanwhile; then arm the alarm.

        Lanes run side by side, the jobs of one lane one at a time in order of their time. A second
        call while one runs only wakes the first. Handlers' failures never leave this method.
        """
        self._armed = 0
        if self._in_run:
            self._wake.set()
            self.arm()
            return
        self._in_run = True
        started = self._host.now()
        try:
            self.recover()
            while True:
                self._wake.clear()
                if self._host.now() - started < RUN_BUDGET_MS:
                    self._begin_due()
                if not self._running:
                    break
                await self._wait_for_change()
        finally:
            self._in_run = False
            self.arm()

    def _begin_due(self) -> None:
        now = self._host.now()
        for lane, at in self._store.heads():
            if at > now or lane in self._busy_lanes:
                continue
            self._busy_lanes[lane] = ""
            task = self._host.spawn(self._run_lane(lane), name=f"jobs:{lane}")
            self._running[lane] = task
        if self._running and (self._armed or 0) <= now:
            # Should the process die now, this alarm finds the jobs marked as running.
            self._host.set_alarm(now + WATCHDOG_MS)
            self._armed = now + WATCHDOG_MS

    async def _wait_for_change(self) -> None:
        """Until a lane ends, a job is put, or the next pending job is due."""
        now = self._host.now()
        idle = [at for lane, at in self._store.heads() if lane not in self._busy_lanes]
        seconds = min((at - now) / 1000 for at in idle) if idle else None
        waker = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait(
                [waker, *self._running.values()],
                timeout=None if seconds is None else max(seconds, 0.01),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            waker.cancel()

    async def _run_lane(self, lane: str) -> None:
        started = self._host.now()
        try:
            while self._host.now() - started < RUN_BUDGET_MS:
                job = self._store.head(lane)
                if job is None or job.at > self._host.now():
                    return
                await self._run_one(job)
        finally:
            self._busy_lanes.pop(lane, None)
            self._running.pop(lane, None)
            self._wake.set()

    async def _run_one(self, job: Job) -> None:
        self._store.begin(job.id, self._host.now())
        self._busy_lanes[job.lane] = job.id
        # Let the mark reach the disk before user code runs: a handler that kills the isolate
        # must find its attempt counted.
        await asyncio.sleep(0)
        current = self._store.get(job.id)
        if current is None or current.status != "running":
            return  # cancelled or replaced in between
        outcome: Postpone | None = None
        try:
            handler = self._handlers.get(job.kind)
            if handler is None:
                raise JobError(f"no handler is registered for jobs of kind {job.kind!r}")
            async with asyncio.timeout(job.timeout_ms / 1000):
                outcome = await handler(current)
        except Exception as error:
            self._failed(current, describe(error))
            return
        self.completed += 1
        self._finish(current, outcome)

    def _finish(self, job: Job, outcome: Postpone | None) -> None:
        stored = self._store.get(job.id)
        if stored is None or stored.status != "running":
            return  # cancelled, or put anew by its own handler: that row stands
        if outcome is None:
            self._store.delete(job.id)
        else:
            self._put_again(job, outcome)

    def _put_again(self, job: Job, outcome: Postpone) -> None:
        self._store.put(
            id=job.id,
            kind=job.kind,
            lane=job.lane,
            at=max(outcome.at, 1),
            payload=outcome.payload if outcome.payload_given else job.payload,
            max_attempts=job.max_attempts,
            base_delay_ms=job.base_delay_ms,
            max_delay_ms=job.max_delay_ms,
            timeout_ms=job.timeout_ms,
            created_at=job.created_at,
        )

    def _failed(self, job: Job, error: str) -> None:
        self.failed += 1
        stored = self._store.get(job.id)
        if stored is None or stored.status != "running":
            return
        if job.attempts >= job.max_attempts:
            self._give_up(job, error)
            return
        delay = min(job.base_delay_ms * 2 ** min(job.attempts - 1, 30), job.max_delay_ms)
        self._store.postpone(job.id, self._host.now() + delay, error)
        self._log("job.failed", job, error=error, retry_in_ms=delay)

    def _give_up(self, job: Job, error: str) -> None:
        now = self._host.now()
        self._log("job.dead", job, error=error)
        hook = self._on_dead.get(job.kind)
        outcome = None if hook is None else hook(job, error)
        if outcome is None:
            self._store.bury(job.id, now, error)
        else:
            letter = f"{job.id}@{job.at}"
            self._store.put(
                id=letter,
                kind=job.kind,
                lane=job.lane,
                at=job.at,
                payload=job.payload,
                max_attempts=job.max_attempts,
                base_delay_ms=job.base_delay_ms,
                max_delay_ms=job.max_delay_ms,
                timeout_ms=job.timeout_ms,
                created_at=job.created_at,
            )
            self._store.bury(letter, now, error)
            self._put_again(job, outcome)
        self._store.prune_dead(MAX_DEAD_LETTERS)

    def _log(self, event: str, job: Job, **fields: Any) -> None:
        self._host.log(
            {"event": event, "job": job.id, "kind": job.kind, "attempt": job.attempts, **fields}
        )


def describe(error: BaseException) -> str:
    """An error's class and text, at most 500 characters, without a traceback."""
    text = str(error)
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:500]


def rearm_after_failed_start(host: Host) -> int:
    """The object could not start when its alarm fired: arm it again, later each time.

    Without this the platform would drop the alarm after six failures, and with it every job.

    :returns: the time it is armed for, in ms since 1970.
    """
    failures = JobStore(host.sql).count_failed_start()
    at = host.now() + min(DEFAULT_BASE_DELAY_MS * 2 ** min(failures - 1, 30), DEFAULT_MAX_DELAY_MS)
    host.set_alarm(at)
    return at
