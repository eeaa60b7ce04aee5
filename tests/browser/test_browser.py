"""The page in headless Chromium, against the real Worker: each ``NAME.test.mjs`` here.

Screenshots of the main views are written to ``build/screenshots``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.browser import ensure_chromium
from support.paths import NODE, ROOT
from support.setup import ensure_page, node_environment

from tests.fixtures import StartWorker

pytestmark = pytest.mark.workerd

HERE = Path(__file__).parent
SCREENSHOTS = ROOT / "build" / "screenshots"
SECONDS = 240


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.glob("*.test.mjs")))
def test_page(name: str, start_worker: StartWorker) -> None:
    ensure_page()
    running = start_worker(HERE / "page_worker.py")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    variables = {
        "PALIMPSEST_URL": running.url,
        "PALIMPSEST_CHROMIUM": str(ensure_chromium()),
        "PALIMPSEST_SCREENSHOTS": str(SCREENSHOTS),
    }
    result = subprocess.run(
        [str(NODE), "--test", "--test-reporter=spec", str(HERE / name)],
        cwd=ROOT,
        env={**os.environ, **node_environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, f"{result.stdout}\n\nworkerd:\n{running.log_tail()}"
    assert "ℹ tests 0" not in result.stdout, "the file holds no tests"
