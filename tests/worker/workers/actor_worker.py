"""An agent that shows hibernation, alarms, restarts and destruction in real workerd."""

from __future__ import annotations

import asyncio
import datetime
import gc
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from types import CoroutineType, FunctionType
from typing import Any, ClassVar
from urllib.parse import urlsplit

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.actor.client import AgentClient
from palimpsest.actor.connections import Connection
from palimpsest.actor.current import current
from palimpsest.actor.fibers import Fiber
from palimpsest.actor.hooks import Decision, Reject
from palimpsest.actor.http import json_response
from palimpsest.actor.routing import AgentRoute, Target
from palimpsest.actor.schedules import ScheduledRun
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint

_instances = itertools.count(1)
"""Numbers of instances, of the whole isolate: survives hibernation, not a restart."""


class _Noting(Agent):
    """Keeps notes in a table of its own."""

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.instance = next(_instances)
        host.sql.execute("create table if not exists notes (at integer, text text)")

    def note(self, text: str) -> None:
        """Add a note."""
        now = self.host.now()
        self.host.sql.execute("insert into notes (at, text) values (?, ?)", now, text)

    @callable_method
    def notes(self) -> list[Any]:
        return [[at, text] for at, text in self.host.sql.execute("select at, text from notes")]


@durable_object
class Lab(_Noting):
    """One agent for many experiments."""

    initial_state: ClassVar[Any] = {"count": 0}

    def on_start(self) -> None:
        if self.host.name.startswith("unstartable") and not self.host.sql.execute(
            "select 1 from notes where text = 'repaired'"
        ):
            self.note("start failed")
            raise RuntimeError("cannot start yet")

    def before_connect(self, request: HttpRequest) -> Decision:
        return Reject("not you", code=4401) if "forbidden" in request.url else None

    def connection_tags(self, request: HttpRequest) -> Sequence[str]:
        return ["red"] if "red" in request.url else []

    def on_message(self, connection: Connection, message: str | bytes) -> None:
        count = (connection.state or 0) + 1
        connection.set_state(count)
        if isinstance(message, bytes):
            connection.send(len(message).to_bytes(8))
            return
        answer = {
            "instance": self.instance,
            "count": count,
            "tags": connection.tags,
            "id": connection.id,
            "length": len(message),
        }
        self.connections.broadcast(json.dumps(answer), tag="red")

    def on_request(self, request: HttpRequest) -> Any:
        if request.url.endswith("/repair"):
            self.note("repaired")
        return json_response(
            {
                "name": self.name,
                "query": urlsplit(request.url).query,
                "replaced": request.headers.get("x-replaced"),
                "body": request.body.decode(),
            }
        )

    @callable_method
    def instance_number(self) -> int:
        return self.instance

    @callable_method
    def schedule_note(self, seconds: float, text: str) -> str:
        return self.schedule(seconds, "take_note", text).id

    @callable_method
    def schedule_failing(self, failures: int) -> None:
        self.schedule(0.2, "fail_first", failures, base_delay_ms=300)

    @callable_method
    def queue_slow(self, text: str) -> str:
        return self.queue("slow_note", text)

    @callable_method
    def begin_fiber(self) -> str:
        return self.start_fiber("count_up", {"to": 40}).id

    @callable_method
    def fiber(self, identifier: str) -> Any:
        record = self.get_fiber(identifier)
        return None if record is None else [record.status, record.snapshot, record.recoveries]

    @callable_method
    def letters(self) -> list[Any]:
        return [[letter.id, letter.error] for letter in self.dead_letters()]

    @callable_method
    async def end(self) -> None:
        await self.destroy()

    @callable_method
    async def alarm_and_tables(self) -> list[Any]:
        rows = self.host.sql.execute("select count(*) from notes")
        return [await self.host.get_alarm(), rows[0][0]]

    @callable_method
    async def ask_other(self, name: str) -> list[Any]:
        client = AgentClient(self.host.environment["Lab"].get(name))
        streamed = [chunk async for chunk in client.stream("count_slowly", 3)]
        early: list[int] = []
        stream = client.stream("count_slowly", 100)
        async for chunk in stream:
            early.append(chunk)
            if len(early) == 2:
                break
        await stream.aclose()
        refusal = ""
        try:
            await client.call("note", "x")
        except Exception as error:
            refusal = f"{type(error).__name__}: {error}"
        return [await client.call("instance_number"), streamed, early, refusal]

    @callable_method
    async def count_slowly(self, to: int) -> AsyncIterator[int]:
        try:
            for number in range(to):
                yield number
                await asyncio.sleep(0)
        except GeneratorExit:
            self.note("left early")
            raise

    @callable_method
    async def whose(self) -> list[bool]:
        await asyncio.sleep(0.01)
        work = current()
        return [work is not None and work.agent is self, work is not None and bool(work.connection)]

    @callable_method
    async def repeat(self, times: int) -> dict[str, int]:
        """Use transactions, background tasks and jobs; how many references are left behind."""
        before = _references()
        ended = 0

        async def background() -> None:
            nonlocal ended
            ended += 1

        async def job(_: Any) -> None:
            nonlocal ended
            ended += 1

        self.jobs.register("repeat", job)
        for number in range(times):
            self.host.sql.transaction(lambda: self.host.sql.execute("select 1"))
            self.spawn(background())
            if number % 10 == 0:
                self.jobs.put(id=f"r{number}", kind="repeat", at_ms=self.host.now())
            if number % 100 == 0:
                await asyncio.sleep(0)
        await self.host.background_idle()
        await asyncio.sleep(0.5)
        after = _references()
        return {"ended": ended, **{key: after[key] - before[key] for key in after}}

    # What schedules, the queue and fibers call.

    def take_note(self, text: str) -> None:
        self.note(text)

    def fail_first(self, failures: int, run: ScheduledRun) -> None:
        self.note(f"attempt {run.attempt}")
        if run.attempt <= failures:
            raise RuntimeError("not yet")

    async def slow_note(self, text: str) -> None:
        self.note(f"{text} begins")
        await asyncio.sleep(1.5)
        self.note(f"{text} ends")

    async def count_up(self, fiber: Fiber) -> str:
        reached = fiber.snapshot or 0
        self.note(f"fiber from {reached}")
        while reached < fiber.payload["to"]:
            await asyncio.sleep(0.1)
            reached += 1
            fiber.stash(reached)
        return "counted"


