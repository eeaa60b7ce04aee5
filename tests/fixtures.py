"""Fixtures that start workerd; each directory's conftest.py takes what it needs from here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.packages import ensure_worker_packages
from support.worker_config import define_worker
from support.workerd import Workerd

StartWorker = Callable[..., Workerd]


@pytest.fixture(scope="session")
def snapshot(request: pytest.FixtureRequest) -> bool:
    """Whether Workers restore a memory snapshot; False with ``--no-snapshot``."""
    return not request.config.getoption("--no-snapshot")


@pytest.fixture
def start_worker(tmp_path: Path, snapshot: bool) -> Iterator[StartWorker]:
    """Starts workers and ends them after the test.

    ``start_worker(main=None, **options)`` starts the project's Worker, or another main module with
    the options of ``define_worker``, and returns its :class:`support.workerd.Workerd`.
    """
    started: list[Workerd] = []

    def start(main: Path | None = None, **options: object) -> Workerd:
        ensure_worker_packages()
        worker = define_worker(main, **options)  # type: ignore[arg-type]
        directory = tmp_path / f"workerd-{len(started)}"
        directory.mkdir()
        running = Workerd(worker, directory, snapshot=snapshot)
        started.append(running)
        running.start()
        return running

    yield start
    for running in started:
        running.kill()


@pytest.fixture(scope="module")
def assistant(tmp_path_factory: pytest.TempPathFactory, snapshot: bool) -> Iterator[Workerd]:
    """The project's own Worker, shared by a module's tests: use an object name of your own."""
    ensure_worker_packages()
    running = Workerd(define_worker(), tmp_path_factory.mktemp("assistant"), snapshot=snapshot)
    running.start()
    yield running
    running.kill()
