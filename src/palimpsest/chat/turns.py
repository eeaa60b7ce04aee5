"""Turns: what the user's hook is given, and what happens to messages sent while one runs.

Every session has one lane: turns run one at a time, in the order in which they were accepted. What
may interleave with a running turn, whenever it awaits, is everything else: frames and requests of
all clients, turns of other sessions, and the alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from palimpsest.abort import Abort
from palimpsest.messages import Message
from palimpsest.session.session import Session

Strategy = Literal["queue", "latest", "merge", "drop", "debounce"]

DEFAULT_DEBOUNCE_MS = 750

MAX_WAITING_TURNS = 100
"""The most turns that may wait in one session; further requests are refused."""

APPEND_ONLY = "append-only"
"""The trigger of a turn that only stores its messages: it was cancelled before it ran."""

BEGUN = "begun"
"""The field of a stored request that names the approved calls which have begun to run."""

BASE_PARTS = "baseParts"
"""The field of a stored request that says how many parts the continued answer had before."""

CONTINUE = "continue"
"""The trigger of a turn that continues the last answer."""


@dataclass(frozen=True, slots=True)
class Concurrency:
    """What happens to a message that is submitted while a turn runs or waits.

    - ``queue``: it waits; every message gets its own answer, in order.
    - ``latest``: it takes the place of those that wait; they stay in the conversation, unanswered.
    - ``merge``: it becomes one message with those that wait, which gets one answer.
    - ``drop``: it is refused, and the client's transcript is set back.
    - ``debounce``: the turn begins when no message has come for ``debounce_ms``.
    """

    strategy: Strategy = "queue"
    debounce_ms: int = DEFAULT_DEBOUNCE_MS

    def __post_init__(self) -> None:
        if self.strategy not in ("queue", "latest", "merge", "drop", "debounce"):
            raise ValueError(f"unknown concurrency strategy {self.strategy!r}")
        if not 0 <= self.debounce_ms <= 60_000:
            raise ValueError(f"debounce_ms is 0 to 60000, got {self.debounce_ms}")

    @classmethod
    def of(cls, value: Concurrency | Strategy) -> Concurrency:
        """The policy that a user named.

        :raises ValueError: there is none of that name.
        """
        return value if isinstance(value, Concurrency) else cls(value)


@dataclass(slots=True)
class Turn:
    """One turn, as the hook ``on_chat_message`` sees it."""

    session: Session
    session_id: str
    request_id: str
    trigger: str
    """``submit-message``, ``regenerate-message`` or ``continue``."""
    message: Message | None
    """The user message that is answered."""
    message_id: str
    """The id of the answer."""
    leaf_id: str | None
    """The end of the history that the model is to see: ``session.get_history(turn.leaf_id)``."""
    base: Message | None = None
    """The stored answer that this turn continues, with the client's results applied."""
    client_tools: list[dict[str, Any]] = field(default_factory=lambda: list[dict[str, Any]]())
    """Tools that the client can run: ``[{name, description?, parameters?}]``."""
    body: dict[str, Any] = field(default_factory=lambda: dict[str, Any]())
    """What else the client sent with the request."""
    abort: Abort = field(default_factory=Abort)
    """Set when the turn is stopped; its task is cancelled shortly after."""
    last_step_tokens: int | None = None
    """What the provider reported of the last model step, prompt and answer together."""
    recovering: bool = False
    """Whether the turn was interrupted and is taken up again."""
    own_calls: set[str] = field(default_factory=lambda: set[str]())
    """Ids of the calls that run, or have run, here: a client's result counts for none of them."""
    on_begin: Callable[[Sequence[str]], None] = field(default=lambda _: None, repr=False)
    """Told of :meth:`begin_calls`."""

    def begin_calls(self, call_ids: Sequence[str]) -> None:
        """Say that the tools of these calls run now, here, before they do.

        It is stored: should the process die, none of them is run a second time. The default answer
        says it by itself; an answer of your own that runs tools should.
        """
        self.own_calls.update(call_ids)
        self.on_begin(call_ids)


def merge_messages(messages: Sequence[Message]) -> list[Message]:
    """Several user messages as one: the last one's id, everybody's parts."""
    if len(messages) < 2:
        return list(messages)
    merged = dict(messages[-1])
    merged["parts"] = [part for message in messages for part in message["parts"]]
    return [merged]
