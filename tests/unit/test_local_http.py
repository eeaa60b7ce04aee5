"""The local host's outgoing HTTP."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from palimpsest.hosts.local_http import send_request

Serving = AsyncGenerator[tuple[str, list[str]], None]


@asynccontextmanager
async def server(
    answer: bytes, *, then_wait: bool = False
) -> AsyncGenerator[tuple[str, list[str]]]:
    """A server that gives the same answer to everything; its address and what it was sent."""
    received: list[str] = []
    gone = asyncio.Event()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head)
        body = await reader.readexactly(int(length.group(1))) if length else b""
        received.append(head + body.decode())
        target = head.split()[1]
        moved = b"HTTP/1.1 302 Found\r\nlocation: /there?x=1\r\ncontent-length: 0\r\n\r\n"
        writer.write(moved if target == "/moved" else answer)
        await writer.drain()
        if then_wait:
            await reader.read()
            received.append("gone")
            gone.set()
        writer.close()

    running = await asyncio.start_server(connected, "127.0.0.1")
    port = running.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}", received
        if then_wait:
            await asyncio.wait_for(gone.wait(), 5)
    finally:
        running.close()


OK = b"HTTP/1.1 200 OK\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 5\r\n\r\nhello, and more"
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"5;x=y\r\nhello\r\n1\r\n \r\n6\r\nworld!\r\n0\r\n\r\n"
)


async def test_a_body_with_a_length() -> None:
    async with server(OK) as (url, received):
        response = await send_request("POST", f"{url}/a b?q=é", {"X-Key": "k"}, b"body", 5)
        assert (response.status, response.headers["x-a"]) == (200, "1, 2")
        assert await response.read() == b"hello"
    assert received[0].startswith("POST /a%20b?q=%C3%A9 HTTP/1.1")
    assert received[0].endswith("body")
    assert "x-key: k" in received[0]


async def test_a_chunked_body() -> None:
    async with server(CHUNKED) as (url, _received):
        response = await send_request("GET", url, None, None, 5)
        assert await response.read() == b"hello world!"


async def test_redirects_are_followed_and_a_post_becomes_a_get() -> None:
    async with server(OK) as (url, received):
        response = await send_request("POST", f"{url}/moved", None, b"x", 5)
        assert await response.read() == b"hello"
    assert received[1].startswith("GET /there?x=1 HTTP/1.1")


async def test_a_body_that_ends_early_is_an_error() -> None:
    for answer in (OK.replace(b": 5", b": 500"), CHUNKED.removesuffix(b"0\r\n\r\n")):
        async with server(answer) as (url, _received):
            response = await send_request("GET", url, None, None, 5)
            with pytest.raises(ConnectionError, match="lost"):
                await response.read()


async def test_leaving_early_closes_the_connection() -> None:
    async with server(CHUNKED.removesuffix(b"0\r\n\r\n"), then_wait=True) as (url, received):
        response = await send_request("GET", url, None, None, 5)
        chunks = response.chunks()
        async for chunk in chunks:
            assert chunk == b"hello"
            break
        await chunks.aclose()
    assert received[-1] == "gone"


async def test_failures_have_the_promised_types() -> None:
    with pytest.raises(ConnectionError):
        await send_request("GET", "http://127.0.0.1:9/", None, None, 5)
    with pytest.raises(ConnectionError, match="not an HTTP address"):
        await send_request("GET", "ftp://x/", None, None, 5)
    with pytest.raises(ConnectionError, match="line break"):
        async with server(OK) as (url, _received):
            await send_request("GET", url, {"a": "b\r\nc: d"}, None, 5)
    async with server(b"nonsense\r\n\r\n") as (url, _received):
        with pytest.raises(ConnectionError):
            await send_request("GET", url, None, None, 5)
    async with server(b"", then_wait=True) as (url, _received):
        with pytest.raises(TimeoutError):
            await send_request("GET", url, None, None, 0.1)
