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


def turn(running: Workerd, clients: int, chunks: int) -> Measured:
    """Measure one turn in a fresh object."""
    url = f"{running.socket_url}/agents/chat/{uuid.uuid4().hex}"
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
    if any(count != chunks for count in found["deltas"]):
        raise RuntimeError(f"clients got {found['deltas']} deltas of {chunks}")
    return Measured(found["first"], found["requester"], found["all"])


def run(bench: Bench) -> None:
    """Measure ours and theirs in turn."""
    chunks = 200 if bench.quick else CHUNKS
    rounds = 2 if bench.quick else 7
    ours_worker = define_worker(
        BENCHES / "workers" / "chat_bench_worker.py", object_classes={"Chat": "Chat"}
    )
    aliases = {
        "path": "node:path",
        "cloudflare:email": str(BENCHES / "workers" / "email_stub.mjs"),
    }
    peer = BENCHES / "workers" / "chat_peer.mjs"
    theirs_worker = bundle_worker(peer, {"Chat": "Chat"}, aliases=aliases)
    with bench.worker(ours_worker) as ours, bench.worker(theirs_worker) as theirs:
        for clients in (1, 10):
            mine: list[Measured] = []
            other: list[Measured] = []
            for running, kept in ((ours, mine), (theirs, other)):
                turn(running, clients, chunks)  # warms the code
                del kept[:]
            for number in range(rounds):
                pairs = [(ours, mine), (theirs, other)]
                for running, kept in pairs if number % 2 == 0 else reversed(pairs):
                    kept.append(turn(running, clients, chunks))
            name = f"{clients} client{'s' if clients > 1 else ''}"
            for figure, field in (
                ("first chunk", "first"),
                (f"{chunks:,} chunks, at the one who asked", "requester"),
                (f"{chunks:,} chunks, at all clients", "everyone"),
            ):
                bench.record(
                    f"{figure}, {name}",
                    statistics.median(getattr(item, field) for item in mine),
                    "ms",
                    against=AGAINST,
                    compared=statistics.median(getattr(item, field) for item in other),
                )
