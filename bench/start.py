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
from websockets.sync.client import ClientConnection, connect

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
OUR_MESSAGE = json.dumps({"type": "rpc", "id": "1", "method": "none", "args": []})
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


def wake(first: ClientConnection, second: ClientConnection) -> tuple[float, float]:
    """Milliseconds from a message to its answer, of two objects that slept at the same time."""
    clients = ((first, OUR_MESSAGE), (second, "hello"))
    for client, message in clients:
        client.send(message)
        client.recv(timeout=30)
    time.sleep(SLEEP_SECONDS)
    took: list[float] = []
    for client, message in clients:
        _drain(client)
        began = time.perf_counter()
        client.send(message)
        client.recv(timeout=30)
        took.append((time.perf_counter() - began) * 1000)
        _drain(client)
    return took[0], took[1]


def wake_times(ours: Workerd, empty: Workerd, sleeps: int) -> list[tuple[float, float]]:
    """The times of several sleeps."""
    path = f"{ours.socket_url}/agents/assistant/wake?_pk=bench"
    with connect(path) as first, connect(f"{empty.socket_url}/") as second:
        _drain(first)
        return [wake(first, second) for _ in range(sleeps)]


def _drain(client: ClientConnection) -> None:
    """Drop what has arrived unasked."""
    try:
        while True:
            client.recv(timeout=0.2)
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
    rounds = 2 if bench.quick else 5
    for snapshot in (True, False):
        ours = bench.prepare(our_worker(), snapshot=snapshot)
        empty = bench.prepare(empty_worker(), snapshot=snapshot)
        for running, path in ((ours, OUR_PATH), (empty, "/")):
            cold_start(running, path)  # makes the snapshot and the databases
        value, compared = in_turn(
            rounds if snapshot else 2,
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
        times = wake_times(ours, empty, 1 if bench.quick else 3)
        bench.record(
            "wake after hibernation",
            statistics.median(mine for mine, _ in times),
            "ms",
            against=EMPTY,
            compared=statistics.median(other for _, other in times),
        )
    bench.record(
        "upload, gzipped",
        upload_size()[1],
        "KiB",
        against=EMPTY,
        compared=empty_upload(bench.directory),
    )
