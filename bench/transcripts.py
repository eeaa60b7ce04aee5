"""What showing a long conversation costs: the memory panel, ``get-messages`` and a transcript.

Times are those of requests to one agent in workerd, the answer read to its end; medians. The
transcript is timed from a switch of branches to its frame at a connected client.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import urllib.request
from pathlib import Path
from typing import Any

from support.bench import Bench
from support.worker_config import define_worker
from websockets.asyncio.client import connect

WORKER = Path(__file__).parent / "workers" / "transcripts_worker.py"
CLASSES = {"Assistant": "Assistant"}
AT_ONCE = 5_000


class Agent:
    """One agent with a conversation of a known length."""

    def __init__(self, url: str, size: int) -> None:
        self.size = size
        self._path = f"/agents/assistant/size-{size}"
        self._url = url
        for start in range(0, size, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, size))
            self.ask("POST", "import", [message(number) for number in numbers])

    def ask(self, method: str, path: str, body: Any = None) -> int:
        """The size of the answer."""
        data = None if body is None else json.dumps(body).encode()
        address = f"{self._url}{self._path}/{path}"
        request = urllib.request.Request(address, data=data, method=method)
        with urllib.request.urlopen(request, timeout=300) as response:
            return len(response.read())

    def milliseconds(self, path: str, rounds: int) -> float:
        """One request of an endpoint."""
        self.ask("GET", path)
        taken: list[float] = []
        for _ in range(rounds):
            began = time.perf_counter()
            self.ask("GET", path)
            taken.append((time.perf_counter() - began) * 1000)
        return statistics.median(taken)

    async def transcript(self, rounds: int) -> float:
        """Milliseconds from a change of branches to the transcript that it sends."""
        address = f"{self._url.replace('http', 'ws', 1)}{self._path}?_pk=bench"
        taken: list[float] = []
        async with connect(address, max_size=None) as socket:
            for _ in range(rounds + 1):
                began = time.perf_counter()
                body = {"messageId": f"m{self.size - 1}"}
                asked = asyncio.create_task(
                    asyncio.to_thread(self.ask, "POST", "branches/switch", body)
                )
                while not str(await socket.recv()).startswith('{"type":"cf_agent_chat_messages"'):
                    pass
                taken.append((time.perf_counter() - began) * 1000)
                await asked
        return statistics.median(taken[1:])


def message(number: int) -> dict[str, Any]:
    """A message of about two hundred characters, like no other."""
    text = (
        f"Note {number}: parcel PX-{number * 7919 % 100_003} went to dock {number % 40} at "
        f"{number % 24}:00, signed by clerk {number % 300}, and it weighed {number % 97} kilos. "
        "Nothing else was said about it at the time."
    )
    role = "user" if number % 2 == 0 else "assistant"
    return {"id": f"m{number}", "role": role, "parts": [{"type": "text", "text": text}]}


def run(bench: Bench) -> None:
    """Record the figures at two lengths."""
    sizes = [500, 2_000] if bench.quick else [3_000, 30_000]
    rounds = 3 if bench.quick else 7
    with bench.worker(define_worker(WORKER, object_classes=CLASSES, assets=False)) as running:
        agents = [Agent(running.url, size) for size in sizes]
        first: dict[str, float] = {}
        for agent in agents:
            for name, took in (
                ("GET memory", agent.milliseconds("memory", rounds)),
                ("GET get-messages", agent.milliseconds("get-messages", rounds)),
                ("a transcript at a client", asyncio.run(agent.transcript(rounds))),
            ):
                bench.record(
                    f"{name} at {agent.size:,} messages",
                    took,
                    "ms",
                    against=f"at {sizes[0]:,} messages" if name in first else None,
                    compared=first.get(name),
                )
                first.setdefault(name, took)
