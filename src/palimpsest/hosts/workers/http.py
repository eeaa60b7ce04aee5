"""Requests and responses between JavaScript and the host seam."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

import js
from pyodide.ffi import to_js

from palimpsest.actor.http import error_response as error_answer
from palimpsest.errors import LimitError
from palimpsest.hosts.interface import MAX_BODY_BYTES, HttpRequest, HttpResponse
from palimpsest.hosts.workers.ffi import bytes_of, is_nothing, to_object
from palimpsest.hosts.workers.host import WorkersHost
from palimpsest.hosts.workers.outgoing import stream_chunks


def read_head(raw: Any) -> HttpRequest:
    """A JavaScript Request without its body."""
    headers: dict[str, str] = js.Object.fromEntries(raw.headers).to_py()
    return HttpRequest(str(raw.method), str(raw.url), headers)


_CODES = {400: "bad_request", 404: "not_found", 413: "too_large", 503: "unavailable"}


async def read_request(raw: Any, head: HttpRequest | None = None) -> HttpRequest:
    """A JavaScript Request with its whole body.

    :param head: the same without its body, where that was read already.
    :raises LimitError: the body is larger than :data:`MAX_BODY_BYTES`. No more of it is read: the
        memory belongs to all objects of the isolate.
    """
    head = read_head(raw) if head is None else head
    if is_nothing(raw.body):
        return head
    return replace(head, body=await _read_body(raw, head.headers.get("content-length")))


async def _read_body(raw: Any, length: str | None) -> bytes:
    if length is not None and length.isascii() and length.isdigit():
        _check_body(int(length))
        return bytes_of(await raw.arrayBuffer())
    pieces: list[bytes] = []
    size = 0
    async with aclosing(cast("AsyncGenerator[bytes, None]", stream_chunks(raw.body))) as chunks:
        async for piece in chunks:
            size += len(piece)
            _check_body(size)
            pieces.append(piece)
    return b"".join(pieces)


def _check_body(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise LimitError(f"a body has at most {MAX_BODY_BYTES} bytes")


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
    """An error as JSON, in the form of all errors: ``{"error": {"code", "message"}}``."""
    code = _CODES.get(status, "refused" if status < 500 else "failed")
    return error_answer(status, code, message)
