"""A session as the chat shows and changes it: the active branch, its transcript, its answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.chat.approvals import ApprovalSeal
from palimpsest.chat.frames import chat_messages
from palimpsest.chat.oversize import shortened_to_fit
from palimpsest.chat.reconcile import apply_client_part
from palimpsest.chat.transcripts import newest_originals
from palimpsest.errors import LimitError
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, Part, dump_json, is_tool_part, text_of
from palimpsest.session.session import Session
from palimpsest.store.encoding import MAX_MESSAGE_BYTES
from palimpsest.store.turns import TurnStore

MAX_TRANSCRIPT_BYTES = 8 * 1024 * 1024
"""How much of a long transcript is shown at once: its newest part; the rest is paged."""

TOOL_SEARCH_DEPTH = 50
"""How many of the newest messages are searched for a tool call that a client answers."""

TITLE_LENGTH = 60

NEW_NAME = "New conversation"
"""The name of a session until its first user message gives it one."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool part and the message it stands in."""

    message: Message
    index: int

    @property
    def part(self) -> Part:
        """The part."""
        return self.message["parts"][self.index]

    def with_part(self, part: Part) -> Message:
        """The message with another part in its place."""
        parts = list(self.message["parts"])
        parts[self.index] = part
        return {**self.message, "parts": parts}


class Conversation:
    """The chat's view of one session."""

    def __init__(self, host: Host, session: Session, turns: TurnStore) -> None:
        self.session = session
        self.id = session.id
        self.seal = ApprovalSeal(host)
        """Tells calls made here from calls that a client brought."""
        self._host = host
        self._turns = turns

    async def leaf_id(self) -> str | None:
        """The end of the branch that is shown; None while there is no message."""
        chosen = self._turns.active_leaf(self.id)
        if chosen is not None:
            if await self.session.get_message(chosen) is not None:
                return chosen
            self._turns.set_active_leaf(self.id, None)
        leaf = await self.session.get_latest_leaf()
        return None if leaf is None else str(leaf["id"])

    def show(self, leaf: str | None) -> None:
        """Show the branch that ends there; None follows the newest message."""
        self._turns.set_active_leaf(self.id, leaf)

    async def append(self, messages: Sequence[Message], parent: str | None) -> list[str]:
        """Store messages one behind the other; those stored already stay where they are.

        :returns: their ids.
        :raises UnknownParentError: the parent was removed meanwhile.
        """
        now = self._host.now()
        stamped = [_stamped(message, now) for message in messages]
        if stamped:
            await self.session.append_messages(stamped, parent)
            self._follow()
        return [str(message["id"]) for message in messages]

    async def save_answer(self, message: Message, parent: str | None) -> None:
        """Store an answer, or what it has become.

        Of one that is too large for a message, the largest results are shortened: it was written,
        and its tools have run.
        """
        try:
            await self.session.upsert_message(message, parent)
        except LimitError:
            fitting = shortened_to_fit(message, MAX_MESSAGE_BYTES)
            await self.session.upsert_message(fitting, parent)
        self._follow()

    def _follow(self) -> None:
        # What was stored last is the newest message, so no choice needs to be remembered.
        if self._turns.active_leaf(self.id) is not None:
            self._turns.set_active_leaf(self.id, None)

    async def transcript(self, max_bytes: int = MAX_TRANSCRIPT_BYTES) -> list[str]:
        """The messages of the active branch as JSON, originals, oldest first.

        Each text holds one or more messages with commas between them. Of a transcript larger than
        ``max_bytes`` only the newest part.
        """
        leaf = await self.leaf_id()
        return [] if leaf is None else newest_originals(self.session, leaf, max_bytes)

    def _newest_first(self, leaf: str) -> AsyncGenerator[Message, None]:
        walk = self.session.history(leaf, newest_first=True, overlays=False)
        return cast("AsyncGenerator[Message, None]", walk)

    async def transcript_frame(
        self, waiting: Sequence[Message] = (), *, connect: bool = False
    ) -> str:
        """The frame that shows the conversation, then the messages of turns that wait."""
        shown = await self.transcript()
        return chat_messages([*shown, *map(dump_json, waiting)], connect=connect)

    async def find_tool_call(self, tool_call_id: str) -> Found | None:
        """The call among the newest messages of the active branch."""
        leaf = await self.leaf_id()
        if leaf is None:
            return None
        depth = 0
        async with aclosing(self._newest_first(leaf)) as messages:
            async for message in messages:
                for index, part in enumerate(message["parts"]):
                    if is_tool_part(part) and part.get("toolCallId") == tool_call_id:
                        return Found(message, index)
                depth += 1
                if depth >= TOOL_SEARCH_DEPTH:
                    return None
        return None

    async def take_client_parts(self, parts: Sequence[Part]) -> Message | None:
        """Take over results that a client's transcript has and the store lacks.

        :returns: the message that changed last, None if none did.
        """
        changed: Message | None = None
        for sent in parts:
            found = await self.find_tool_call(str(sent.get("toolCallId", "")))
            if found is None:
                continue
            if self.runs_here(found.part):
                continue
            answered = apply_client_part(found.part, sent)
            if answered is not None:
                changed = found.with_part(answered)
                await self.session.update_message(changed)
        return changed

    def runs_here(self, part: Part) -> bool:
        """Whether a call was approved and is run here next: a client's result does not count."""
        return part.get("state") == "approval-responded" and self.seal.is_own(part)

    async def last_assistant(self) -> Message | None:
        """The message at the end of the active branch, if an assistant wrote it."""
        leaf = await self.leaf_id()
        message = None if leaf is None else await self.session.get_message(leaf)
        return message if message is not None and message["role"] == "assistant" else None


def _stamped(message: Message, now: int) -> Message:
    """The message with ``metadata.createdAt``, if the client gave none."""
    metadata: Any = message.get("metadata")
    if metadata is None:
        return {**message, "metadata": {"createdAt": now}}
    if isinstance(metadata, dict) and "createdAt" not in metadata:
        return {**message, "metadata": {**metadata, "createdAt": now}}
    return message


def title_from(message: Message) -> str:
    """A conversation's title, from its first user message."""
    written = text_of(message, " ").encode(errors="replace").decode()  # no lone surrogates
    text = " ".join(written.replace("\0", " ").split())
    if not text:
        return NEW_NAME
    if len(text) <= TITLE_LENGTH:
        return text
    head = text[:TITLE_LENGTH].rsplit(" ", 1)[0]
    return f"{head or text[:TITLE_LENGTH]}…"
