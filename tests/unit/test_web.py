"""The page's own code without a browser: its types and its pure functions."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.paths import NODE, NODE_MODULES, ROOT
from support.setup import node_environment

HERE = Path(__file__).parent
SECONDS = 120


def run(*command: str | Path) -> str:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **node_environment()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_types() -> None:
    run(NODE_MODULES / ".bin" / "tsc", "-p", "src/web/tsconfig.json")


def test_pure_functions() -> None:
    files = sorted((HERE / "web").glob("*.test.mjs"))
    assert files
    output = run(NODE, "--test", "--test-reporter=spec", *files)
    assert "ℹ fail 0" in output
