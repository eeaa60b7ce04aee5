"""Objects that show what the shell does with an actor, and what it keeps out of reach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import js
import workers

from palimpsest.errors import PalimpsestError
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint

_FAILURES = {"left": 0}
"""How many starts still fail; of the whole isolate, so that a new instance sees it too."""


@durable_object
class Probe:
    """An actor that does what its request's path says."""

    def __init__(self, host: Any) -> None:
        self.host = host
        self.started = host.now()

    async def handle_start(self) -> None:
        await asyncio.sleep(0)
        if _FAILURES["left"]:
            _FAILURES["left"] -= 1
            raise RuntimeError("this start fails on purpose")
        self.host.sql.execute("create table if not exists seen (text text)")

    async def handle_request(self, request: HttpRequest) -> HttpResponse:
        action = request.url.partition("?")[0].rpartition("/")[2]
        return await getattr(self, f"do_{action}")(request)

    async def do_name(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(body=self.host.name)

    async def do_echo(self, request: HttpRequest) -> HttpResponse:
        headers = {"x-method": request.method, "x-type": request.headers.get("content-type", "")}
        return HttpResponse(201, headers, request.body)

    async def do_socket(self, request: HttpRequest) -> HttpResponse:
        socket, response = self.host.accept_socket(["all"], {"n": 0})
        self.host.set_auto_response("ping", "pong")
        socket.send(json.dumps({"started": self.started}))
        return response

    async def do_stream(self, request: HttpRequest) -> HttpResponse:
        async def parts() -> AsyncIterator[bytes]:
            try:
                for number in range(200):
                    yield f"{number}\n".encode()
                    await asyncio.sleep(0.01)
            finally:
                self.host.sql.execute("insert into seen (text) values ('stream ended')")

        return HttpResponse(200, {"content-type": "text/plain"}, parts())

    async def do_seen(self, request: HttpRequest) -> HttpResponse:
        rows = self.host.sql.execute("select text from seen")
        return HttpResponse(body=json.dumps([row[0] for row in rows]))

    async def do_arm(self, request: HttpRequest) -> HttpResponse:
        self.host.set_alarm(self.host.now() + 300)
        return HttpResponse(body=str(await self.host.get_alarm()))

    async def do_arm_later(self, request: HttpRequest) -> HttpResponse:
        self.host.set_alarm(self.host.now() + 3000)
        return HttpResponse(body="armed")

    async def do_fail_starts(self, request: HttpRequest) -> HttpResponse:
        _FAILURES["left"] = int(request.body)
        return HttpResponse(body="set")

    async def do_abort(self, request: HttpRequest) -> HttpResponse:
        self.host.sql.execute("insert into seen (text) values ('before abort')")
        self.host.abort("asked to")
        return HttpResponse(body="aborting")

    async def do_wipe(self, request: HttpRequest) -> HttpResponse:
        self.host.set_alarm(self.host.now() + 60_000)
        self.host.delete_all()
        tables = self.host.sql.execute(
            "select count(*) from sqlite_master where name not like '\\_cf%' escape '\\'"
        )
        return HttpResponse(body=json.dumps([tables[0][0], await self.host.get_alarm()]))

    async def do_fetch(self, request: HttpRequest) -> HttpResponse:
        url = request.body.decode()
        answer = await self.host.fetch("POST", url, headers={"x-a": "b"}, body=b"hello", timeout=5)
        chunks = [chunk async for chunk in answer.chunks()]
        found = [answer.status, answer.headers.get("x-answer"), b"".join(chunks).decode()]
        return HttpResponse(body=json.dumps(found))

    async def do_fetch_slowly(self, request: HttpRequest) -> HttpResponse:
        try:
            await self.host.fetch("GET", request.body.decode(), timeout=0.3)
        except TimeoutError as error:
            return HttpResponse(body=f"TimeoutError {error}")
        return HttpResponse(body="no timeout")

    async def do_fetch_and_leave(self, request: HttpRequest) -> HttpResponse:
        answer = await self.host.fetch("GET", request.body.decode(), timeout=5)
        async for chunk in answer.chunks():
            return HttpResponse(body=chunk)
        return HttpResponse(body="nothing")

    async def do_fetch_nowhere(self, request: HttpRequest) -> HttpResponse:
        try:
            await self.host.fetch("GET", "http://127.0.0.1:1/")
        except ConnectionError:
            return HttpResponse(body="ConnectionError")
        return HttpResponse(body="connected")

    async def do_refuse(self, request: HttpRequest) -> HttpResponse:
        raise PalimpsestError("refused for a reason")

    async def do_break(self, request: HttpRequest) -> HttpResponse:
        raise ZeroDivisionError("a secret detail")

    async def do_environment(self, request: HttpRequest) -> HttpResponse:
        environment = self.host.environment
        stub = environment["Probe"].get("another")
        found = [environment["WORDS"], environment["SETTINGS"], await stub.call("double", 21)]
        return HttpResponse(body=json.dumps(found))

    async def do_spawn(self, request: HttpRequest) -> HttpResponse:
        async def later() -> None:
            await asyncio.sleep(0.2)
            self.host.sql.execute("insert into seen (text) values ('spawned')")

        self.host.spawn(later(), name="later")
        return HttpResponse(body="spawned")

    async def handle_message(self, socket: Any, message: str | bytes) -> None:
        if isinstance(message, bytes):
            socket.send(message[::-1])
            return
        if message == "raise":
            raise ZeroDivisionError("in a message")
        attachment = socket.get_attachment()
        attachment["n"] += 1
        socket.set_attachment(attachment)
        answer = {"echo": message, "n": attachment["n"], "started": self.started}
        for other in self.host.sockets("all"):
            other.send(json.dumps({**answer, "mine": other == socket}))

    async def handle_close(self, socket: Any, code: int, reason: str, clean: bool) -> None:
        text = f"closed {code} {reason} {clean}"
        self.host.sql.execute("insert into seen (text) values (?)", text)

    async def handle_error(self, socket: Any, error: str) -> None:
        self.host.sql.execute("insert into seen (text) values (?)", f"broken {error}")

    async def handle_alarm(self) -> None:
        text = f"alarm of {self.host.name}"
        self.host.sql.execute("insert into seen (text) values (?)", text)

    async def handle_call(self, method: str, arguments: list[Any]) -> Any:
        if method != "double":
            raise PalimpsestError(f"{method} is not callable")
        return arguments[0] * 2




_Routes: Any = worker_entrypoint(cors=True)


class Default(_Routes):
    """The usual routes, and attempts to reach what a Durable Object must not show."""

    async def fetch(self, request: Any) -> Any:
        """``/reach/{attribute}`` calls that attribute of a Probe over RPC."""
        _, first, attribute, *_ = (request.url.partition("://")[2] + "//").split("/")
        if first != "reach":
            return await _Routes.fetch(self, request)
        stub = js.Reflect.get(self.env._env, "Probe").getByName("reached")
        try:
            answer = await getattr(stub, attribute)("[]")
        except Exception as error:
            return workers.Response(f"refused: {error}", status=403)
        return workers.Response(f"reached: {answer}")
