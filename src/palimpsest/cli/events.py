"""What happens on a connection to an agent, as the terminal client shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Connected:
    """The socket is open. ``again`` is True after a lost connection."""

    again: bool


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The socket was lost; the next attempt is made after ``retry_seconds``."""

    reason: str
    retry_seconds: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The agent closed the socket for good (codes 1008 and 4000 to 4999)."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkReceived:
    """One chunk of an answer (AI SDK UI message stream), each once and in order.

    The type ``restart`` is our own: the text until here is void, the agent writes it anew.
    """

    request_id: str
    chunk: dict[str, Any]
    own: bool
    """Whether the answer is to a message of this client."""


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """An answer is complete: ``outcome`` is completed, aborted, error, skipped or recovering."""

    request_id: str
    outcome: str
    error: str | None
    own: bool


@dataclass(frozen=True, slots=True)
class Compaction:
    """The state of summarizing: ``phase`` is idle or compacting; counts are tokens."""

    phase: str
    token_estimate: int | None
    token_threshold: int | None


@dataclass(frozen=True, slots=True)
class CompactionFailed:
    """Summarizing failed; nothing was changed."""

    error: str


@dataclass(frozen=True, slots=True)
class AnswerRestored:
    """The rest of an answer that ended while the connection was lost."""

    request_id: str
    message: dict[str, Any]


Event = (
    Connected
    | Disconnected
    | Refused
    | ChunkReceived
    | TurnEnded
    | Compaction
    | CompactionFailed
    | AnswerRestored
)
