"""The actor beside bare Python Durable Objects: a wake to the first reply, and a round trip.

Wake: objects with an open socket have hibernated; a message to each, until its answer. Round trip:
calls of a callable method in sequence, and as many messages to an object that only echoes. The
client is the same, so its own time is in both.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from support.bench import Bench, in_turn
from support.worker_config import WorkerDefinition, define_worker
from support.workerd import Workerd
from websockets.sync.client import ClientConnection, connect

WORKERS = Path(__file__).parent / "workers"
BARE = "bare Python Durable Object"
SLEEP_SECONDS = 13
"""Longer than the ten seconds after which workerd lets an idle object hibernate."""

CLOSE_SECONDS = 0.05
"""workerd ends the connection of a closed hibernating socket late; nothing waits for that here."""

CALL = '{"type":"rpc","id":"1","method":"echo","args":["hello"]}'


def worker(name: str) -> WorkerDefinition:
    """A Worker of this bench, with the class ``Echo``."""
    return define_worker(WORKERS / name, object_classes={"Echo": "Echo"}, assets=False)


def open_sockets(
    stack: ExitStack, running: Workerd, path: str, count: int
) -> list[ClientConnection]:
    """Sockets to ``count`` objects, each having answered once."""
    sockets: list[ClientConnection] = []
    for number in range(count):
        address = f"{running.socket_url}{path}wake-{time.time_ns()}-{number}"
        socket = stack.enter_context(connect(address, close_timeout=CLOSE_SECONDS))
        reply(socket, "first", "first")
        sockets.append(socket)
    return sockets


def reply(socket: ClientConnection, message: str, holds: str) -> float:
    """Milliseconds from sending a message until an answer that holds a text."""
    began = time.perf_counter()
    socket.send(message)
    while holds not in str(socket.recv(timeout=30)):
        pass
    return (time.perf_counter() - began) * 1000


def trips(running: Workerd, path: str, count: int, message: str, holds: str) -> Callable[[], float]:
    """Measures the median of ``count`` round trips in ms on one connection."""

    def measure() -> float:
        address = f"{running.socket_url}{path}trips"
        with connect(address, close_timeout=CLOSE_SECONDS) as socket:
            for _ in range(20):
                reply(socket, message, holds)
            return statistics.median(reply(socket, message, holds) for _ in range(count))

    return measure


def run(bench: Bench) -> None:
    """Measure ours and the bare object in turn."""
    objects = 4 if bench.quick else 20
    count = 50 if bench.quick else 400
    with (
        bench.worker(worker("actor_worker.py")) as ours,
        bench.worker(worker("bare_echo_worker.py")) as bare,
        ExitStack() as stack,
    ):
        mine, theirs = in_turn(
            3 if bench.quick else 9,
            trips(ours, "/agents/echo/", count, CALL, '"done":true'),
            trips(bare, "/", count, CALL, json.loads(CALL)["type"]),
        )
        bench.record("callable round trip", mine, "ms", against=BARE, compared=theirs)
        sleeping = [
            open_sockets(stack, ours, "/agents/echo/", objects),
            open_sockets(stack, bare, "/", objects),
        ]
        time.sleep(SLEEP_SECONDS)
        waking: list[list[float]] = [[], []]
        for pair in zip(*sleeping, strict=True):
            for which, socket in enumerate(pair):
                waking[which].append(reply(socket, "wake up", "wake up"))
        bench.record(
            "wake to first reply",
            statistics.median(waking[0]),
            "ms",
            against=BARE,
            compared=statistics.median(waking[1]),
        )
