"""workerd is killed while the summarizer works: nothing is lost, attempts end, the chat goes on."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.workerd import Workerd

from tests.fixtures import StartWorker

WORKER = Path(__file__).parent / "workers" / "compacting_worker.py"


def ask(running: Workerd, **query: object) -> dict[str, Any]:
    text = "&".join(f"{key}={value}" for key, value in query.items())
    url = f"{running.url}/agents/compacting/one?{text}"
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.loads(response.read())


def wait_for(
    running: Workerd, reached: Callable[[dict[str, Any]], bool], seconds: float = 90
) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while True:
        state = ask(running, op="state")
        if reached(state):
            return state
        assert time.monotonic() < deadline, state
        time.sleep(0.3)


def test_killed_while_summarizing(start_worker: StartWorker) -> None:
    running = start_worker(WORKER)
    ask(running, op="mode", mode="hang")
    ask(running, op="fill", start=0)
    for kills in (1, 2, 3):
        state = wait_for(running, lambda state, kills=kills: state["asked"] >= kills)
        assert state["overlays"] == 0
        assert state["phase"] == "compacting"
        running.kill()
        running.start("/agents/compacting/one?op=state")
        state = ask(running, op="state")
        assert state["originals"] == [f"m{number}" for number in range(40)]
        assert state["failures"] >= kills, "a run that dies is counted"
    # After three it asks no more and does without a model, although the summarizer still hangs.
    state = wait_for(running, lambda state: state["overlays"] == 1)
    assert state["asked"] == 3
    assert state["tokens"] <= 400
    assert "BX-10" in state["text"]
    # The conversation goes on.
    ask(running, op="fill", start=40)
    state = wait_for(running, lambda state: state["tokens"] <= 400)
    assert state["originals"] == [f"m{number}" for number in range(80)]
    assert state["history"][-1] == "m79"


def test_killed_once_and_then_served(start_worker: StartWorker) -> None:
    running = start_worker(WORKER)
    ask(running, op="mode", mode="hang")
    ask(running, op="fill", start=0)
    wait_for(running, lambda state: state["asked"] == 1)
    running.kill()
    running.start("/agents/compacting/one?op=mode&mode=answer")
    state = wait_for(running, lambda state: state["overlays"] >= 1)
    assert state["failures"] == 0
    assert "## Topic\nboxes" in state["text"]
    running.kill()
    running.start("/agents/compacting/one?op=state")
    again = ask(running, op="state")
    assert again["history"] == state["history"]
    assert again["overlays"] == state["overlays"]


def test_killed_in_the_middle_of_a_long_backlog(start_worker: StartWorker) -> None:
    """Whatever a kill meets, a step or the time between two, at most one step is done again."""
    running = start_worker(WORKER)
    ask(running, op="mode", mode="slow")
    ask(running, op="import", n=9_000)
    ends: list[str] = []
    for done in (1, 2, 3):
        state = wait_for(running, lambda state, done=done: len(state["ends"]) >= done)
        running.kill()
        running.start("/agents/compacting/one?op=mode&mode=slow")
        again = ask(running, op="state")
        assert again["ends"][: len(state["ends"])] == state["ends"], "what was stored stands"
        assert len(again["originals"]) == 9_000
        ends = again["ends"]
    state = wait_for(running, lambda state: state["tokens"] <= 400)
    assert state["originals"] == [f"m{number}" for number in range(9_000)]
    assert state["ends"][: len(ends)] == ends
    assert state["failures"] == 0
    positions = [int(end.removeprefix("m")) for end in state["ends"]]
    assert positions == sorted(set(positions)), "each step goes on where the last one ended"
    assert positions[0] < 3_000
    assert state["history"][-1] == "m8999"
