"""Streaming turns beside npm ``AIChatAgent``: time to the first chunk and for 2,000 chunks."""

from __future__ import annotations

import json
import statistics
import subprocess
import uuid
from dataclasses import dataclass

from support.bench import BENCHES, Bench
from support.js_worker import bundle_worker
from support.paths import NODE, ROOT
from support.setup import node_environment
from support.worker_config import define_worker
from support.workerd import Workerd

AGAINST = "npm AIChatAgent 0.12.2"
CHUNKS = 2000
SIZE = 20


@dataclass(frozen=True, slots=True)
class Measured:
    """One turn: ms to the first delta, to the end at the one who asked, to the end at all."""

    first: float
    requester: float
    everyone: float
    frames: int
    """How many frames with text the one who asked received."""


def turn(running: Workerd, agent: str, clients: int, chunks: int) -> Measured:
    """Measure one turn in a fresh object."""
    url = f"{running.socket_url}/agents/{agent}/{uuid.uuid4().hex}"
    script = BENCHES / "clients" / "chat_clients.mjs"
    command = [str(NODE), str(script), url, str(clients), str(chunks), str(SIZE)]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=node_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(result.stdout)
    if any(count != chunks * SIZE for count in found["characters"]):
        raise RuntimeError(f"clients got {found['characters']} of {chunks * SIZE} characters")
    return Measured(found["first"], found["requester"], found["all"], found["frames"])


def run(bench: Bench) -> None:
    """Measure ours and theirs in turn."""
    chunks = 200 if bench.quick else CHUNKS
    rounds = 2 if bench.quick else 5
    ours_worker = define_worker(
        BENCHES / "workers" / "chat_bench_worker.py",
        object_classes={"Chat": "Chat", "Plain": "Plain"},
    )
    aliases = {
        "path": "node:path",
        "cloudflare:email": str(BENCHES / "workers" / "email_stub.mjs"),
    }
    peer = BENCHES / "workers" / "chat_peer.mjs"
    theirs_worker = bundle_worker(peer, {"Chat": "Chat"}, aliases=aliases)
    with bench.worker(ours_worker) as ours, bench.worker(theirs_worker) as theirs:
        sides = {"ours": (ours, "chat"), "plain": (ours, "plain"), "theirs": (theirs, "chat")}
        for clients in (1, 10):
            kept: dict[str, list[Measured]] = {}
            for running, agent in sides.values():
                turn(running, agent, clients, chunks)  # warms the code
            for number in range(rounds):
                names = list(sides)
                for name in names if number % 2 == 0 else reversed(names):
                    kept.setdefault(name, []).append(turn(*sides[name], clients, chunks))
            _record(bench, kept, chunks, f"{clients} client{'s' if clients > 1 else ''}")


def _record(bench: Bench, kept: dict[str, list[Measured]], chunks: int, clients: str) -> None:
    def median(side: str, field: str) -> float:
        return statistics.median(getattr(item, field) for item in kept[side])

    for figure, field in (
        ("first chunk", "first"),
        (f"{chunks:,} chunks, at the one who asked", "requester"),
        (f"{chunks:,} chunks, at all clients", "everyone"),
    ):
        for side, how in (("ours", ""), ("plain", ", a frame for each")):
            bench.record(
                f"{figure}, {clients}{how}",
                median(side, field),
                "ms",
                against=AGAINST,
                compared=median("theirs", field),
            )
    bench.record(
        f"frames of {chunks:,} chunks, {clients}",
        median("ours", "frames"),
        "frames",
        against=AGAINST,
        compared=median("theirs", "frames"),
    )
