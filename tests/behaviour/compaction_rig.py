"""What the tests of compaction share: a conversation, a summarizer, a session that tells."""

from __future__ import annotations

from typing import Any

from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.messages import Message, text_message
from palimpsest.session.session import Session


def fact(index: int) -> str:
    return f"Box {index} has the code BX-{1000 + index} and stands in room {index % 7}."


def talk(count: int, start: int = 0) -> list[Message]:
    return [
        text_message(f"m{i}", "user" if i % 2 == 0 else "assistant", fact(i))
        for i in range(start, start + count)
    ]


class Summarizer:
    """Answers what it is told to, in turn; the last answer repeats."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers) or ["## Topic\nboxes and codes"]
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> Any:
        self.prompts.append(prompt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, str) or answer is None:
            return answer
        work: Any = answer
        return await work(prompt)


class Listening:
    """A session with everything that it told."""

    def __init__(self, host: Any, summarize: Any, threshold: int | None = 400) -> None:
        self.errors: list[Exception] = []
        self.frames: list[dict[str, Any]] = []
        compact = create_compact_function(summarize, tail_token_budget=100)
        self.session = Session.create(host).on_compaction(compact)
        self.session.on_compaction_error(self.errors.append)
        if threshold is not None:
            self.session.compact_after(threshold)
        self.session.compactor.add_listener(self.frames.append)

    def phases(self) -> list[str]:
        return [
            frame["phase"] if frame["type"] == "cf_agent_session" else "error"
            for frame in self.frames
        ]


async def originals(session: Session) -> list[str]:
    return [message["id"] for message in await session.get_originals()]


async def shown(session: Session) -> list[str]:
    ids = [message["id"] for message in await session.get_history()]
    return ["overlay" if one.startswith("compaction_") else one for one in ids]
