"""The chat with unmodified npm clients in Node and jsdom, on the AI SDK 6 and 7."""

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
SECONDS = 230


@pytest.mark.parametrize("version", [6, 7])
def test_every_row_of_the_protocol(version: int, start_worker: StartWorker) -> None:
    running = start_worker(HERE / "workers" / "chat_worker.py")
    alias = [] if version == 7 else ["--import", str(HERE / "chat" / "alias6.mjs")]
    suite = HERE / "chat" / "suite.mjs"
    result = subprocess.run(
        [str(NODE), *alias, "--test-force-exit", "--test-reporter=spec", "--test", str(suite)],
        cwd=ROOT,
        env={**os.environ, **node_environment(), "PALIMPSEST_URL": running.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout}\n\nworkerd:\n{running.log_tail()}"
    assert "ℹ tests 0" not in result.stdout
