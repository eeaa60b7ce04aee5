"""Connections: hibernating WebSockets with an id, tags, and state that survives hibernation.

A socket's attachment is one JSON object with two parts: what the library keeps, and what the user
keeps with ``connection.state``; neither can touch the other. Reading the id, the tags or the
session needs no attachment, so that a broadcast to many connections stays cheap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from palimpsest.errors import ConnectionStateError, LimitError
from palimpsest.hosts.interface import MAX_TAG_LENGTH, MAX_TAGS, Host, HttpResponse, Socket
from palimpsest.messages import dump_json

RESERVED_TAG_PREFIX = "~"
"""Tags that begin with this belong to the library."""

ID_TAG = "~id="
"""The first tag of a connection: this, then its id.

Clients choose their ids. As a tag of its own an id would put its owner among the connections of a
user's tag, and what is sent to "admins" would reach whoever calls itself so.
"""

MAX_CONNECTION_ID_LENGTH = MAX_TAG_LENGTH - len(ID_TAG)
"""The longest id that a client may choose, in characters."""

PROTOCOL_TAG = "~session="
"""Tag of connections that get the protocol's frames: this, then the session's name."""

MAX_USER_TAGS = MAX_TAGS - 2
"""How many tags a user may give: the platform's limit less the id and the session."""

ID_PARAMETER = "_pk"
"""The query parameter in which the npm clients name the connection, stable across reconnects."""


_HASHED = "sha256="


def connection_id(url: str) -> str | None:
    """The id that the client asks for in ``_pk``, or None if it gives none that can be a tag."""
    wanted = query_of(url).get(ID_PARAMETER, "")
    return wanted if 0 < len(wanted) <= MAX_CONNECTION_ID_LENGTH else None


