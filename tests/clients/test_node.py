"""The client tests under Node: each ``NAME.test.mjs`` against a running Worker.

The Worker is the project's own, or ``NAME.worker.py`` beside the test. The test finds it in the
environment variable ``PALIMPSEST_URL``. Every Node test is one assertion of the file's one test
here; the output of ``node --test`` is shown when it fails.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.paths import NODE, ROOT
from support.setup import node_environment

from tests.fixtures import StartWorker

pytestmark = pytest.mark.workerd

HERE = Path(__file__).parent
SECONDS = 240


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_node(name: str, start_worker: StartWorker) -> None:
    own = HERE / name.replace(".test.mjs", ".worker.py")
    running = start_worker(own if own.is_file() else None)
    result = subprocess.run(
        [str(NODE), "--test", "--test-reporter=spec", str(HERE / name)],
        cwd=ROOT,
        env={**os.environ, **node_environment(), "PALIMPSEST_URL": running.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout}\n\nworkerd:\n{running.log_tail()}"
    assert "ℹ tests 0" not in result.stdout, "the file holds no tests"
