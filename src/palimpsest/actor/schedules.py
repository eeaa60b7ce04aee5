"""Schedules: methods that run once after a delay or at a date, or again and again.

All live as durable jobs on the object's one alarm, in one lane: due schedules run one after the
other, in order of their time. The rules:

- *At least once.* A run that fails is tried again with back-off; after its last attempt it is kept
  as a dead letter. A recurring schedule goes on with its next time.
- *Overlap.* A schedule never overlaps itself: what falls due while it runs is merged.
- *Catching up.* After downtime a recurring schedule runs once for all that it missed
  (``catch_up="once"``), once for each missed time (``"all"``), or not at all (``"skip"``).
- *Declared again.* A cron or interval schedule with the same method, timing and payload is the same
  schedule, and so is any that names its own ``id``. In ``on_start`` this holds for one-time ones
  too: they run once, however often the object wakes.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from palimpsest.actor.callbacks import Callback, callback_name, named_id, run_callback
from palimpsest.actor.current import working
from palimpsest.actor.timing import interval_ms, next_cron, next_tick, timeout_ms
from palimpsest.errors import JobError
from palimpsest.jobs import Job, Postpone
from palimpsest.messages import dump_json
from palimpsest.store.jobs import encode_payload

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent

KIND = "schedule"
_PREFIX = "schedule:"

CatchUp = Literal["once", "all", "skip"]
SKIP_GRACE_MS = 60_000
"""With ``catch_up="skip"``, a time that is missed by more than this does not run, in ms."""

MAX_DELAY_SECONDS = 3_153_600_000
"""The longest delay: 100 years."""

MAX_COUNTED_MISSES = 100
"""How many missed times of a cron line are counted; more are passed over without counting."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule. Times are in ms since 1970 (UTC), durations in seconds."""

    id: str
    type: str
    """``delayed``, ``scheduled`` (a date), ``cron`` or ``interval``."""
    callback: str
    payload: Any
    at_ms: int
    """When it runs next (or ran, or would have run)."""
    status: str
    """``pending``, ``running``, ``dead`` (given up), ``done`` or ``past``."""
    cron: str | None = None
    timezone: str | None = None
    interval_seconds: float | None = None
    delay_seconds: float | None = None
    catch_up: str = "once"
    attempts: int = 0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """What a callback may take as its second argument."""

    schedule: Schedule
    due_ms: int
    """The time this run is for."""
    missed: int
    """How many earlier times this run also stands for."""
    attempt: int
    """1 for the first try."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be run: see :meth:`palimpsest.actor.agent.Agent.schedule` for the fields."""

    callback: Callback
    payload: Any
    id: str | None
    idempotent: bool | None
    max_attempts: int
    base_delay_ms: int
    timeout_seconds: float


