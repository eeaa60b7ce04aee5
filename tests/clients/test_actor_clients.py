"""The actor with unmodified npm clients: ``AgentClient`` in Node, ``useAgent`` in React."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.packages import ensure_worker_packages
from support.paths import NODE, ROOT
from support.setup import node_environment
from support.worker_config import define_worker
from support.workerd import Workerd

pytestmark = pytest.mark.workerd

HERE = Path(__file__).parent
SECONDS = 120


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, snapshot: bool) -> Iterator[Workerd]:
    ensure_worker_packages()
    definition = define_worker(HERE / "workers" / "actor_worker.py", assets=False)
    running = Workerd(definition, tmp_path_factory.mktemp("actor"), snapshot=snapshot)
    running.start()
    yield running
    running.kill()


@pytest.mark.parametrize("suite", ["agent_client.mjs", "use_agent.mjs"])
def test_npm_client(worker: Workerd, suite: str) -> None:
    result = subprocess.run(
        [
            str(NODE),
            "--test",
            "--test-force-exit",
            "--test-reporter=spec",
            str(HERE / "actor" / suite),
        ],
        cwd=ROOT,
        env={**os.environ, **node_environment(), "PALIMPSEST_URL": worker.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout}\n\nworkerd:\n{worker.log_tail()}"
    assert "ℹ tests 0" not in result.stdout
