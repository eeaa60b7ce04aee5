"""What it costs to reach a model: the project's adapters over fetch, beside vendors' packages.

For each way: time to import it in a running Worker (without a memory snapshot), the growth of the
WebAssembly heap, what it adds to the upload, and whether an answer streams piece by piece.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from support.bench import Bench
from support.packages import ensure_packages
from support.paths import ROOT
from support.worker_config import define_worker, vendored_modules

sys.path.insert(0, str(ROOT))

from tests.support.model_server import ModelServer

WORKER = Path(__file__).parent / "workers" / "models_worker.py"
OWN = "own"
VARIANTS = ("openai", "anthropic", "pydantic-ai")
MIB = 2**20
PACKAGE = ROOT / "src" / "palimpsest"
OUR_MODULES = ("models", "tools")
ANSWER = " ".join(f"word{number}" for number in range(300))


def run(bench: Bench) -> None:
    """Measure each variant in a Worker of its own; vendors' packages against our adapters."""
    rounds = 1 if bench.quick else 3
    with ModelServer() as server:
        ours = measure(bench, server, OWN, rounds)
        report(bench, OWN, ours, None)
        for variant in VARIANTS:
            report(bench, variant, measure(bench, server, variant, rounds), ours)


def measure(bench: Bench, server: ModelServer, variant: str, rounds: int) -> dict[str, float]:
    """Medians of one variant: import (ms), heap and upload (bytes), pieces streamed."""
    directory = None if variant == OWN else ensure_packages(f"bench-{variant}")
    extra = [] if directory is None else vendored_modules(directory)
    found: list[dict[str, Any]] = []
    for _round in range(rounds):
        worker = define_worker(WORKER, extra_modules=extra, object_classes={}, assets=False)
        with bench.worker(worker, snapshot=False) as running:
            address = f"{server.url}/{variant}"
            body = json.dumps({"steps": [{"text": ANSWER, "usage": [9, 300]}]}).encode()
            urllib.request.urlopen(f"{address}/script", data=body).read()
            query = urllib.parse.urlencode({"variant": variant, "url": address})
            with urllib.request.urlopen(f"{running.url}/?{query}", timeout=120) as answer:
                found.append(json.load(answer))
    for one in found:
        if "error" in one:
            print(f"{variant}: {one['error']}")
    files = (
        sorted(
            path for name in OUR_MODULES for path in (ROOT / "src/palimpsest" / name).glob("*.py")
        )
        if directory is None
        else [path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    )
    return {
        "import": statistics.median(one.get("import_ms", float("nan")) for one in found),
        "heap": statistics.median(one["after"] - one["before"] for one in found),
        "upload": sum(len(gzip.compress(path.read_bytes())) for path in files),
        "pieces": statistics.median(one.get("pieces", 0) for one in found),
    }


def report(
    bench: Bench, variant: str, found: dict[str, float], ours: dict[str, float] | None
) -> None:
    """Record one variant's figures, compared to our adapters'."""
    for name, unit, scale in (
        ("import", "ms", 1.0),
        ("heap", "MiB", MIB),
        ("upload", "KiB", 1024.0),
        ("pieces", "", 1.0),
    ):
        # Our growth of the heap may be too small to show; nothing is a multiple of that.
        compared = ours[name] / scale if ours is not None and ours[name] else None
        bench.record(
            f"models: {name} of {variant}",
            found[name] / scale,
            unit,
            against=None if compared is None else "own adapters",
            compared=compared,
        )
