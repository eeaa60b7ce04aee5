"""``urllib.request`` inside the Worker, for https too: pyodide-http over the platform's fetch.

The runtime's sockets have no TLS, so ``urllib.request`` alone reaches no https address. The package
``pyodide-http`` sends its requests with the browser's XMLHttpRequest, which workerd does not have;
without it the package does nothing, silently. Here it is given one: an XMLHttpRequest in Python
that waits for ``fetch`` by switching stacks. What the package leaves out of ``urlopen`` (``data``,
``timeout``, errors for error statuses, addresses that are not HTTP) is added around it.
"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import js
from pyodide.ffi import JsException, create_proxy, run_sync, to_js

from palimpsest.hosts.workers.ffi import bytes_of, to_object

DEFAULT_TIMEOUT_SECONDS = 60.0
"""How long a request may take unless ``urlopen`` is told otherwise."""

_ENCODING = "iso8859-15"
"""What pyodide-http writes an answer's bytes as; every byte has a character in it."""

_timeout: ContextVar[float | None] = ContextVar("urllib_timeout", default=DEFAULT_TIMEOUT_SECONDS)
_original_open: Callable[..., Any] = urllib.request.OpenerDirector.open


class FetchRequest:
    """As much of XMLHttpRequest as pyodide-http uses, synchronous, over ``fetch``.

    https://xhr.spec.whatwg.org/
    """

    def __init__(self) -> None:
        self.status = 0
        self.response = ""
        self._method = "GET"
        self._url = ""
        self._sent_headers: dict[str, str] = {}
        self._received_headers: dict[str, str] = {}

    def overrideMimeType(self, kind: str) -> None:
        """The answer is always given as pyodide-http asks for it here."""

    def open(self, method: str, url: str, asynchronous: bool) -> None:
        """Remember what to send."""
        self._method, self._url = method, url

    def setRequestHeader(self, name: str, value: str) -> None:
        """Remember a header."""
        self._sent_headers[name] = value

    def send(self, body: Any) -> None:
        """Send the request and wait for the whole answer.

        :raises urllib.error.URLError: the network failed, or the time was over.
        """
        run_sync(self._fetch(body, _timeout.get()))

    def getAllResponseHeaders(self) -> str:
        """The answer's headers, one a line."""
        return "".join(f"{name}: {value}\r\n" for name, value in self._received_headers.items())

    async def _fetch(self, body: Any, seconds: float | None) -> None:
        controller = js.AbortController.new()
        options: dict[str, Any] = {
            "method": self._method,
            "headers": self._sent_headers,
            "signal": controller.signal,
        }
        if body is not None:
            options["body"] = body if not isinstance(body, bytes) else to_js(body)
        try:
            async with asyncio.timeout(seconds):
                answer = await js.fetch(self._url, to_object(options))
                content = bytes_of(await answer.arrayBuffer())
        except TimeoutError:
            controller.abort()
            raise urllib.error.URLError(TimeoutError("timed out")) from None
        except JsException as error:
            raise urllib.error.URLError(str(error.message)) from None
        self.status = int(answer.status)
        self.response = content.decode(_ENCODING)
        self._received_headers = js.Object.fromEntries(answer.headers).to_py()


_installed: list[bool] = []
"""Not empty once it is installed; asking JavaScript at every wake would cost more."""


def install_urllib_transport() -> None:
    """Make ``urllib.request`` work for https in this isolate; doing it again changes nothing."""
    if _installed or not _patched:
        return
    _installed.append(True)
    # An object with a method "new", not a class: of a JavaScript class, Python's "new" would make
    # a JavaScript object.
    js.XMLHttpRequest = to_object({"new": create_proxy(FetchRequest)})
    js.crossOriginIsolated = False


def _patch_urllib() -> bool:
    """Patch ``urllib.request`` where the platform has no XMLHttpRequest; whether it was done.

    Everything here is Python's own state, so that it is part of a memory snapshot: compiling the
    package takes longer than all else that a first request needs.
    """
    if hasattr(js, "XMLHttpRequest"):
        return False
    js.crossOriginIsolated = False  # pyodide-http asks; its own streaming needs shared memory
    import pyodide_http
    from pyodide_http import _urllib

    # The package is to be used, though there is no XMLHttpRequest before the first request.
    pyodide_http.__dict__["_SHOULD_PATCH"] = True
    pyodide_http.patch_urllib()
    urllib.request.urlopen = _complete(_urllib.urlopen)
    urllib.request.OpenerDirector.open = _as_method(urllib.request.urlopen)  # type: ignore[method-assign]
    return True


def _complete(send: Callable[..., Any]) -> Callable[..., Any]:
    """``urlopen`` with all that its documentation promises, around pyodide-http's."""

    def urlopen(
        url: str | urllib.request.Request,
        data: bytes | None = None,
        timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
        *,
        context: Any = None,
    ) -> Any:
        request = urllib.request.Request(url) if isinstance(url, str) else url
        if data is not None:
            request.data = data
        if request.type not in ("http", "https"):
            return _original_open(urllib.request.build_opener(), request)
        if request.data is not None and not request.has_header("Content-type"):
            request.add_unredirected_header("Content-type", "application/x-www-form-urlencoded")
        token = _timeout.set(timeout if isinstance(timeout, int | float) else None)
        try:
            answer = send(request)
        finally:
            _timeout.reset(token)
        if answer.status >= 400:
            raise urllib.error.HTTPError(
                request.full_url, answer.status, answer.reason, answer.headers, answer
            )
        return answer

    return urlopen


def _as_method(urlopen: Callable[..., Any]) -> Callable[..., Any]:
    def open_request(self: Any, fullurl: Any, data: Any = None, timeout: Any = None) -> Any:
        return urlopen(fullurl, data, timeout or DEFAULT_TIMEOUT_SECONDS)

    return open_request


_patched = _patch_urllib()
