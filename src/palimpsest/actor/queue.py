"""A durable first-in, first-out queue of method calls, one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palimpsest.actor.callbacks import Callback, callback_name, named_id, run_callback
from palimpsest.actor.current import working
from palimpsest.actor.timing import timeout_ms
from palimpsest.jobs import Job

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent

KIND = "queue"
_PREFIX = "queue:"


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One item of the queue; ``created_at`` is in ms since 1970."""

    id: str
    callback: str
    payload: Any
    created_at: int
    status: str
    """``pending``, ``running`` or ``dead``."""
    attempts: int
    error: str | None


class Queue:
    """The queue of one agent.

    Order is strict: while an item that failed waits for its next attempt, later items wait too.
    After its last attempt it is kept as a dead letter and the queue goes on.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._jobs = agent.jobs
        self._jobs.register(KIND, self._run)

    def add(
        self,
        callback: Callback,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        max_attempts: int = 3,
        base_delay_ms: int = 2_000,
        timeout_seconds: float = 600,
    ) -> str:
        """Append a call: see :meth:`palimpsest.actor.agent.Agent.queue`."""
        name = callback_name(self._agent, callback)
        identifier = named_id(_PREFIX, id) or self._agent.host.random_id()
        if id is not None and self._jobs.status_of(_PREFIX + id) in ("pending", "running"):
            return id
        self._jobs.put(
            id=_PREFIX + identifier,
            kind=KIND,
            fifo=True,
            at_ms=self._agent.host.now(),
            payload={"callback": name, "payload": payload},
            max_attempts=max_attempts,
            base_delay_ms=base_delay_ms,
            timeout_ms=timeout_ms(timeout_seconds),
        )
        return identifier

    def adopt(self, identifier: str, name: str, payload: Any) -> None:
        """Append an item that was queued elsewhere."""
        self._jobs.put(
            id=_PREFIX + identifier,
            kind=KIND,
            fifo=True,
            at_ms=self._agent.host.now(),
            payload={"callback": name, "payload": payload},
        )

    def list(self, *, limit: int = 1000) -> list[QueueItem]:
        """The items that run or wait, in order."""
        return [_item(job) for job in self._jobs.of_lane(KIND, limit=limit)]

    def remove(self, identifier: str) -> bool:
        """Take an item out; whether it was there. One that runs goes on to its end."""
        return self._jobs.cancel(_PREFIX + identifier)

    def clear(self) -> int:
        """Take out all items that wait; how many."""
        return sum(self.remove(item.id) for item in self.list(limit=1_000_000_000))

    async def _run(self, job: Job) -> None:
        content = job.payload
        with working(self._agent):
            await run_callback(self._agent, content["callback"], content["payload"], _item(job))


def _item(job: Job) -> QueueItem:
    return QueueItem(
        id=job.id.removeprefix(_PREFIX),
        callback=job.payload["callback"],
        payload=job.payload["payload"],
        created_at=job.created_at,
        status=job.status,
        attempts=job.attempts,
        error=job.error,
    )