def _references() -> dict[str, int]:
    """How many JavaScript proxies and functions of this module Python holds now."""
    gc.collect()
    from pyodide.ffi import JsProxy

    kinds: list[type[Any]] = [type(item) for item in gc.get_objects()]
    return {
        "proxies": sum(issubclass(kind, JsProxy) for kind in kinds),
        "functions": sum(kind is FunctionType for kind in kinds),
        "coroutines": sum(kind is CoroutineType for kind in kinds),
        "tasks": sum(issubclass(kind, asyncio.Task) for kind in kinds),
    }


@durable_object
class Planner(_Noting):
    """Declares a thousand schedules of mixed kinds whenever it starts."""

    def on_start(self) -> None:
        self.note("start")
        for number in range(400):
            self.schedule(8 + number * 0.05, "fired", f"delayed {number}")
        rows = self.host.sql.execute("select min(at) from notes")
        first: Any = rows[0][0]
        for number in range(400):
            date = datetime.datetime.fromtimestamp(first / 1000 + 9 + number * 0.05, datetime.UTC)
            self.schedule(date, "fired", f"dated {number}")
        for number in range(100):
            self.schedule(
                f"*/{10 + number % 10} * * * * *", "fired", f"cron {number}", catch_up="all"
            )
        for number in range(100):
            self.schedule_every(
                10 + (number % 20) / 2, "fired", f"interval {number}", catch_up="all"
            )

    def fired(self, payload: str, run: ScheduledRun) -> None:
        self.host.sql.execute(
            "insert into notes (at, text) values (?, ?)", run.due_ms, f"fired {payload}"
        )

    @callable_method
    def plan(self) -> list[Any]:
        return [
            [s.payload, s.type, s.at_ms, s.cron, s.interval_seconds] for s in self.list_schedules()
        ]

    @callable_method
    def stop_recurring(self) -> int:
        """Cancel what would go on for ever; the time now."""
        for schedule in self.list_schedules():
            self.cancel_schedule(schedule.id)
        return self.host.now()


def resolve(request: HttpRequest, environment: Any) -> Target | None:
    """Everybody's own agent under ``/me``."""
    path = urlsplit(request.url).path
    if path.startswith("/me"):
        return Target("Lab", request.headers.get("x-user", "nobody"), location_hint="weur")
    return Target("Missing", "x") if path == "/missing" else None


async def gate(request: HttpRequest, route: AgentRoute, environment: Any) -> Decision:
    """Decides by what the query says."""
    if "gate-reject" in request.url:
        return Reject("closed", code=4409, status=409)
    if "gate-answer" in request.url:
        return HttpResponse(203, {}, f"{route.agent} {route.name}")
    if "gate-replace" in request.url:
        url = request.url.replace("gate-replace", "replaced")
        return HttpRequest(request.method, url, {**request.headers, "x-replaced": "yes"})
    return None


Default = worker_entrypoint(cors=True, resolve=resolve, before_request=gate, before_connect=gate)
