"""A thousand schedules of mixed kinds, five restarts, and every run counted."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from typing import Any

from actors import restarted, started

from palimpsest.actor.agent import Agent
from palimpsest.actor.schedules import ScheduledRun
from palimpsest.actor.timing import next_cron

RESTARTS = 5
STEP_SECONDS = 75


class Planner(Agent):
    """Declares all its schedules whenever it starts."""

    origin = 0
    log: list[tuple[str, int, int]]
    """What fired: the payload, the time it was due, the time it ran."""

    def on_start(self) -> None:
        for number in range(400):
            self.schedule(number * 1.1, "fired", f"delayed {number}")
            moment = datetime.datetime.fromtimestamp(
                self.origin / 1000 + 1 + number * 1.05, datetime.UTC
            )
            self.schedule(moment, "fired", f"dated {number}")
        for number in range(100):
            line = f"{number % 60} * * * * *" if number % 2 else f"*/{1 + number % 3} * * * *"
            self.schedule(line, "fired", f"cron {number}")
            self.schedule_every(60 + number, "fired", f"interval {number}")

    def fired(self, payload: str, run: ScheduledRun) -> None:
        self.log.append((payload, run.due_ms, self.host.now()))


async def test_a_thousand_schedules_fire_in_order_and_exactly_as_often_as_due(host: Any) -> None:
    Planner.origin, Planner.log = host.now(), []
    agent = await started(host, Planner)
    plan = agent.list_schedules()
    assert len(plan) == 1000
    for _ in range(RESTARTS):
        now: Any = agent.host
        await now.advance(STEP_SECONDS)
        agent = await restarted(agent)
        recurring = [s for s in agent.list_schedules() if s.type in ("cron", "interval")]
        assert len(recurring) == 200
        one_time = [s for s in agent.list_schedules() if s.type in ("delayed", "scheduled")]
        assert len(one_time) == 800 - sum(p.startswith("d") for p, _, _ in Planner.log)
    now = agent.host
    await now.advance(STEP_SECONDS)
    end = agent.host.now()
    expected: Counter[str] = Counter()
    for schedule in plan:
        at = schedule.at_ms
        while at <= end:
            expected[schedule.payload] += 1
            if schedule.cron is not None:
                at = next_cron(schedule.cron, at)
            elif schedule.interval_seconds is not None:
                at += int(schedule.interval_seconds * 1000)
            else:
                break
    assert Counter(payload for payload, _, _ in Planner.log) == expected
    assert sum(expected.values()) > 1500
    due = [at for _, at, _ in Planner.log]
    assert all(earlier <= later for earlier, later in itertools.pairwise(due))
    assert all(at == ran for _, at, ran in Planner.log)
