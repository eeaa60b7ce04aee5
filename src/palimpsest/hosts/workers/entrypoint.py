"""The Worker's entry: routes ``/agents/{agent}/{name}`` to the object of that name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import js
import workers
from pyodide.ffi import JsException

from palimpsest.actor.routing import (
    AgentRoute,
    RoutingError,
    match_agent,
    parse_agent_path,
    with_cors,
)
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers.bindings import Environment
from palimpsest.hosts.workers.ffi import is_nothing
from palimpsest.hosts.workers.http import error_response, make_response, read_request

Gate = Callable[[HttpRequest, AgentRoute, Environment], Awaitable[HttpResponse | None]]
"""Sees a request before its agent does; a response it returns is sent instead."""

Fallback = Callable[[HttpRequest, Environment], Awaitable[HttpResponse]]
"""Answers what is not addressed to an agent."""

_ATTEMPTS = 3
_FIRST_PAUSE_SECONDS = 0.1


def worker_entrypoint(
    *,
    prefix: str = "agents",
    cors: bool | Mapping[str, str] = False,
    before_connect: Gate | None = None,
    before_request: Gate | None = None,
    fallback: Fallback | None = None,
) -> Any:
    """The Worker's default entrypoint; assign it to ``Default`` in the main module.

    :param prefix: the first segment or segments of an agent's address.
    :param cors: True, or the headers to use, to let pages of other origins in.
    :param before_connect: asked before a WebSocket is opened.
    :param before_request: asked before any other request is passed on. Gates see no body.
    :param fallback: answers all other paths; without it they are 404.
    """

    class Default(workers.WorkerEntrypoint):
        """Routes requests to agents."""

        async def fetch(self, request: Any) -> Any:
            environment = Environment(self.env)
            raw = request.js_object
            try:
                route = parse_agent_path(str(raw.url), prefix=prefix)
                if route is None:
                    return await _other(raw, environment, fallback)
                binding = match_agent(route.agent, environment.object_bindings())
            except RoutingError as error:
                refusal = error_response(400, f"Invalid request: {error}")
                refusal.headers = with_cors(refusal.headers, cors)
                return make_response(refusal)
            upgrade = str(raw.headers.get("upgrade")).lower() == "websocket"
            if cors is not False and str(raw.method) == "OPTIONS":
                return make_response(HttpResponse(headers=with_cors({}, cors)))
            gate = before_connect if upgrade else before_request
            if gate is not None:
                seen = HttpRequest(
                    str(raw.method), str(raw.url), js.Object.fromEntries(raw.headers).to_py()
                )
                answer = await gate(seen, route, environment)
                if answer is not None:
                    answer.headers = with_cors(answer.headers, cors)
                    return make_response(answer)
            response = await _forward(environment[binding].raw, route.name, raw)
            return response if upgrade or cors is False else _add_cors(response, cors)

    return Default


async def _other(raw: Any, environment: Environment, fallback: Fallback | None) -> Any:
    if fallback is None:
        return make_response(error_response(404, "not found"))
    return make_response(await fallback(await read_request(raw), environment))


async def _forward(namespace: Any, name: str, request: Any) -> Any:
    """Pass a request on with the raw stub, so that nothing of Python owns a proxied WebSocket.

    A request without a body is sent again when the object was being moved or reset.
    """
    pause = _FIRST_PAUSE_SECONDS
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await namespace.getByName(name).fetch(request)
        except JsException as error:
            retryable = getattr(error, "retryable", False) and not getattr(
                error, "overloaded", False
            )
            if not retryable or attempt == _ATTEMPTS or not is_nothing(request.body):
                line = {"event": "route.failed", "agent": name, "error": str(error.message)}
                js.console.error(json.dumps(line))
                return make_response(error_response(503, "the agent cannot be reached just now"))
        await asyncio.sleep(pause)
        pause *= 2
    raise AssertionError("unreachable")


def _add_cors(response: Any, cors: bool | Mapping[str, str]) -> Any:
    changed = js.Response.new(response.body, response)
    for name, value in with_cors({}, cors).items():
        changed.headers.set(name, value)
    return changed
