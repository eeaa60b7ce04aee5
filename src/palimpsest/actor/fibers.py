"""Fibers: named long work that survives eviction, with a stash that is offered back.

A *durable* fiber is a method of the agent and its payload. It runs in the background as a job of
its own; after an eviction or crash it is run again, and finds in ``fiber.snapshot`` what it had
stashed. An *inline* fiber is any function: after an eviction nobody can run it again, so it is
offered to the hook ``on_fiber_recovered`` and then marked as interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from palimpsest.actor.callables import to_json
from palimpsest.actor.callbacks import Callback, callback_name, named_id, run_callback
from palimpsest.actor.current import working
from palimpsest.actor.hooks import settle
from palimpsest.errors import JobError
from palimpsest.jobs import GiveUp, Job, Postpone, describe
from palimpsest.store.fibers import LIVE, FiberRecord, FiberStore

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent

KIND = "fiber"
_PREFIX = "fiber:"

MAX_KEPT = 1_000
"""How many ended fibers are kept for inspection; the oldest go first."""

MAX_FIBER_MS = 24 * 3_600_000
"""How long a durable fiber may run in one piece, in ms."""


def fiber_id(job_id: str) -> str:
    """The fiber whose job it is."""
    return job_id.removeprefix(_PREFIX)


class Fiber:
    """What the work of a fiber is given."""

    def __init__(self, store: FiberStore, record: FiberRecord) -> None:
        self._store = store
        self.id = record.id
        self.name = record.name
        self.payload = record.payload
        self.snapshot = record.snapshot
        """What was stashed last, also before an eviction; None at first."""
        self.recoveries = record.recoveries
        """How often the work was cut short before this run."""

    def stash(self, snapshot: Any) -> None:
        """Keep a JSON value that the work can go on from, replacing the last one.

        :raises LimitError: it is larger than a row may be.
        """
        self._store.stash(self.id, snapshot)
        self.snapshot = snapshot


class Fibers:
    """The fibers of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._jobs = agent.jobs
        self._store = FiberStore(agent.host.sql)
        self._inline: dict[str, asyncio.Task[Any]] = {}
        self._jobs.register(KIND, self._run, on_dead=self._on_dead, detached=True)

    def start(
        self, callback: Callback, payload: Any = None, *, id: str | None = None  # noqa: A002
    ) -> FiberRecord:
        """Start a durable fiber: see :meth:`palimpsest.actor.agent.Agent.start_fiber`."""
        name = callback_name(self._agent, callback)
        identifier = named_id(_PREFIX, id) or self._agent.host.random_id()
        existing = self._store.get(identifier)
        if existing is not None and existing.status in (*LIVE, "completed"):
            return existing
        now = self._agent.host.now()
        self._store.insert(
            identifier, name=name, payload=payload, durable=True, status="pending", now=now
        )
        self._jobs.put(
            id=_PREFIX + identifier,
            kind=KIND,
            lane=_PREFIX + identifier,
            at_ms=now,
            payload=None,
            max_attempts=1,
            timeout_ms=MAX_FIBER_MS,
        )
        return self._stored(identifier)

    async def run(
        self, name: str, work: Callable[[Fiber], Awaitable[Any]], payload: Any = None
    ) -> Any:
        """Run an inline fiber: see :meth:`palimpsest.actor.agent.Agent.run_fiber`."""
        if not name:
            raise JobError("a fiber needs a name")
        identifier = self._agent.host.random_id()
        self._store.insert(
            identifier,
            name=name,
            payload=payload,
            durable=False,
            status="running",
            now=self._agent.host.now(),
        )
        fiber = Fiber(self._store, self._stored(identifier))
        try:
            task = self._inline[identifier] = asyncio.ensure_future(work(fiber))
            with self._jobs.lease():
                result = await task
            # Only what could be stored has ended well: a fiber marked as running is offered again.
            self._end(identifier, "completed", result=to_json(name, result))
        except asyncio.CancelledError:
            self._end(identifier, "aborted")
            raise
        except Exception as error:
            self._end(identifier, "error", error=describe(error))
            raise
        finally:
            self._inline.pop(identifier, None)
        return result

    def get(self, identifier: str) -> FiberRecord | None:
        """The fiber with this id, also after it has ended."""
        return self._store.get(identifier)

    def list(self, *, status: str | None = None, limit: int = 1000) -> list[FiberRecord]:
        """Fibers, oldest first."""
        return self._store.list(status=status, limit=limit)

    def cancel(self, identifier: str) -> bool:
        """Stop a fiber that has not ended; whether there was one."""
        record = self._store.get(identifier)
        if record is None or record.status not in LIVE:
            return False
        self._end(identifier, "aborted")
        self._jobs.stop(_PREFIX + identifier)
        if identifier in self._inline:
            self._inline[identifier].cancel()
        return True

    def delete(self, identifier: str) -> bool:
        """Forget a fiber that has ended; whether there was one."""
        return self._store.delete(identifier)

    def counts(self) -> dict[str, int]:
        """How many fibers there are of each status."""
        return self._store.counts()

    async def recover(self) -> None:
        """After a wake: offer inline fibers that were cut short to ``on_fiber_recovered``."""
        for record in self._store.orphans():
            self._store.begin(record.id, record.recoveries + 1)
            fiber = Fiber(self._store, self._stored(record.id))
            self._end(record.id, "interrupted")
            self._agent.events.emit("fiber.interrupted", fiber=record.id, work=record.name)
            try:
                with working(self._agent):
                    await settle(self._agent.on_fiber_recovered(fiber))
            except Exception as error:
                await self._agent.report("on_fiber_recovered.failed", error)

    # --- durable fibers as jobs ----------------------------------------------------------------

    async def _run(self, job: Job) -> Postpone | None:
        identifier = job.id.removeprefix(_PREFIX)
        record = self._store.get(identifier)
        if record is None or record.status in ("aborted", "completed"):
            return  # any other status that is not live is that of a dead letter that is run again
        self._store.begin(identifier, job.interruptions)
        fiber = Fiber(self._store, self._stored(identifier))
        with working(self._agent):
            if job.interruptions and await settle(self._agent.on_fiber_recovered(fiber)) is False:
                self._end(identifier, "interrupted")
                return
            try:
                result = await run_callback(self._agent, record.name, fiber)
            except Exception as error:
                if not isinstance(error, GiveUp):
                    self._agent.events.failure("fiber.failed", error, fiber=identifier)
                raise GiveUp(describe(error)) from error
        self._end(identifier, "completed", result=to_json(record.name, result))

    def _on_dead(self, job: Job, error: str, final: bool) -> None:
        identifier = job.id.removeprefix(_PREFIX)
        cut_short = error.startswith("cut short")
        self._end(identifier, "interrupted" if cut_short else "error", error=error)

    def _end(
        self, identifier: str, status: str, *, result: Any = None, error: str | None = None
    ) -> None:
        self._store.end(identifier, status, self._agent.host.now(), result=result, error=error)
        self._store.prune(MAX_KEPT)

    def _stored(self, identifier: str) -> FiberRecord:
        record = self._store.get(identifier)
        if record is None:
            raise JobError(f"fiber {identifier!r} was deleted")
        return record
