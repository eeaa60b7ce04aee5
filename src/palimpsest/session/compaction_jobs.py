"""Compactions as durable jobs: one kind for all sessions of an object.

An alarm may wake an object that nobody has asked for a session yet. Sessions therefore say at
configuration how their engine is made, and the job makes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from palimpsest.hosts.interface import Host
from palimpsest.jobs import Job, Jobs, Postpone
from palimpsest.store.compaction_state import CompactionStateStore

JOB_KIND = "session.compaction"
"""The kind of all compaction jobs; the payload is ``{"session": id}``."""

_SHARED_NAME = "session.compactions"
_CRASH_PAUSE_MS = 3_600_000
_MAX_ATTEMPTS = 3
_TIMEOUT_MS = 780_000


class JobRunner(Protocol):
    """What the job calls."""

    async def run_job(self) -> int | None:
        """Compact if it is still due; the time to try again (ms since 1970), or None."""
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
        identifier = job_id(session_id)
        if self._jobs.status_of(identifier) in ("pending", "running"):
            return
        self._jobs.put(
            id=identifier,
            kind=JOB_KIND,
            at_ms=at,
            payload={"session": session_id},
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
        again = await engine.run_job()
        return None if again is None else Postpone(again)

    def _crashed(self, job: Job, error: str, final: bool) -> Postpone | None:
        """The job was cut short or failed too often: leave it alone for an hour, then once more."""
        return Postpone(self._host.now() + _CRASH_PAUSE_MS)


def job_id(session_id: str) -> str:
    """The id of a session's compaction job."""
    return f"compaction:{session_id}"
