"""Compactions as durable jobs: one kind for all sessions of an object.

An alarm may wake an object that nobody has asked for a session yet. Sessions therefore say at
configuration how their engine is made, and the job makes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from palimpsest.hosts.interface import Host
from palimpsest.jobs import Job, Jobs, Postpone
from palimpsest.store.compaction_state import CompactionStateStore

JOB_KIND = "session.compaction"
"""The kind of all compaction jobs; the payload is ``{"session": id}``.

``"remaining": tokens`` stands for a compaction of which a step is done and so much is left: it goes
on whatever the trigger says. ``"leaf": id`` names its branch, where that is not the active one.
"""

_SHARED_NAME = "session.compactions"
_CRASH_PAUSE_MS = 3_600_000
_MAX_ATTEMPTS = 3
_TIMEOUT_MS = 780_000


class JobRunner(Protocol):
    """What the job calls."""

    async def run_job(self, continues: bool = False, leaf_id: str | None = None) -> int | None:
        """Compact if it is still due; the time to try again (ms since 1970), or None.

        :param continues: whether a compaction that was begun goes on.
        :param leaf_id: the branch that it is for; None for the active one.
        """
        ...


class CompactionJobs:
    """The compaction jobs of one object."""

    def __init__(self, host: Host, jobs: Jobs) -> None:
        self._host = host
        self._jobs = jobs
        self.state = CompactionStateStore(host.sql)
        self.state.open()
        self._engines: dict[str, Callable[[], JobRunner | None]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.resolver: Callable[[str], JobRunner | None] | None = None
        """Makes the engine of a session that was not configured in this instance."""
        jobs.register(JOB_KIND, self._handle, on_dead=self._crashed)

    @classmethod
    def of(cls, host: Host) -> CompactionJobs:
        """The one of this object, made on first use."""
        jobs = Jobs.of(host)
        found = jobs.shared.get(_SHARED_NAME)
        if found is None:
            found = jobs.shared[_SHARED_NAME] = cls(host, jobs)
        return found

    def add(self, session_id: str, engine: Callable[[], JobRunner | None]) -> None:
        """Say how the engine of a session is made; a later call replaces an earlier."""
        self._engines[session_id] = engine

    def lock(self, session_id: str) -> asyncio.Lock:
        """Held while a session is compacted: one compaction at a time, whoever asks."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    def put(self, session_id: str, at: int) -> None:
        """Schedule a session's compaction, unless it is scheduled or running already."""
        if not self.is_scheduled(session_id):
            self._put(session_id, at, {})

    def put_next_step(self, session_id: str, at: int, remaining: int, leaf_id: str | None) -> None:
        """Schedule the next step of a compaction; joins the transaction that stores the last one.

        :param remaining: tokens that are left to be summarized.
        :param at: later than the running job's end, so that the step has an alarm, and with it
            the CPU time, of its own.
        """
        leaf = {} if leaf_id is None else {"leaf": leaf_id}
        self._put(session_id, at, {"remaining": remaining, **leaf})

    def end_steps(self, session_id: str, at: int) -> None:
        """What was to go on is complete: the job only looks whether a compaction is due."""
        if self.remaining(session_id):
            self._put(session_id, at, {})

    def remaining(self, session_id: str) -> int:
        """Tokens that are left for further steps of a compaction that was begun; 0 without one."""
        if not self.is_scheduled(session_id):
            return 0
        job = self._jobs.get(job_id(session_id))
        return 0 if job is None else int(job.payload.get("remaining", 0))

    def _put(self, session_id: str, at: int, more: dict[str, Any]) -> None:
        identifier = job_id(session_id)
        self._jobs.put(
            id=identifier,
            kind=JOB_KIND,
            at_ms=at,
            payload={"session": session_id, **more},
            lane=identifier,
            max_attempts=_MAX_ATTEMPTS,
            timeout_ms=_TIMEOUT_MS,
        )

    def is_scheduled(self, session_id: str) -> bool:
        """Whether a compaction waits for its time or runs."""
        return self._jobs.status_of(job_id(session_id)) in ("pending", "running")

    def forget(self, session_id: str) -> None:
        """Drop a session's engine state and job; joins the caller's transaction."""
        self.state.delete(session_id)
        self._jobs.cancel(job_id(session_id))

    async def _handle(self, job: Job) -> Postpone | None:
        session_id = str(job.payload["session"])
        make = self._engines.get(session_id)
        engine = make() if make else None
        if engine is None and self.resolver is not None:
            engine = self.resolver(session_id)
        if engine is None:
            # The next write of the session schedules it anew.
            self._host.log({"event": "compaction.no_session", "session": session_id})
            return None
        again = await engine.run_job("remaining" in job.payload, job.payload.get("leaf"))
        return None if again is None else Postpone(again)

    def _crashed(self, job: Job, error: str, final: bool) -> Postpone | None:
        """The job was cut short or failed too often: leave it alone for an hour, then once more."""
        return Postpone(self._host.now() + _CRASH_PAUSE_MS)


def job_id(session_id: str) -> str:
    """The id of a session's compaction job."""
    return f"compaction:{session_id}"
