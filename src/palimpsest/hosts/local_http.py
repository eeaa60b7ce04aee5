"""Outgoing HTTP of the local host: HTTP/1.1 over asyncio streams, bodies piece by piece.

The standard library has no asynchronous HTTP client, and a blocking one in a thread cannot be
given up in the middle of an answer. Each request has a connection of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from urllib.parse import SplitResult, quote, urljoin, urlsplit

MAX_REDIRECTS = 20
"""Redirects that one request follows, as the platform's fetch does."""

MAX_LINE_BYTES = 65_536
"""The longest header line."""

_SAFE = "%/:=&?~+!$,;'@()*[]"
"""What an address may hold as it is; the percent sign because it may be encoded already."""

_READ_BYTES = 65_536
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class LocalFetchResponse:
    """The answer to an outgoing request; its body is read from the connection as it arrives."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        has_body: bool,
    ) -> None:
        self.status = status
        self.headers = headers
        self._reader = reader
        self._writer = writer
        self._has_body = has_body

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """See :meth:`palimpsest.hosts.interface.FetchResponse.chunks`.

        :raises ConnectionError: the connection ended before the body did.
        """
        try:
            if self._has_body:
                async for piece in self._pieces():
                    yield piece
        except (OSError, asyncio.IncompleteReadError, ValueError) as error:
            raise ConnectionError(f"the connection was lost: {error}") from error
        finally:
            self._writer.close()

    async def read(self) -> bytes:
        """The whole body.

        :raises ConnectionError: the connection ended before the body did.
        """
        return b"".join([piece async for piece in self.chunks()])

    async def discard(self) -> None:
        """Give the answer up."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _pieces(self) -> AsyncIterator[bytes]:
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            while size := int((await self._reader.readline()).split(b";")[0], 16):
                remaining = size
                while remaining:
                    piece = await self._reader.read(min(remaining, _READ_BYTES))
                    if not piece:
                        raise asyncio.IncompleteReadError(b"", remaining)
                    remaining -= len(piece)
                    yield piece
                await self._reader.readexactly(2)
            return
        length = self.headers.get("content-length")
        remaining = int(length) if length is not None else None
        while remaining is None or remaining > 0:
            piece = await self._reader.read(
                _READ_BYTES if remaining is None else min(remaining, _READ_BYTES)
            )
            if not piece:
                if remaining:
                    raise asyncio.IncompleteReadError(b"", remaining)
                return
            if remaining is not None:
                remaining -= len(piece)
            yield piece


async def send_request(
    method: str,
    url: str,
    headers: Mapping[str, str] | None,
    body: bytes | None,
    timeout: float | None,
) -> LocalFetchResponse:
    """Send an outgoing request; see :meth:`palimpsest.hosts.interface.Host.fetch`.

    :raises ConnectionError: the network failed.
    :raises TimeoutError: no headers arrived in time.
    """
    try:
        async with asyncio.timeout(timeout):
            return await _follow(method, url, dict(headers or {}), body)
    except TimeoutError:
        raise TimeoutError(f"no answer from {url} within {timeout} s") from None
    except ConnectionError:
        raise
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        raise ConnectionError(f"{url}: {error}") from error


async def _follow(
    method: str, url: str, headers: dict[str, str], body: bytes | None
) -> LocalFetchResponse:
    for _hop in range(MAX_REDIRECTS + 1):
        response = await _send(method, url, headers, body)
        target = response.headers.get("location")
        if response.status not in _REDIRECTS or target is None:
            return response
        await response.discard()
        following = urljoin(url, target)
        if urlsplit(following).netloc != urlsplit(url).netloc:
            # A key must not follow to another server.
            headers = {
                name: value for name, value in headers.items() if name.lower() != "authorization"
            }
        url = following
        if response.status == 303 or (response.status in (301, 302) and method == "POST"):
            method, body = "GET", None
    raise ConnectionError(f"{url}: more than {MAX_REDIRECTS} redirects")


async def _send(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None
) -> LocalFetchResponse:
    address = urlsplit(url)
    secure = address.scheme == "https"
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ConnectionError(f"not an HTTP address: {url}")
    reader, writer = await asyncio.open_connection(
        address.hostname,
        address.port or (443 if secure else 80),
        ssl=ssl.create_default_context() if secure else None,
        limit=MAX_LINE_BYTES,
    )
    try:
        writer.write(_head(method, address, headers, body) + (body or b""))
        await writer.drain()
        status, received = await _read_head(reader)
    except BaseException:
        writer.close()
        raise
    has_body = method != "HEAD" and status not in (204, 304)
    return LocalFetchResponse(status, received, reader, writer, has_body=has_body)


def _head(
    method: str, address: SplitResult, headers: Mapping[str, str], body: bytes | None
) -> bytes:
    target = quote(address._replace(scheme="", netloc="", fragment="").geturl() or "/", safe=_SAFE)
    sent = {
        "host": address.netloc.rpartition("@")[2],
        "user-agent": "palimpsest",
        "accept": "*/*",
        "accept-encoding": "identity",
        **{name.lower(): value for name, value in headers.items()},
        "connection": "close",
    }
    if body is not None:
        sent["content-length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header must not contain a line break")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    while True:
        start = (await reader.readline()).decode("latin-1").split(None, 2)
        if len(start) < 2 or not start[0].startswith("HTTP/"):
            raise ConnectionError("the server closed the connection without an answer")
        headers: dict[str, str] = {}
        while line := (await reader.readline()).decode("latin-1").strip():
            name, _colon, value = line.partition(":")
            key = name.strip().lower()
            value = value.strip()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        if not start[1].startswith("1"):  # 100 Continue and its kind come before the answer
            return int(start[1]), headers
