"""The exported Durable Object class: a thin shell around a host and the user's agent.

Every callable attribute of a Durable Object can be called over RPC, private names included. So the
shell shows nothing but the platform's handlers and one ``call``, and keeps all else in a closure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import workers
from pyodide.ffi import JsException

from palimpsest.errors import DestroyedError, LimitError, PalimpsestError
from palimpsest.hosts.interface import Actor, HttpRequest, HttpResponse
from palimpsest.hosts.workers.bindings import Environment
from palimpsest.hosts.workers.ffi import bytes_of, is_nothing
from palimpsest.hosts.workers.host import WorkersHost, describe_error
from palimpsest.hosts.workers.http import error_response, make_response, read_head, read_request
from palimpsest.hosts.workers.timers import install_timers
from palimpsest.jobs import rearm_after_failed_start

_HANDLERS = frozenset(
    {"fetch", "alarm", "webSocketMessage", "webSocketClose", "webSocketError", "call"}
)
_RUNTIME = "_runtime"

ActorClass = Callable[[WorkersHost], Actor]


class Runtime:
    """One instance of an object: its host, and its actor once it has started."""

    def __init__(self, actor_class: ActorClass, context: Any, environment: Any) -> None:
        self._actor_class = actor_class
        self._context = context
        self._environment = environment
        self._host: WorkersHost | None = None
        self._actor: Actor | None = None
        self._starting: asyncio.Future[Actor] | None = None

    @property
    def host(self) -> WorkersHost:
        """The object's host, made at the first event: the constructor must never raise."""
        if self._host is None:
            self._host = WorkersHost(self._context, Environment(self._environment))
        return self._host

    async def actor(self) -> Actor:
        """The started actor. Events that arrive during a start wait for it.

        :raises Exception: the start failed; the next event tries again with a new actor.
        """
        if self._actor is not None:
            return self._actor
        if self._starting is not None:
            return await asyncio.shield(self._starting)
        starting: asyncio.Future[Actor] = asyncio.get_running_loop().create_future()
        self._starting = starting
        try:
            self._actor = await self._start()
        except BaseException as error:
            starting.set_exception(error)
            starting.exception()  # others may wait for it; if none does, it is not lost
            raise
        else:
            starting.set_result(self._actor)
            return self._actor
        finally:
            self._starting = None

    async def actor_anew(self) -> Actor:
        """The started actor; where a destroyed one was still to be removed, a new one.

        :raises Exception: the start failed.
        """
        try:
            return await self.actor()
        except DestroyedError:
            return await self.actor()

    async def _start(self) -> Actor:
        host = self.host
        host.jobs = None
        host.alarm_handler = None
        actor = self._actor_class(host)
        await actor.handle_start()
        return actor

    def report(self, where: str, error: BaseException) -> None:
        """Log a failure of an event."""
        self.host.log(
            {"event": f"{where}.failed", "name": self.host.name, "error": describe_error(error)}
        )

    async def fetch(self, request: Any) -> Any:
        """Answer an HTTP request or a WebSocket upgrade."""
        try:
            actor = await self.actor_anew()
            raw = request.js_object
            head = read_head(raw)
            refusal = None if is_nothing(raw.body) else self._refusal(actor, head)
            response = refusal or await actor.handle_request(await read_request(raw, head))
        except LimitError as error:
            response = error_response(413, str(error))
        except PalimpsestError as error:
            self.report("request", error)
            response = error_response(400, str(error))
        except Exception as error:
            self.report("request", error)
            response = error_response(500, "the agent failed; its log says why")
        return make_response(response, self.host)

    def _refusal(self, actor: Actor, head: HttpRequest) -> HttpResponse | None:
        """The answer to a request that needs no body, so that a stranger's is not read."""
        refuse: Callable[[HttpRequest], HttpResponse | None] | None
        refuse = getattr(actor, "refuse", None)
        return None if refuse is None else refuse(head)

    async def alarm(self) -> None:
        """Run what is due.

        A start that fails arms the alarm again: the platform would drop it after six failures.
        """
        try:
            actor = await self.actor()
        except DestroyedError:
            return
        except Exception as error:
            self.report("start", error)
            rearm_after_failed_start(self.host)
            return
        await actor.handle_alarm()

    async def message(self, raw: Any, message: Any) -> None:
        """Take one WebSocket message."""
        socket = self.host.socket(raw)
        try:
            actor = self._actor or await self.actor_anew()
        except Exception as error:
            self.report("start", error)
            socket.close(1011, "the agent could not start")
            return
        try:
            data = message if isinstance(message, str) else bytes_of(message)
            await actor.handle_message(socket, data)
        except Exception as error:
            self.report("message", error)

    async def closed(self, raw: Any, code: int, reason: str, clean: bool) -> None:
        """Answer a close, so that the peer's handshake ends, and tell the actor."""
        socket = self.host.socket(raw)
        try:
            socket.close(code, reason)
        except JsException as error:
            self.report("close", error)
        try:
            actor = await self.actor_anew()
            await actor.handle_close(socket, code, reason, clean)
        except Exception as error:
            self.report("close", error)

    async def broken(self, raw: Any, error: Any) -> None:
        """Tell the actor of a socket that failed."""
        try:
            actor = await self.actor_anew()
            await actor.handle_error(self.host.socket(raw), str(error))
        except Exception as failure:
            self.report("socket", failure)

    async def call(self, payload: str) -> str:
        """Run a callable method: JSON in, JSON out, errors as values."""
        try:
            request = json.loads(payload)
            actor = await self.actor_anew()
            value = await actor.handle_call(request["method"], request["arguments"])
            return json.dumps({"ok": True, "value": value})
        except Exception as error:
            if not isinstance(error, PalimpsestError):
                self.report("call", error)
            kind = type(error).__name__
            return json.dumps({"ok": False, "error": {"type": kind, "message": str(error)}})