def query_of(url: str) -> dict[str, str]:
    """The query parameters of a URL, the last value of each."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def session_tag(session: str) -> str:
    """The tag of protocol connections to a session."""
    tag = PROTOCOL_TAG + session
    if len(tag) <= MAX_TAG_LENGTH and not session.startswith(_HASHED):
        return tag
    return PROTOCOL_TAG + _HASHED + hashlib.sha256(session.encode()).hexdigest()


class Connection:
    """One client's connection. Two objects for the same socket are equal."""

    __slots__ = ("_attachment", "_id", "_tags", "socket")

    def __init__(self, socket: Socket, *, identifier: str | None = None) -> None:
        self.socket = socket
        self._attachment: dict[str, Any] | None = None
        self._id = identifier
        self._tags: list[str] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Connection) and self.socket == other.socket

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Connection {self.id}>"

    def _all_tags(self) -> list[str]:
        if self._tags is None:
            self._tags = self.socket.tags
        return self._tags

    def _load(self) -> dict[str, Any]:
        if self._attachment is None:
            value = self.socket.get_attachment()
            self._attachment = value if isinstance(value, dict) else {}
        return self._attachment

    def _save(self) -> None:
        self.socket.set_attachment(self._attachment)

    @property
    def id(self) -> str:
        """The client's ``_pk``; several sockets may carry the same."""
        if self._id is None:
            tags = self._all_tags()
            self._id = tags[0].removeprefix(ID_TAG) if tags else ""
        return self._id

    @property
    def tags(self) -> list[str]:
        """The user's tags."""
        return [tag for tag in self._all_tags()[1:] if not tag.startswith(RESERVED_TAG_PREFIX)]

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent."""
        return self.socket.is_open

    @property
    def url(self) -> str:
        """The URL of the request that opened the connection."""
        return str(self._load().get("url", ""))

    @property
    def query(self) -> Mapping[str, str]:
        """The query parameters of :attr:`url`, the last value of each."""
        return query_of(self.url)

    @property
    def session_id(self) -> str:
        """The query parameter ``session``; '' where there is none."""
        for tag in self._all_tags():
            if tag.startswith(PROTOCOL_TAG) and not tag.startswith(PROTOCOL_TAG + "sha256="):
                return tag[len(PROTOCOL_TAG) :]
        return self.query.get("session", "")

    @property
    def connected_at(self) -> int:
        """When it was opened, in ms since 1970."""
        return int(self._load().get("at", 0))

    @property
    def readonly(self) -> bool:
        """Whether state updates from this client are refused."""
        return bool(self._load().get("readonly", False))

    def set_readonly(self, readonly: bool = True) -> None:
        """Refuse (or allow) state updates from this client, from now on."""
        self._load()["readonly"] = readonly
        self._save()

    @property
    def watches_only(self) -> bool:
        """Whether it came with a read-only token: it may call only what changes nothing."""
        return bool(self._load().get("watcher", False))

    @property
    def protocol_enabled(self) -> bool:
        """Whether the protocol's own frames (identity, state, chat) are sent to this client."""
        return any(tag.startswith(PROTOCOL_TAG) for tag in self._all_tags())

    @property
    def state(self) -> Any:
        """The user's JSON value that lives with the connection, None at first."""
        return self._load().get("user")

    def set_state(self, value: Any) -> None:
        """Keep a JSON value with the connection, also through hibernation.

        :raises ConnectionStateError: it does not fit into the attachment (16 KiB in all).
        """
        before = self.state
        self._load()["user"] = value
        try:
            self._save()
        except LimitError as error:
            self._load()["user"] = before
            raise ConnectionStateError(f"connection state: {error}") from error

    def get_internal(self, key: str) -> Any:
        """A value that a part of the library keeps with the connection, None at first."""
        return self._load().get("library", {}).get(key)

    def set_internal(self, key: str, value: Any) -> None:
        """Keep a small JSON value for a part of the library; None removes it."""
        library = self._load().setdefault("library", {})
        if value is None:
            library.pop(key, None)
        else:
            library[key] = value
        self._save()

    def send(self, message: str | bytes | Mapping[str, Any] | Sequence[Any]) -> None:
        """Send text or bytes as they are, anything else as JSON.

        :raises LimitError: it is larger than a WebSocket message may be.
        """
        self.socket.send(message if isinstance(message, str | bytes) else dump_json(message))

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close it. Codes 1008 and 4000 to 4999 tell the npm clients not to reconnect."""
        self.socket.close(code, reason)


class Connections:
    """The open connections of one agent."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def accept(
        self,
        *,
        identifier: str,
        url: str,
        tags: Sequence[str],
        readonly: bool,
        protocol: bool,
        watcher: bool = False,
    ) -> tuple[Connection, HttpResponse]:
        """Accept an upgrade.

        :param watcher: whether it came with a read-only token.
        :raises LimitError: too many tags, a bad tag, or a URL too long to be kept.
        """
        if len(tags) > MAX_USER_TAGS:
            raise LimitError(f"a connection carries at most {MAX_USER_TAGS} tags, got {len(tags)}")
        if any(tag.startswith(RESERVED_TAG_PREFIX) for tag in tags):
            raise LimitError(f"tags that begin with {RESERVED_TAG_PREFIX!r} are reserved: {tags}")
        session = query_of(url).get("session", "")
        own = [session_tag(session)] if protocol else []
        attachment = {"url": url, "at": self._host.now()}
        if readonly or watcher:
            attachment["readonly"] = True
        if watcher:
            attachment["watcher"] = True
        socket, response = self._host.accept_socket([ID_TAG + identifier, *own, *tags], attachment)
        return Connection(socket, identifier=identifier), response

    def __iter__(self) -> Iterator[Connection]:
        return iter([Connection(socket) for socket in self._open(None)])

    def __len__(self) -> int:
        return len(self._open(None))

    def _open(self, tag: str | None) -> list[Socket]:
        return [socket for socket in self._host.sockets(tag) if socket.is_open]

    def get(self, identifier: str) -> Connection | None:
        """The connection with this id; the one opened last if there are several."""
        found = self.with_tag(ID_TAG + identifier)
        return max(found, key=lambda connection: connection.connected_at, default=None)

    def with_tag(self, tag: str) -> list[Connection]:
        """The connections that carry ``tag``."""
        return [Connection(socket) for socket in self._open(tag)]

    def of_session(self, session: str) -> list[Connection]:
        """The protocol connections whose URL asked for ``session``."""
        return self.with_tag(session_tag(session))

    def broadcast(
        self,
        message: str | bytes | Mapping[str, Any] | Sequence[Any],
        *,
        exclude: Collection[str | Connection] = (),
        tag: str | None = None,
        session: str | None = None,
        protocol_only: bool = False,
        where: Callable[[Connection], bool] | None = None,
    ) -> int:
        """Send one message to many; how many it was sent to. One that fails does not stop the rest.

        :param exclude: connections, or ids of connections, that do not get it.
        :param tag: only connections that carry this tag.
        :param session: only protocol connections of this session.
        :param protocol_only: only connections that get the protocol's frames.
        :param where: a further condition.
        :raises LimitError: the message is larger than a WebSocket message may be.
        """
        data = message if isinstance(message, str | bytes) else dump_json(message)
        sockets = self._open(tag if session is None else session_tag(session))
        ids = {item for item in exclude if isinstance(item, str)}
        skipped = [item for item in exclude if isinstance(item, Connection)]
        sent = 0
        for socket in sockets:
            connection = Connection(socket)
            if (ids and connection.id in ids) or connection in skipped:
                continue
            if protocol_only and not connection.protocol_enabled:
                continue
            if where is not None and not where(connection):
                continue
            try:
                socket.send(data)
            except LimitError:
                raise
            except Exception as error:
                self._host.log(
                    {
                        "event": "connection.send_failed",
                        "connection": connection.id,
                        "error": type(error).__name__,
                    }
                )
                socket.close(1011, "could not be sent to")
                continue
            sent += 1
        return sent
