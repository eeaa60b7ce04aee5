"""What a session tells of its changes, and to whom."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from palimpsest.hosts.interface import Host
from palimpsest.messages import Message


class UnsetType(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "unset"


UNSET = UnsetType.UNSET
"""For ``parent_id``: behind the newest message (None would mean: as a new root)."""

ChangeKind = Literal[
    "append", "update", "import", "delete", "clear", "forget", "compaction", "compact"
]


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What became of a message that was to be added.

    ``inserted`` is False where a message with that id was there already: ``message`` is then the
    stored one, and nothing changed.
    """

    inserted: bool
    message: Message


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """A committed change of a session.

    ``compaction`` is an overlay added or removed by hand, ``compact`` one that compaction made;
    ``message_ids`` are then the ends of its range.
    """

    kind: ChangeKind
    session_id: str
    message_ids: tuple[str, ...] = ()
    message: Message | None = None
    inserted: bool = False


ChangeListener = Callable[[ChangeEvent], Awaitable[None] | None]
"""Called after a change is committed; it may be async, and is awaited before the call returns."""


class Changes:
    """The listeners of one session. An error of a listener is logged and harms nobody else."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.listeners: list[ChangeListener] = []
        """Whoever is told; empty where nobody listens."""

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        """Call ``listener`` after each change, until the function returned is called."""
        self.listeners.append(listener)

        def unsubscribe() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return unsubscribe

    async def emit(self, event: ChangeEvent) -> None:
        """Tell every listener."""
        for listener in list(self.listeners):
            try:
                result = listener(event)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                self._host.log(
                    {
                        "event": "session.listener_failed",
                        "kind": event.kind,
                        "sessionId": event.session_id,
                        "error": repr(error),
                    }
                )
