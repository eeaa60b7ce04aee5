"""The frame of all measurements: ``bench/NAME.py`` has a ``run(bench)`` that records figures.

A figure is one number with a unit, and what it is compared to where there is something to compare.
Whatever is compared runs in the same workerd binary, in the same run, in turn.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from support import setup
from support.errors import SetupError
from support.packages import ensure_worker_packages
from support.paths import ROOT
from support.runtime_bundle import ensure_bundle
from support.worker_config import WorkerDefinition
from support.workerd import Workerd

BENCHES = ROOT / "bench"


@dataclass(frozen=True, slots=True)
class Figure:
    """One result."""

    figure: str
    value: float
    unit: str
    against: str | None
    """What it was compared to, or None."""

    ratio: float | None
    """The value over the compared value; None where nothing was compared."""


class Bench:
    """What a bench is given: workers to start, and a place for its figures."""

    def __init__(self, directory: Path, *, quick: bool, data: Path | None = None) -> None:
        self.directory = directory
        self.data = data
        """The data to measure on (``--data``), or None."""

        self.quick = quick
        """Whether to use small sizes, only to see that the bench works."""

        self.figures: list[Figure] = []
        self._started = 0

    def record(
        self,
        figure: str,
        value: float,
        unit: str,
        *,
        against: str | None = None,
        compared: float | None = None,
    ) -> None:
        """Keep a figure and show it.

        :param against: the name of what it is compared to.
        :param compared: that one's value, in the same unit.
        """
        ratio = None if compared is None else _ratio(value, compared)
        self.figures.append(Figure(figure, value, unit, against, ratio))
        print(_row(self.figures[-1], compared), flush=True)

    @contextmanager
    def worker(self, worker: WorkerDefinition, *, snapshot: bool = True) -> Generator[Workerd]:
        """A Worker in a new directory, running; it ends with the block."""
        running = self.prepare(worker, snapshot=snapshot)
        running.start()
        try:
            yield running
        except Exception:
            print(running.log_tail(), file=sys.stderr)
            raise
        finally:
            running.kill()

    def prepare(self, worker: WorkerDefinition, *, snapshot: bool = True) -> Workerd:
        """A Worker in a new directory, not yet started."""
        self._started += 1
        directory = self.directory / f"worker-{self._started}"
        directory.mkdir(parents=True)
        return Workerd(worker, directory, snapshot=snapshot)


def _ratio(value: float, compared: float) -> float:
    """``value / compared``; nothing beside nothing is 1."""
    if compared:
        return value / compared
    return float("inf") if value else 1.0


def in_turn(
    rounds: int, ours: Callable[[], float], theirs: Callable[[], float]
) -> tuple[float, float]:
    """Medians of two measurements that alternate, so that both see the same machine."""
    mine: list[float] = []
    other: list[float] = []
    for number in range(rounds):
        for measure, values in ((ours, mine), (theirs, other))[:: 1 if number % 2 == 0 else -1]:
            values.append(measure())
    return statistics.median(mine), statistics.median(other)


def _row(figure: Figure, compared: float | None) -> str:
    text = f"{figure.figure:<52} {figure.value:>12,.2f} {figure.unit:<5}"
    if figure.ratio is not None and compared is not None:
        text += f" {figure.ratio:>8.2f} x  {compared:,.2f} {figure.unit} ({figure.against})"
    return text


def available() -> list[str]:
    """The names of all benches."""
    return sorted(path.stem for path in BENCHES.glob("*.py") if path.stem != "__init__")


def _load(name: str) -> ModuleType:
    path = BENCHES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise SetupError(f"there is no bench {name!r}; there are: {', '.join(available())}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run(name: str, json_file: Path | None, *, quick: bool, data: Path | None = None) -> int:
    """Run one bench, print its table and write its figures; returns the exit code.

    :raises SetupError: there is no such bench, or something is missing.
    """
    setup.ensure_node()
    ensure_worker_packages()
    ensure_bundle()
    module = _load(name)
    directory = Path(tempfile.mkdtemp(prefix="palimpsest-bench-"))
    bench = Bench(directory, quick=quick, data=data)
    print(f"{'figure':<52} {'value':>12} {'unit':<5} {'ratio':>8}    compared value")
    try:
        module.run(bench)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if json_file is not None:
        text = json.dumps([asdict(figure) for figure in bench.figures], indent=2)
        json_file.write_text(text + "\n", encoding="utf-8")
    return 0 if bench.figures else 1
