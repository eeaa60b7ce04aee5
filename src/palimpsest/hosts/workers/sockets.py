"""Hibernating WebSockets."""

from __future__ import annotations

import json
from typing import Any

from pyodide.ffi import JsException, to_js

from palimpsest.hosts.limits import check_socket_message, dump_attachment

_OPEN = 1
"""``WebSocket.readyState`` while messages can be sent."""


class WorkersSocket:
    """The server's end of a hibernating WebSocket."""

    __slots__ = ("_context", "_id", "_send", "_tags", "raw")

    def __init__(self, raw: Any, context: Any) -> None:
        self.raw = raw
        self._context = context
        self._id: int = raw.js_id
        self._tags: list[str] | None = None
        self._send: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WorkersSocket) and other._id == self._id

    def __hash__(self) -> int:
        return hash(self._id)

    @property
    def tags(self) -> list[str]:
        """The tags given at acceptance."""
        if self._tags is None:
            self._tags = list(self._context.getTags(self.raw).to_py())
        return list(self._tags)

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return self.raw.readyState == _OPEN

    def send(self, data: str | bytes) -> None:
        """See :meth:`palimpsest.hosts.interface.Socket.send`."""
        check_socket_message(data)
        send = self._send
        if send is None:
            send = self._send = self.raw.send  # looked up once: a stream sends thousands
        try:
            # A bare ``bytes`` would arrive as the text of its repr.
            send(data if isinstance(data, str) else to_js(data))
        except JsException:
            if self.is_open:
                raise

    def close(self, code: int = 1000, reason: str = "") -> None:
        """See :meth:`palimpsest.hosts.interface.Socket.close`."""
        try:
            self.raw.close(code, reason)
        except JsException:
            # A code that may not be sent (1005, 1006, 1015), or a socket closed already.
            if self.is_open:
                self.raw.close(1000, reason)

    def get_attachment(self) -> Any:
        """See :meth:`palimpsest.hosts.interface.Socket.get_attachment`."""
        text = self.raw.deserializeAttachment()
        return json.loads(text) if isinstance(text, str) else None

    def set_attachment(self, value: Any) -> None:
        """See :meth:`palimpsest.hosts.interface.Socket.set_attachment`."""
        self.raw.serializeAttachment(dump_attachment(value))
