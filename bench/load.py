"""500 hibernating sockets over 50 agents: no lost frame, memory flat.

Rounds of work and of rest: in each, one client of every agent changes the state a few times and
all ten clients must see every change in order; then everything is silent for longer than the ten
seconds after which workerd hibernates an object. ``--quick`` runs two short rounds; the length is
otherwise two minutes, or ``PALIMPSEST_LOAD_MINUTES`` (30 in the nightly run).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any

from support.bench import Bench
from support.worker_config import define_worker
from support.workerd import Workerd
from websockets.asyncio.client import ClientConnection, connect

WORKER = Path(__file__).parent / "workers" / "load_worker.py"
MINUTES_VARIABLE = "PALIMPSEST_LOAD_MINUTES"
BUMPS = 5
REST_SECONDS = 12.0
CONNECTING_AT_ONCE = 25


class Client:
    """One socket; keeps the states that it was told of."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.states: list[int] = []
        self.answered = asyncio.Event()
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for data in self.socket:
            frame: dict[str, Any] = json.loads(data)
            if frame["type"] == "cf_agent_state":
                self.states.append(int(frame["state"]))
            elif frame["type"] == "rpc":
                self.answered.set()

    async def bump(self, number: int) -> float:
        """Change the state and wait for the answer; milliseconds."""
        self.answered.clear()
        began = time.perf_counter()
        await self.socket.send(
            json.dumps({"type": "rpc", "id": str(number), "method": "bump", "args": []})
        )
        await asyncio.wait_for(self.answered.wait(), 30)
        return (time.perf_counter() - began) * 1000


class Load:
    """All clients of all agents."""

    def __init__(self, running: Workerd, agents: int, sockets: int) -> None:
        self._running = running
        self._per_agent = sockets // agents
        self._names = [f"agent-{number}" for number in range(agents)]
        self._clients: dict[str, list[Client]] = {name: [] for name in self._names}
        self._expected = 0
        self.round_trips: list[float] = []
        self.first_after_rest: list[float] = []

    async def open(self) -> None:
        """Connect everybody, some at a time."""
        gate = asyncio.Semaphore(CONNECTING_AT_ONCE)

        async def join(name: str, number: int) -> None:
            url = f"{self._running.socket_url}/agents/loaded/{name}?_pk={name}-{number}"
            async with gate:
                socket = await connect(url, open_timeout=60, ping_interval=None)
            self._clients[name].append(Client(socket))

        await asyncio.gather(
            *(join(name, number) for name in self._names for number in range(self._per_agent))
        )

    async def work(self) -> None:
        """Change every agent's state a few times, from another client each time."""
        for number in range(BUMPS):
            self._expected += 1
            took = await asyncio.gather(
                *(
                    self._clients[name][(self._expected + number) % self._per_agent].bump(number)
                    for name in self._names
                )
            )
            (self.first_after_rest if number == 0 else self.round_trips).extend(took)

    async def lost_frames(self) -> int:
        """How many states did not reach a client, or came out of order."""
        await asyncio.sleep(1)
        expected = list(range(self._expected + 1))
        return sum(
            len(set(expected) - set(client.states)) + (client.states != sorted(client.states))
            for clients in self._clients.values()
            for client in clients
        )

    async def close(self) -> None:
        """Disconnect everybody."""
        for clients in self._clients.values():
            for client in clients:
                await client.socket.close()
                client.task.cancel()


def heap(running: Workerd) -> float:
    """MiB of the isolate's WebAssembly memory."""
    url = f"{running.url}/agents/loaded/agent-0/status"
    with urllib.request.urlopen(url, timeout=60) as response:
        return json.load(response)["heapBytes"] / 2**20


async def measure(bench: Bench, running: Workerd, minutes: float) -> None:
    """Run the rounds and record what came of them."""
    agents, sockets = (10, 50) if bench.quick else (50, 500)
    load = Load(running, agents, sockets)
    await load.open()
    await load.work()
    heap_before, resident_before = heap(running), running.resident_bytes() / 2**20
    deadline = time.monotonic() + minutes * 60
    rounds = 1
    while time.monotonic() < deadline:
        await asyncio.sleep(REST_SECONDS)
        await load.work()
        rounds += 1
    what = f"{sockets} sockets over {agents} agents"
    bench.record(f"load: rounds with rest, {what}", rounds, "")
    bench.record("load: lost frames", await load.lost_frames(), "")
    bench.record("load: round trip, median", statistics.median(load.round_trips), "ms")
    bench.record(
        "load: first round trip after rest, median", statistics.median(load.first_after_rest), "ms"
    )
    after = heap(running)
    bench.record("load: heap", after, "MiB", against="after the first round", compared=heap_before)
    bench.record(
        "load: resident memory",
        running.resident_bytes() / 2**20,
        "MiB",
        against="after the first round",
        compared=resident_before,
    )
    await load.close()


def run(bench: Bench) -> None:
    """Record all figures of the load."""
    minutes = 0.4 if bench.quick else float(os.environ.get(MINUTES_VARIABLE, "2"))
    worker = define_worker(WORKER, assets=False)
    with bench.worker(worker) as running:
        asyncio.run(measure(bench, running, minutes))
