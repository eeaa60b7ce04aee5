"""Random conversations that are compacted, changed, branched and crashed, and what must hold."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.compaction.policy import BudgetRatioPolicy
from palimpsest.compaction.tool_pairs import describe_tool_use
from palimpsest.messages import Message, is_compaction_message, text_message, text_of
from palimpsest.session.session import Session
from palimpsest.testing import LocalHost

_TEXT = "box key room lamp gate stone river Ada Ravi Mei 42 BX-7 decided because"
WORDS = _TEXT.split()


class Machine:
    """One random history with a reference of what was stored."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.host = LocalHost()
        self.threshold = self.random.choice([120, 250, 600])
        self.policy = self.random.choice(["head_tail", "budget_ratio", "extractive"])
        self.stored: dict[str, Message] = {}
        self.parents: dict[str, str | None] = {}
        self.newest: str | None = None
        self.count = 0
        self.disturb = False
        self.session = self.open()

    def open(self) -> Session:
        session = Session.create(self.host).compact_after(self.threshold)
        if self.policy == "head_tail":
            session.on_compaction(
                create_compact_function(
                    self.summarize,
                    protect_head=self.random.randrange(4),
                    tail_token_budget=self.random.choice([0, 60, 20_000]),
                    min_tail_messages=self.random.randrange(4),
                    summarizer_window=self.random.choice([None, 1_500]),
                )
            )
        elif self.policy == "budget_ratio":
            session.on_compaction(BudgetRatioPolicy(self.summarize, self.threshold))
        return session

    async def summarize(self, prompt: str) -> str:
        assert prompt.count("</transcript>") == 1
        await asyncio.sleep(0)
        if self.disturb and self.random.random() < 0.5:
            await self.change()
        if self.disturb:
            await self.append()
        choice = self.random.random()
        if choice < 0.1:
            raise TimeoutError
        if choice < 0.15:
            return ""
        if choice < 0.2:
            return "word " * 2_000
        return f"## Topic\n{self.random.choice(WORDS)} {len(prompt)}"

    # -- what a conversation does -----------------------------------------------------------

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 25))) + "."

    def new_id(self) -> str:
        self.count += 1
        return f"m{self.count}"

    def messages(self) -> list[Message]:
        """The next messages: one, or a call and its results in messages of their own."""
        kind = self.random.random()
        if kind < 0.35:
            return [text_message(self.new_id(), "user", self.text())]
        if kind < 0.6:
            return [text_message(self.new_id(), "assistant", self.text())]
        if kind < 0.65:
            return [text_message(self.new_id(), "system", self.text())]
        if kind < 0.72:
            url = "data:image/png;base64," + "A" * self.random.choice([80, 4_000])
            part = {"type": "file", "mediaType": "image/png", "url": url}
            return [{"id": self.new_id(), "role": "user", "parts": [part]}]
        ids = [f"c{self.count}-{i}" for i in range(self.random.randint(1, 4))]
        if kind < 0.85:
            return [
                {"id": self.new_id(), "role": "assistant", "parts": [self.call(i) for i in ids]}
            ]
        opened = [{"type": "tool-run", "toolCallId": i, "input": {"n": i}} for i in ids]
        group: list[Message] = [{"id": self.new_id(), "role": "assistant", "parts": opened}]
        answered = [i for i in ids if self.random.random() < 0.85]
        self.random.shuffle(answered)
        while answered:
            size = self.random.randint(1, len(answered))
            parts = [
                {"type": "tool-result", "toolCallId": i, "toolName": "run", "output": {"v": i}}
                for i in answered[:size]
            ]
            answered = answered[size:]
            group.append({"id": self.new_id(), "role": "tool", "parts": parts})
        return group

    def call(self, identifier: str) -> dict[str, Any]:
        part: dict[str, Any] = {"type": "tool-run", "toolCallId": identifier, "input": {"n": 1}}
        state = self.random.choice(["output-available", "output-error", "input-available"])
        part["state"] = state
        if state == "output-available":
            part["output"] = {"value": self.text()}
        elif state == "output-error":
            part["errorText"] = self.text()
        return part

    async def append(self) -> None:
        for message in self.messages():
            await self.add(message, self.newest)

    async def add(self, message: Message, parent: str | None) -> None:
        await self.session.append_message(message, parent)
        self.stored[message["id"]] = message
        self.parents[message["id"]] = parent
        self.newest = message["id"]

    async def branch(self) -> None:
        parent = self.random.choice(list(self.stored))
        await self.add(text_message(self.new_id(), "user", self.text()), parent)

    async def change(self) -> None:
        """Change the text of a stored message without tool parts or standing orders."""
        plain = [
            one
            for one in self.stored.values()
            if one["role"] != "system" and not describe_tool_use(one).any
        ]
        if plain:
            chosen = self.random.choice(plain)
            changed = {**chosen, "parts": [{"type": "text", "text": self.text()}]}
            await self.session.update_message(changed)
            self.stored[chosen["id"]] = changed

    async def crash(self) -> None:
        """The process dies at some await of a compaction; the next instance goes on."""
        work = asyncio.ensure_future(self.host.run_alarm())
        for _ in range(self.random.randint(0, 30)):
            await asyncio.sleep(0)
        old = self.host
        self.host = old.restarted()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        self.session = self.open()

    # -- what must hold ---------------------------------------------------------------------

    def path(self) -> list[str]:
        ids: list[str] = []
        at = self.newest
        while at is not None:
            ids.append(at)
            at = self.parents[at]
        return ids[::-1]

    async def check(self) -> None:
        path = self.path()
        originals = {message["id"]: message for message in await self.session.get_originals()}
        assert list(originals) == path
        assert originals == {one: self.stored[one] for one in path}, "originals are unchanged"
        shown = await self.session.get_history()
        real = [message["id"] for message in shown if not is_compaction_message(message)]
        assert real == [one for one in path if one in set(real)], "the order is the path's"
        users = [one for one in path if self.stored[one]["role"] == "user"]
        if users:
            assert users[-1] in real, "the newest user message stays"
        self.check_pairs(path, real)
        again = await self.session.get_history()
        assert again == shown, "a second read gives the same"
        systems = {text_of(self.stored[o]) for o in path if self.stored[o]["role"] == "system"}
        whole = "\n".join(text_of(message) for message in shown)
        for text in systems:
            assert text in whole, "standing instructions stay"

    def check_pairs(self, path: list[str], real: list[str]) -> None:
        """A result is shown if and only if its call is."""
        owner: dict[str, str] = {}
        visible = set(real)
        for one in path:
            use = describe_tool_use(self.stored[one])
            for identifier in use.calls:
                owner[identifier] = one
            for identifier in use.results:
                if identifier in owner:
                    together = (owner[identifier] in visible, one in visible)
                    assert together[0] == together[1], f"{identifier} is parted"

    async def settle(self) -> None:
        """Let the alarm do its work; then the context fits or the engine says that it waits."""
        await self.host.advance(1)
        await self.host.advance(100)
        await self.host.advance(700)
        status = self.session.compactor.status()
        tokens = self.session.context_tokens()
        if tokens > self.threshold + 1:
            waiting = status.next_tokens > tokens or status.failures > 0
            assert waiting, f"{tokens} tokens above {self.threshold} and nothing is said"
        overlays = await self.session.get_compactions()
        await self.host.advance(100)
        assert await self.session.get_compactions() == overlays, "a second run changes nothing"


async def live(seed: int) -> None:
    """One random history from beginning to end."""
    machine = Machine(seed)
    try:
        for _ in range(machine.random.randint(4, 14)):
            step = machine.random.random()
            if step < 0.62 or not machine.stored:
                for _ in range(machine.random.randint(1, 8)):
                    await machine.append()
            elif step < 0.68:
                await machine.branch()
            elif step < 0.74:
                await machine.change()
            elif step < 0.8:
                await machine.crash()
            elif step < 0.87:
                machine.disturb = True
                await machine.host.advance(1)
                machine.disturb = False
            elif step < 0.92:
                before = machine.random.randint(60, 900)
                report = await machine.session.compactor.ensure_room(before)
                assert report.fits == (machine.session.context_tokens() <= before)
            elif step < 0.96:
                await machine.session.compact()
            else:
                machine.session.compactor.undo_newest_overlay()
            await machine.check()
        await machine.settle()
        await machine.check()
    finally:
        machine.host.close()