class Schedules:
    """The schedules of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._jobs = agent.jobs
        self._jobs.register(
            KIND, self._run, on_dead=self._on_dead, keep_mark=lambda job: job.payload["once"]
        )

    def add(
        self, when: float | datetime.datetime | str, timezone: str, catch_up: CatchUp, run: Run
    ) -> Schedule:
        """Schedule a method: see :meth:`palimpsest.actor.agent.Agent.schedule`."""
        spec, at = read_when(when, self._agent.host.now(), timezone)
        if spec["type"] == "cron":
            spec["catch_up"] = check_catch_up(catch_up)
        return self._declare(spec, at, run)

    def every(self, seconds: float, catch_up: CatchUp, run: Run) -> Schedule:
        """Run a method again and again: see :meth:`palimpsest.actor.agent.Agent.schedule_every`."""
        at = self._agent.host.now() + interval_ms(seconds)
        spec = {
            "type": "interval",
            "interval_seconds": seconds,
            "catch_up": check_catch_up(catch_up),
        }
        return self._declare(spec, at, run)

    def _declare(self, spec: dict[str, Any], at: int, run: Run) -> Schedule:
        method = callback_name(self._agent, run.callback)
        identifier = named_id(_PREFIX, run.id)
        starting = self._agent.starting
        once = spec["type"] in ("delayed", "scheduled")
        idempotent = run.idempotent
        if idempotent is None:
            idempotent = identifier is not None or not once or starting
        definition = {**spec, "callback": method, "payload": run.payload}
        encode_payload(definition)  # refused before it is compared with what is stored
        if identifier is None:
            identifier = _identity(definition) if idempotent else self._agent.host.random_id()
        content = {
            **definition,
            "id": identifier,
            "due": at,
            "once": once and idempotent and starting,
        }
        existing = self._existing(identifier, definition) if idempotent else None
        if existing is not None:
            return existing
        if spec["type"] == "scheduled" and at < self._agent.host.now():
            if not starting:
                raise JobError(
                    f"the date is in the past: {at} is before {self._agent.host.now()} (ms)"
                )
            self._agent.events.emit("schedule.past", schedule=identifier)
            return _schedule_of(identifier, content, at, "past")
        self._jobs.put(
            id=_PREFIX + identifier,
            kind=KIND,
            at_ms=at,
            payload=content,
            max_attempts=run.max_attempts,
            base_delay_ms=run.base_delay_ms,
            timeout_ms=timeout_ms(run.timeout_seconds),
        )
        return _schedule_of(identifier, content, at, "pending")

    def adopt(self, identifier: str, definition: dict[str, Any], at: int) -> None:
        """Store a schedule that was defined elsewhere; a recurring one under its own identity."""
        once = definition["type"] in ("delayed", "scheduled")
        name = identifier if once else _identity(definition)
        self._jobs.put(
            id=_PREFIX + name,
            kind=KIND,
            at_ms=at,
            payload={**definition, "id": name, "due": at, "once": False},
        )

    def _existing(self, identifier: str, definition: dict[str, Any]) -> Schedule | None:
        """The schedule that this declaration means, unless it says something else by now."""
        job = self._jobs.get(_PREFIX + identifier)
        if job is None:
            return None
        if job.status == "done":
            return _schedule_of(identifier, definition, job.at, "done")
        stored = {key: job.payload.get(key) for key in definition}
        if stored != json.loads(dump_json(definition)):
            return None
        recurs = definition["type"] in ("cron", "interval")
        if job.status == "dead" and (recurs or not self._agent.starting):
            return None  # declared anew, so it is wanted again
        return _of_job(job)

    def get(self, identifier: str) -> Schedule | None:
        """The schedule with this id."""
        job = self._jobs.get(_PREFIX + identifier)
        return None if job is None or job.status == "done" else _of_job(job)

    def list(
        self, *, type: str | None = None, callback: str | None = None, limit: int = 10_000  # noqa: A002
    ) -> list[Schedule]:
        """The schedules that are pending or run, in order of their time."""
        return [
            schedule
            for schedule in map(_of_job, self._jobs.of_lane(KIND, limit=limit))
            if type in (None, schedule.type) and callback in (None, schedule.callback)
        ]

    def cancel(self, identifier: str) -> bool:
        """Remove a schedule; whether there was one. A run that has begun goes on to its end."""
        return self.get(identifier) is not None and self._jobs.cancel(_PREFIX + identifier)

    # --- running -------------------------------------------------------------------------------

    async def _run(self, job: Job) -> Postpone | None:
        content = job.payload
        due = int(content["due"])
        following, missed = self._following(content, self._agent.host.now())
        if self._skips(job, due, following):
            self._agent.events.emit("schedule.skipped", schedule=job.id, missed=missed + 1)
        else:
            run = ScheduledRun(_of_job(job), due, missed, job.attempts)
            with working(self._agent):
                await run_callback(self._agent, content["callback"], content["payload"], run)
        return self._again(job)

    def _skips(self, job: Job, due: int, following: int | None) -> bool:
        """Whether the time was missed. A run that has begun is not: it is tried again until it
        succeeds or is given up."""
        if job.payload.get("catch_up") != "skip" or following is None:
            return False
        if job.attempts > 1 or job.interruptions:
            return False
        return self._agent.host.now() - due > SKIP_GRACE_MS

    def _following(self, content: dict[str, Any], now: int) -> tuple[int | None, int]:
        """The next time after this run's, and how many between were missed; None for one-time."""
        due = int(content["due"])
        if content["type"] == "interval":
            step = interval_ms(content["interval_seconds"])
            if content["catch_up"] == "all":
                return due + step, 0
            return next_tick(due, step, now)
        if content["type"] == "cron":
            following = next_cron(content["cron"], due, content["timezone"])
            missed = 0
            while content["catch_up"] != "all" and following <= now:
                missed += 1
                after = following if missed < MAX_COUNTED_MISSES else now
                following = next_cron(content["cron"], after, content["timezone"])
            return following, missed
        return None, 0

    def _again(self, job: Job) -> Postpone | None:
        """The next run, if there is one. A dead letter that is run again is just one run."""
        content = job.payload
        if job.id != _PREFIX + content["id"]:
            return None
        following, _ = self._following(content, self._agent.host.now())
        return None if following is None else Postpone(following, {**content, "due": following})

    def _on_dead(self, job: Job, error: str, final: bool) -> Postpone | None:
        """A failed run is a dead letter; the schedule itself goes on unless that is pointless."""
        return None if final else self._again(job)


def read_when(when: Any, now: int, timezone: str) -> tuple[dict[str, Any], int]:
    """What kind of time is meant, and when it is next, in ms since 1970.

    :raises JobError: it is not seconds, a datetime with a time zone, or a cron line.
    """
    if isinstance(when, str):
        spec = {"type": "cron", "cron": when, "timezone": timezone}
        return spec, next_cron(when, now, timezone)
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            raise JobError("a date needs a time zone: datetime(..., tzinfo=UTC)")
        at = int(when.timestamp() * 1000)
        return {"type": "scheduled", "at": at}, at
    if isinstance(when, bool) or not isinstance(when, int | float) or when != when:
        raise JobError(f"'when' is seconds, a datetime or a cron line, got {when!r:.100}")
    if not 0 <= when <= MAX_DELAY_SECONDS:
        raise JobError(f"a delay is 0 seconds to 100 years, got {when} s")
    return {"type": "delayed", "delay_seconds": when}, now + int(when * 1000)


def check_catch_up(value: Any) -> CatchUp:
    """The value, if it is one of the rules.

    :raises JobError: it is not.
    """
    if value not in ("once", "all", "skip"):
        raise JobError(f"catch_up is 'once', 'all' or 'skip', got {value!r:.100}")
    return value


def _identity(definition: dict[str, Any]) -> str:
    text = dump_json({key: definition[key] for key in sorted(definition)})
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _of_job(job: Job) -> Schedule:
    return _schedule_of(
        job.id.removeprefix(_PREFIX), job.payload, job.at, job.status, job.attempts, job.error
    )


def _schedule_of(
    identifier: str,
    content: dict[str, Any],
    at: int,
    status: str,
    attempts: int = 0,
    error: str | None = None,
) -> Schedule:
    return Schedule(
        id=identifier,
        type=content["type"],
        callback=content["callback"],
        payload=content["payload"],
        at_ms=at,
        status=status,
        cron=content.get("cron"),
        timezone=content.get("timezone"),
        interval_seconds=content.get("interval_seconds"),
        delay_seconds=content.get("delay_seconds"),
        catch_up=content.get("catch_up", "once"),
        attempts=attempts,
        error=error,
    )
