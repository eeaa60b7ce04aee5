"""Storage of one's own for a session: what a provider has to offer.

``Session.create(provider)`` makes a session over it. A provider keeps **one** conversation; one
with ``for_session(session_id)`` is asked for another's by ``Session.create(provider)
.for_session(session_id)``. Every method may be plain or async: what it returns is a value or an
awaitable of one. Messages are JSON objects (see :mod:`palimpsest.messages`); the session checks
what is written before the provider sees it, and what is read before the caller does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from palimpsest.errors import SessionProviderError
from palimpsest.messages import Message
from palimpsest.session.changes import UNSET, UnsetType

__all__ = ["UNSET", "MaybeAwaitable", "SessionProvider", "SessionProviderExtras", "UnsetType"]

T = TypeVar("T")

MaybeAwaitable = T | Awaitable[T]
"""A value, or what gives it when awaited."""

REQUIRED = (
    "get_message",
    "get_history",
    "get_latest_leaf",
    "get_branches",
    "get_path_length",
    "append_message",
    "update_message",
    "delete_messages",
    "clear_messages",
    "add_compaction",
    "get_compactions",
)
"""The methods without which an object is no :class:`SessionProvider`."""


class SessionProvider(Protocol):
    """The storage of one conversation: a tree of messages, and overlays over parts of it.

    Any exception that a method raises reaches the session's caller as it is.
    """

    def get_message(self, message_id: str) -> MaybeAwaitable[Mapping[str, Any] | None]:
        """A stored message by its id, or None. An overlay's own id names no message."""
        ...

    def get_history(self, leaf_id: str | None) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]:
        """The path from the root to a message (None: to the newest), overlays laid over it.

        Laying overlays is the provider's part. Going down the path, at each message the newest
        overlay that begins there and ends on this path at it or below is shown in place of its
        whole range, as ``{"id": "compaction_" + its id, "role": "assistant", "parts": [a text
        part with the summary]}``; to any path this is done by
        :func:`palimpsest.session.provided.overlaying.with_overlays`. Empty for an unknown id. A
        message inside the tree is as good a leaf as any.
        """
        ...

    def get_latest_leaf(self) -> MaybeAwaitable[Mapping[str, Any] | None]:
        """The message that was added last, which ends the active branch; None without any."""
        ...

    def get_branches(self, message_id: str) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]:
        """The children of a message in the order they were added; empty for an unknown id."""
        ...

    def get_path_length(self, leaf_id: str | None) -> MaybeAwaitable[int]:
        """How many messages a path has, those under overlays counted; 0 for an unknown id."""
        ...

    def append_message(
        self, message: Message, parent_id: str | UnsetType | None
    ) -> MaybeAwaitable[bool | None]:
        """Add a message. An id that is there already changes nothing: the call is idempotent.

        :param parent_id: one of three: :data:`UNSET` is "behind the newest message", None a new
            root, a text the id of the parent.
        :returns: whether it was added; None where that cannot be told, which costs the session
            one more read before each append.
        :raises UnknownParentError: there is no such parent. The session has looked before, but
            the message may be gone since.
        """
        ...

    def update_message(self, message: Message) -> MaybeAwaitable[None]:
        """Replace the message of the same id, which keeps its place; an unknown id is ignored."""
        ...

    def delete_messages(self, ids: list[str]) -> MaybeAwaitable[None]:
        """Remove messages; unknown ids are ignored.

        Children move to the nearest message above that stays, so no path is cut. An overlay goes
        on covering what is left of its range, and ends with the last of it.
        """
        ...

    def clear_messages(self) -> MaybeAwaitable[None]:
        """Remove all messages and overlays."""
        ...

    def add_compaction(self, summary: str, from_id: str, to_id: str) -> MaybeAwaitable[Any]:
        """Store an overlay over the messages from ``from_id`` to ``to_id``, both of one path.

        :returns: the overlay, as :meth:`get_compactions` gives it, or None.
        """
        ...

    def get_compactions(self) -> MaybeAwaitable[Sequence[Any]]:
        """All overlays, the oldest first, those that newer ones cover included.

        Each is a ``StoredCompaction`` or a mapping with ``id``, ``summary``, ``fromMessageId``,
        ``toMessageId`` and ``createdAt`` (ms since 1970, an ISO text or a ``datetime``), in
        camelCase or snake_case.
        """
        ...


class SessionProviderExtras(Protocol):
    """What a :class:`SessionProvider` may offer besides; each method is used if it is there."""

    def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: int
    ) -> MaybeAwaitable[Any]:
        """The newest messages of a path within a budget of bytes, overlays laid.

        :returns: a ``RecentHistory``, or a mapping with ``messages``, ``truncated`` and
            ``totalContentBytes``. Without this method the whole history is read.
        """
        ...

    def get_history_row_stats(self, leaf_id: str | None) -> MaybeAwaitable[Sequence[Any]]:
        """``id``, ``role`` and ``bytes`` of each message of a path, without overlays or content.

        :returns: ``HistoryRowStat`` objects or mappings; ``tokens`` and ``createdAt`` may be left
            out. Without this method the originals are read.
        """
        ...

    def search_messages(self, query: str, limit: int) -> MaybeAwaitable[Sequence[Any]]:
        """The messages that answer a query in plain words, the best first.

        :returns: ``SearchResult`` objects, or mappings with ``id``, ``role``, ``content`` and
            optionally ``createdAt``, ``score`` and ``sessionId``. Without this method
            ``Session.search`` raises.
        """
        ...

    def get_originals(self, leaf_id: str | None) -> MaybeAwaitable[Sequence[Mapping[str, Any]]]:
        """A path without overlays. Without this method it is walked by :meth:`get_branches`."""
        ...

    def remove_compaction(self, compaction_id: str) -> MaybeAwaitable[bool]:
        """Delete an overlay; whether there was one. Removing overlays and ``forget`` need this."""
        ...

    def for_session(self, session_id: str) -> SessionProvider:
        """The provider of another conversation in the same storage."""
        ...


def check_provider(owner: object) -> bool:
    """Whether this is a storage provider; False for agents, hosts and everything else.

    :raises SessionProviderError: it has some of the required methods, but not all of them.
    """
    platform = getattr(owner, "host", owner)
    if hasattr(platform, "sql") and hasattr(platform, "now"):
        return False
    missing = [name for name in REQUIRED if not callable(getattr(owner, name, None))]
    if len(missing) == len(REQUIRED):
        return False
    if missing:
        raise SessionProviderError(
            f"{type(owner).__name__} is no SessionProvider, it lacks: {', '.join(missing)}"
        )
    return True
