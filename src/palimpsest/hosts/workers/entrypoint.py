"""The Worker's entry: routes ``/agents/{agent}/{name}`` to the object of that name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import js
import workers
from pyodide.ffi import JsException, to_js

from palimpsest.actor.hooks import Decision, Reject, settle
from palimpsest.actor.routing import (
    AgentRoute,
    RoutingError,
    Target,
    check_target,
    kebab_case,
    match_agent,
    parse_agent_path,
    with_cors,
)
from palimpsest.errors import LimitError
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers.bindings import Environment, get_stub
from palimpsest.hosts.workers.ffi import is_nothing, to_object
from palimpsest.hosts.workers.host import refuse_upgrade
from palimpsest.hosts.workers.http import error_response, make_response, read_request

Gate = Callable[[HttpRequest, AgentRoute, Environment], Awaitable[Decision] | Decision]
"""Sees a request, without its body, before its agent does, and may decide what becomes of it."""

Resolver = Callable[[HttpRequest, Environment], Awaitable[Target | None] | Target | None]
"""Says which object a request is for; None leaves it to the usual addresses."""

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
    resolve: Resolver | None = None,
    jurisdiction: str | None = None,
    location_hint: str | None = None,
) -> Any:
    """The Worker's default entrypoint; assign it to ``Default`` in the main module.

    :param prefix: the first segment or segments of an agent's address.
    :param cors: True, or the headers to use, to let pages of other origins in.
    :param before_connect: asked before a WebSocket is opened. It may let it pass (None), answer,
        replace the request, or refuse with a :class:`~palimpsest.actor.hooks.Reject`, after which
        clients stop retrying.
    :param before_request: asked, in the same way, before any other request is passed on.
    :param fallback: answers all other paths; without it they are 404.
    :param resolve: asked first which object a request is for: for addresses of your own, such as
        ``/me`` (the npm clients' ``basePath``).
    :param jurisdiction: where objects must be (``eu``, ``fedramp``), unless ``resolve`` says so.
    :param location_hint: where a new object should be (``weur``, ...), likewise.
    """

    class Default(workers.WorkerEntrypoint):
        """Routes requests to agents."""

        async def fetch(self, request: Any) -> Any:
            environment = Environment(self.env)
            raw = request.js_object
            upgrade = str(raw.headers.get("upgrade")).lower() == "websocket"
            try:
                found = await _find(raw, environment, prefix, resolve)
            except RoutingError as error:
                refusal = error_response(400, f"Invalid request: {error}")
                refusal.headers = with_cors(refusal.headers, cors)
                return make_response(refusal)
            if found is None:
                return await _other(raw, environment, fallback)
            if cors is not False and str(raw.method) == "OPTIONS":
                return make_response(HttpResponse(headers=with_cors({}, cors)))
            target, route = found
            gate = before_connect if upgrade else before_request
            if gate is not None:
                decision = await settle(gate(_seen(raw), route, environment))
                if isinstance(decision, HttpRequest):
                    raw = _replaced(raw, decision)
                elif isinstance(decision, Reject) and upgrade:
                    return make_response(refuse_upgrade(decision.code, decision.reason))
                elif decision is not None:
                    if isinstance(decision, Reject):
                        decision = error_response(decision.status, decision.reason)
                    decision.headers = with_cors(decision.headers, cors)
                    return make_response(decision)
            stub = get_stub(
                environment[target.binding].raw,
                target.name,
                jurisdiction=target.jurisdiction or jurisdiction,
                location_hint=target.location_hint or location_hint,
            )
            response = await _forward(stub, target.name, raw)
            return response if upgrade or cors is False else _add_cors(response, cors)

    return Default


async def _find(
    raw: Any, environment: Environment, prefix: str, resolve: Resolver | None
) -> tuple[Target, AgentRoute] | None:
    """The object that a request is for.

    :raises RoutingError: it is addressed to an agent that is not there.
    """
    if resolve is not None:
        target = await settle(resolve(_seen(raw), environment))
        if target is not None:
            check_target(target, environment.object_bindings())
            path = urlsplit(str(raw.url)).path.lstrip("/")
            return target, AgentRoute(kebab_case(target.binding), target.name, path)
    route = parse_agent_path(str(raw.url), prefix=prefix)
    if route is None:
        return None
    return Target(match_agent(route.agent, environment.object_bindings()), route.name), route


def _seen(raw: Any) -> HttpRequest:
    """What gates and resolvers see of a request: everything but its body."""
    headers: dict[str, str] = js.Object.fromEntries(raw.headers).to_py()
    return HttpRequest(str(raw.method), str(raw.url), headers)


def _replaced(raw: Any, request: HttpRequest) -> Any:
    """The request that goes on instead: other URL, method or headers; its body unless given."""
    options: dict[str, Any] = {"method": request.method, "headers": dict(request.headers)}
    if request.body:
        options["body"] = to_js(request.body)
    return js.Request.new(js.Request.new(request.url, raw), to_object(options))


async def _other(raw: Any, environment: Environment, fallback: Fallback | None) -> Any:
    if fallback is None:
        return make_response(error_response(404, "not found"))
    try:
        request = await read_request(raw)
    except LimitError as error:
        return make_response(error_response(413, str(error)))
    return make_response(await fallback(request, environment))


async def _forward(stub: Any, name: str, request: Any) -> Any:
    """Pass a request on with the raw stub, so that nothing of Python owns a proxied WebSocket.

    A request without a body is sent again when the object was being moved or reset.
    """
    pause = _FIRST_PAUSE_SECONDS
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return await stub.fetch(request)
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
