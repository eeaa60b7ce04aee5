"""Each step of a long backlog has an alarm, and with it an event's CPU time, of its own."""

from __future__ import annotations

import asyncio

import pytest

from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.messages import text_message
from palimpsest.session.session import Session
from palimpsest.testing import LocalHost


class SlowClock(LocalHost):
    """A host whose clock goes on by seconds while a step works, as a step's does on Cloudflare."""

    def work_for(self, milliseconds: int) -> None:
        self._clock += milliseconds


def test_a_step_that_takes_long_does_not_take_the_next_one_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("palimpsest.session.compacting.steps.STEP_MESSAGES", 40)
    host = SlowClock()
    steps_of_alarm: list[int] = []

    async def summarize(prompt: str) -> str:
        steps_of_alarm[-1] += 1
        return "## Topic\nboxes"

    async def run() -> list[int]:
        compact = create_compact_function(summarize, tail_token_budget=100)
        session = Session.create(host).on_compaction(compact).compact_after(400)
        await session.append_messages(
            [text_message(f"m{i}", "user", f"Box {i} stands in room {i % 7}.") for i in range(200)]
        )
        # The clock shows what a step took only when it has been stored.
        session.subscribe(lambda event: host.work_for(5_000) if event.kind == "compact" else None)
        handler = host.alarm_handler
        assert handler is not None

        async def counted() -> None:
            steps_of_alarm.append(0)
            await handler()

        host.alarm_handler = counted
        await host.advance(600)
        assert session.context_tokens() <= 400
        return [count for count in steps_of_alarm if count]

    assert asyncio.run(run()) == [1, 1, 1, 1, 1]
