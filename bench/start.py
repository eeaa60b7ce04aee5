"""What a start costs, beside an empty Python Durable Object with the same SDK and nothing else.

Cold start: from starting workerd to the first answer of an object, with and without a memory
snapshot. Wake: a message to a hibernated object until its answer. Heap: the WebAssembly memory.
Upload: what ``wrangler deploy`` would send, gzipped.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
import urllib.request
from pathlib import Path

from support.bench import Bench, in_turn
from support.paths import PYTHON_MODULES
from support.worker_config import WorkerDefinition, define_worker
from support.workerd import Workerd
from support.wrangler import upload_size
from websockets.sync.client import connect

WORKERS = Path(__file__).parent / "workers"
EMPTY = "empty Python Durable Object"
OUR_PATH = "/agents/assistant/bench/status"
SDK_PREFIXES = (
    "python_modules/workers",
    "python_modules/asgi.py",
    "python_modules/_workers_sdk",
    "python_modules/_cloudflare",
    "python_modules/_pyodide",
)
SLEEP_SECONDS = 12
"""Longer than the ten seconds after which workerd lets an idle object hibernate."""


def our_worker() -> WorkerDefinition:
    """The project's own Worker."""
    classes = {"Assistant": "Assistant"}
    return define_worker(WORKERS / "measured_worker.py", object_classes=classes, assets=False)


def empty_worker() -> WorkerDefinition:
    """A Worker of one file and the SDK."""
    worker = define_worker(WORKERS / "empty_worker.py", assets=False)
    worker.name = "empty"
    kept = [item for item in worker.modules[1:] if item.name.startswith(SDK_PREFIXES)]
    worker.modules = [worker.modules[0], *kept]
    return worker


def cold_start(running: Workerd, path: str) -> float:
    """Milliseconds from starting workerd to the answer for ``path``."""
    took = running.start(path)
    running.kill()
    return took * 1000


def wake(running: Workerd, path: str, message: str) -> float:
    """Milliseconds from a message to the answer of an object that had gone to sleep."""
    with connect(f"{running.socket_url}{path}") as client:
        client.send(message)
        while not client.recv(timeout=30):
            pass
        time.sleep(SLEEP_SECONDS)
        _drain(client)
        began = time.perf_counter()
        client.send(message)
        client.recv(timeout=30)
        return (time.perf_counter() - began) * 1000


def _drain(client: object) -> None:
    """Drop what arrived before the sleep ended."""
    receive = getattr(client, "recv")  # noqa: B009
    try:
        while True:
            receive(timeout=0)
    except TimeoutError:
        return


def heap(running: Workerd, path: str) -> float:
    """MiB of WebAssembly memory after an object has started."""
    urllib.request.urlopen(f"{running.url}{path}").read()
    return int(urllib.request.urlopen(f"{running.url}/heap").read()) / 2**20


def empty_upload(directory: Path) -> float:
    """KiB gzipped that the empty Worker uploads."""
    project = directory / "empty-project"
    (project / "src").mkdir(parents=True)
    shutil.copy(WORKERS / "empty_worker.py", project / "src" / "entry.py")
    for path in PYTHON_MODULES.iterdir():
        if f"python_modules/{path.name}".startswith(SDK_PREFIXES):
            target = project / "python_modules" / path.name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, _parent(target))
    (project / "wrangler.toml").write_text(
        'name = "empty"\nmain = "src/entry.py"\ncompatibility_date = "2026-11-01"\n'
        'compatibility_flags = ["python_workers"]\n'
        'durable_objects.bindings = [{ name = "Empty", class_name = "Empty" }]\n'
        'migrations = [{ tag = "v1", new_sqlite_classes = ["Empty"] }]\n'
    )
    return upload_size(project)[1]


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run(bench: Bench) -> None:
    """Record all figures of a start."""
    rounds = 2 if bench.quick else 7
    for snapshot in (True, False):
        ours = bench.prepare(our_worker(), snapshot=snapshot)
        empty = bench.prepare(empty_worker(), snapshot=snapshot)
        for running, path in ((ours, OUR_PATH), (empty, "/")):
            cold_start(running, path)  # makes the snapshot and the databases
        value, compared = in_turn(
            rounds if snapshot else min(rounds, 3),
            lambda ours=ours: cold_start(ours, OUR_PATH),
            lambda empty=empty: cold_start(empty, "/"),
        )
        name = "cold start to first reply" + ("" if snapshot else ", without a snapshot")
        bench.record(name, value, "ms", against=EMPTY, compared=compared)
    with bench.worker(our_worker()) as ours, bench.worker(empty_worker()) as empty:
        bench.record(
            "heap after start",
            heap(ours, OUR_PATH),
            "MiB",
            against=EMPTY,
            compared=heap(empty, "/"),
        )
        sleeps = 1 if bench.quick else 3
        question = json.dumps({"type": "rpc", "id": "1", "method": "none", "args": []})
        mine = [wake(ours, "/agents/assistant/wake?_pk=a", question) for _ in range(sleeps)]
        other = [wake(empty, "/", "hello") for _ in range(sleeps)]
        bench.record(
            "wake after hibernation",
            statistics.median(mine),
            "ms",
            against=EMPTY,
            compared=statistics.median(other),
        )
    bench.record(
        "upload, gzipped",
        upload_size()[1],
        "KiB",
        against=EMPTY,
        compared=empty_upload(bench.directory),
    )
