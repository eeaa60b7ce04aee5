"""Requests and responses between JavaScript and the host seam."""

from __future__ import annotations

import json
from typing import Any

import js
from pyodide.ffi import to_js

from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers.ffi import bytes_of, is_nothing, to_object
from palimpsest.hosts.workers.host import WorkersHost


async def read_request(raw: Any) -> HttpRequest:
    """A JavaScript Request with its whole body."""
    headers: dict[str, str] = js.Object.fromEntries(raw.headers).to_py()
    body = b"" if is_nothing(raw.body) else bytes_of(await raw.arrayBuffer())
    return HttpRequest(str(raw.method), str(raw.url), headers, body)


def make_response(response: HttpResponse, host: WorkersHost | None = None) -> Any:
    """A JavaScript Response; ``host`` is needed for a body that is produced piece by piece."""
    options: dict[str, Any] = {"status": response.status, "headers": dict(response.headers)}
    if response.upgrade is not None:
        options["webSocket"] = response.upgrade
    body = response.body
    if isinstance(body, str):
        content: Any = body or None
    elif isinstance(body, bytes):
        content = to_js(body) if body else None
    elif host is None:
        raise TypeError("a streaming body needs a host")
    else:
        content = host.stream_body(body)
    return js.Response.new(content, to_object(options))


def error_response(status: int, message: str) -> HttpResponse:
    """An error as JSON."""
    headers = {"content-type": "application/json"}
    return HttpResponse(status, headers, json.dumps({"error": message}))
