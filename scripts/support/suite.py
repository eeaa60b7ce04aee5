"""``scripts/test``: which checks and tests there are, and in which order they run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from support import setup
from support.browser import ensure_chromium
from support.packages import ensure_test_packages, ensure_worker_packages
from support.paths import NODE, NODE_MODULES, ROOT, VENV, WEB_SOURCE
from support.runtime_bundle import ensure_bundle

PYTHON = VENV / "bin" / "python"
QUICK = ("tests/unit", "tests/behaviour")
FULL = ("tests/worker", "tests/clients", "tests/faults", "tests/browser")


def _step(
    name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> bool:
    """Run one part of the suite with its output shown; whether it passed."""
    print(f"\n=== {name}", flush=True)
    began = time.monotonic()
    code = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=False,
    ).returncode
    outcome = "passed" if code == 0 else f"FAILED (exit code {code})"
    print(f"=== {name}: {outcome} in {time.monotonic() - began:.1f} s", flush=True)
    return code == 0


def _pytest(paths: Sequence[str], options: Sequence[str]) -> list[str | Path]:
    present = [path for path in paths if any((ROOT / path).rglob("test_*.py"))]
    return [PYTHON, "-m", "pytest", "-q", *present, *options]


def _checks() -> bool:
    """Lint and types, of Python and of the page."""
    results = [_step("ruff", [PYTHON, "-m", "ruff", "check", "."])]
    node = setup.node_environment()
    pyright = NODE_MODULES / "pyright" / "index.js"
    results.append(_step("pyright", [NODE, pyright, "--warnings"], node))
    if (WEB_SOURCE / "tsconfig.json").is_file():
        tsc = NODE_MODULES / ".bin" / "tsc"
        results.append(_step("tsc", [tsc, "--noEmit", "--project", WEB_SOURCE], node))
    return all(results)


def run_quick(options: Sequence[str]) -> int:
    """Lint, types, unit tests and behaviour tests on CPython; returns the exit code.

    :raises SetupError: something is missing or could not be installed.
    """
    setup.ensure_python()
    setup.ensure_node()
    results = [_checks(), _step("unit and behaviour tests", _pytest(QUICK, options))]
    return 0 if all(results) else 1


def run_all(options: Sequence[str], *, nightly: bool) -> int:
    """Everything ``run_quick`` does, then all that needs workerd, Node or a browser.

    :raises SetupError: something is missing or could not be installed.
    """
    setup.ensure_python()
    setup.ensure_node()
    ensure_worker_packages()
    ensure_test_packages()
    ensure_bundle()
    setup.ensure_page()
    environment: dict[str, str] = {}
    if any((ROOT / "tests" / "browser").rglob("test_*.py")):
        environment["PALIMPSEST_CHROMIUM"] = str(ensure_chromium())
    results = [_checks(), _step("unit and behaviour tests", _pytest(QUICK, options))]
    chosen = list(options) if nightly else ["-m", "not nightly", *options]
    results.append(_step("tests in workerd", _pytest(FULL, chosen), environment))
    if nightly:
        again = ["tests/worker/test_behaviour_inside.py", "--no-snapshot", *options]
        results.append(_step("without a snapshot", [PYTHON, "-m", "pytest", "-q", *again]))
    return 0 if all(results) else 1
