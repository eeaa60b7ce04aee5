"""What compaction costs as a conversation grows.

The trigger after each write at several lengths of the conversation, an append with and without it,
a compaction of the same number of new messages behind a short and a long past, and the steps in
which a long conversation is compacted that never was before. Times are those
of requests to one object in workerd, less an empty request, for one operation; medians.
"""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any

from support.bench import Bench
from support.worker_config import define_worker
from support.workerd import Workerd

WORKER = Path(__file__).parent / "workers" / "compaction_worker.py"
CLASSES = {"Bench": "Bench"}
NEW_MESSAGES = 400
GROW_AT_ONCE = 2_000


class Conversation:
    """One object with a conversation of a known length."""

    def __init__(self, running: Workerd, name: str, size: int) -> None:
        self.running = running
        self.name = name
        self.size = 0
        self.grow(size)

    def ask(self, operation: str, times: int = 1, **query: Any) -> dict[str, Any]:
        fields = {"op": operation, "times": times, "start": self.size, **query}
        text = "&".join(f"{key}={value}" for key, value in fields.items())
        url = f"{self.running.url}/agents/bench/{self.name}?{text}"
        with urllib.request.urlopen(url, timeout=300) as response:
            return json.loads(response.read())

    def grow(self, count: int) -> None:
        while count:
            step = min(count, GROW_AT_ONCE)
            self.ask("grow", step)
            self.size += step
            count -= step

    def milliseconds(self, operation: str, times: int) -> float:
        """One request, as long as it takes."""
        began = time.perf_counter()
        self.ask(operation, times)
        took = (time.perf_counter() - began) * 1000
        if operation.startswith("append"):
            self.size += times
        return took

    def each(self, operation: str, times: int, rounds: int) -> float:
        """Milliseconds for one operation."""
        self.milliseconds(operation, times)
        empty = statistics.median(self.milliseconds("nothing", 1) for _ in range(rounds))
        taken = statistics.median(self.milliseconds(operation, times) for _ in range(rounds))
        return max(0.0, taken - empty) / times


def run(bench: Bench) -> None:
    """Record all figures of compaction."""
    sizes = [100, 1_000] if bench.quick else [100, 10_000, 100_000]
    times, rounds = (2_000, 3) if bench.quick else (20_000, 9)
    worker = define_worker(WORKER, object_classes=CLASSES, assets=False)
    with bench.worker(worker) as running:
        conversations = [Conversation(running, f"size-{size}", size) for size in sizes]
        _measure_trigger(bench, conversations, times, rounds)
        _measure_append(bench, conversations, 50, rounds)
        _measure_compaction(bench, conversations[:2])
        for size in [1_000, 5_000] if bench.quick else [10_000, 100_000]:
            _measure_backlog(bench, Conversation(running, f"backlog-{size}", size))


def _measure_trigger(
    bench: Bench, conversations: list[Conversation], times: int, rounds: int
) -> None:
    first: float | None = None
    rows: int | None = None
    for conversation in conversations:
        size = conversation.size
        took = conversation.each("trigger", times, rounds) * 1000
        bench.record(
            f"compaction trigger at {size:,} messages",
            took,
            "us",
            against=None if first is None else f"at {conversations[0].size:,} messages",
            compared=first,
        )
        read = int(conversation.ask("trigger", 1, rows=1)["read"])
        bench.record(
            f"rows read by the trigger at {size:,} messages",
            read,
            "rows",
            against=f"at {conversations[0].size:,} messages" if rows else None,
            compared=rows or None,
        )
        first = took if first is None else first
        rows = read if rows is None else rows


def _measure_append(
    bench: Bench, conversations: list[Conversation], times: int, rounds: int
) -> None:
    for conversation in conversations:
        size = conversation.size
        plain = conversation.each("append-plain", times, rounds)
        watched = conversation.each("append", times, rounds)
        bench.record(
            f"append with compact_after at {size:,} messages",
            watched,
            "ms",
            against="append without",
            compared=plain,
        )


def _measure_compaction(bench: Bench, conversations: list[Conversation]) -> None:
    first: float | None = None
    for conversation in conversations:
        conversation.ask("compact")
        taken: list[float] = []
        for _ in range(2 if bench.quick else 5):
            conversation.grow(NEW_MESSAGES)
            began = time.perf_counter()
            answer = conversation.ask("compact")
            taken.append((time.perf_counter() - began) * 1000)
            if answer["status"] != "compacted":
                raise RuntimeError(f"expected a compaction, got {answer}")
        took = statistics.median(taken)
        bench.record(
            f"compaction of {NEW_MESSAGES} messages behind {conversation.size:,}",
            took,
            "ms",
            against=None if first is None else "the shortest past",
            compared=first,
        )
        first = took if first is None else first


def _measure_backlog(bench: Bench, conversation: Conversation) -> None:
    """A conversation that was never compacted, in the steps in which alarms do it."""
    conversation.ask("backlog")
    steps: list[float] = []
    while True:
        began = time.perf_counter()
        answer = conversation.ask("step")
        steps.append(time.perf_counter() - began)
        if not answer["remaining"]:
            break
    size = f"a backlog of {conversation.size:,} messages"
    bench.record(f"steps of {size}", len(steps), "steps")
    bench.record(f"median step of {size}", statistics.median(steps), "s")
    bench.record(
        f"longest step of {size}",
        max(steps),
        "s",
        against="the median",
        compared=statistics.median(steps),
    )
    bench.record(f"all of {size}", sum(steps), "s")
    bench.record(f"context left of {size}", answer["tokens"], "tokens")