def durable_object(actor_class: Any) -> Any:
    """Export an agent class as a Durable Object class of the same name (a class decorator).

    ``@durable_object class Assistant(ChatAgent)`` in the main module makes ``Assistant`` the class
    that ``wrangler.toml`` binds. The agent class stays available as ``Assistant.agent_class``.
    """

    install_timers()

    class Shell(workers.DurableObject):
        """Only the platform's handlers and ``call`` can be reached."""

        def __init__(self, ctx: Any, env: Any) -> None:
            context = getattr(ctx, "_ctx", ctx)
            object.__setattr__(self, _RUNTIME, Runtime(actor_class, context, env))

        def __init_subclass__(cls, **options: Any) -> None:
            exported = actor_class.__name__
            raise TypeError(
                f"{cls.__name__}: {exported} is exported as a Durable Object; derive from "
                f"{exported}.agent_class and decorate the new class as well"
            )

        def __getattribute__(self, name: str) -> Any:
            if name in _HANDLERS:
                return super().__getattribute__(name)
            raise AttributeError(name)

        async def fetch(self, request: Any) -> Any:
            return await _runtime_of(self).fetch(request)

        async def alarm(self, info: Any = None) -> None:
            await _runtime_of(self).alarm()

        async def webSocketMessage(self, ws: Any, message: Any) -> None:
            await _runtime_of(self).message(ws, message)

        async def webSocketClose(self, ws: Any, code: int, reason: str, clean: bool) -> None:
            await _runtime_of(self).closed(ws, code, reason, clean)

        async def webSocketError(self, ws: Any, error: Any) -> None:
            await _runtime_of(self).broken(ws, error)

        async def call(self, payload: str) -> str:
            return await _runtime_of(self).call(payload)

    Shell.__name__ = Shell.__qualname__ = actor_class.__name__
    Shell.__doc__ = actor_class.__doc__
    type.__setattr__(Shell, "agent_class", actor_class)
    return Shell


def _runtime_of(shell: Any) -> Runtime:
    """Past the guard that keeps everything but the handlers out of reach."""
    return object.__getattribute__(shell, _RUNTIME)
