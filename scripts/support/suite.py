"""``scripts/test``: which checks and tests there are, and in which order they run."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from support import postgres, setup
from support.browser import ensure_chromium
from support.other_pythons import ensure_environment, find_pythons
from support.packages import ensure_test_packages, ensure_worker_packages
from support.paths import NODE, NODE_MODULES, ROOT, VENV, WEB_SOURCE
from support.runtime_bundle import ensure_bundle

PYTHON = VENV / "bin" / "python"
QUICK = ("tests/unit", "tests/behaviour")
FULL = ("tests/worker", "tests/clients", "tests/faults", "tests/browser", "tests/postgres")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the suite: a command, run in the repository."""

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


def _run(part: Part, *, quiet: bool = False) -> bool:
    """Run a part, its output shown as it comes (or, when ``quiet``, at its end); whether it passed.

    Parts that run side by side are quiet, so that their lines do not mix.
    """
    if not quiet:
        print(f"\n=== {part.name}", flush=True)
    began = time.monotonic()
    result = subprocess.run(
        [str(word) for word in part.command],
        cwd=ROOT,
        env={**os.environ, **part.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    passed = result.returncode == 0
    outcome = "passed" if passed else f"FAILED (exit code {result.returncode})"
    output = f"{result.stdout.rstrip()}\n" if result.stdout else ""
    took = time.monotonic() - began
    print(f"{output}=== {part.name}: {outcome} in {took:.1f} s", flush=True)
    return passed


def _run_together(parts: Sequence[Part]) -> bool:
    """Run parts side by side; whether all passed."""
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(_run, part, quiet=True) for part in parts]
        # Leaving the block waits for all of them, also after the first failure.
        return all(part.result() for part in running)


def _pytest(paths: Sequence[str], options: Sequence[str]) -> list[str | Path]:
    present = [path for path in paths if any((ROOT / path).rglob("test_*.py"))]
    return [PYTHON, "-m", "pytest", "-q", *present, *options]


def _quick_parts(options: Sequence[str]) -> list[Part]:
    """Lint and types of Python and of the page, and the tests that need no workerd."""
    node = setup.node_environment()
    pyright = NODE_MODULES / "pyright" / "index.js"
    # Two processes take half the time on two cores; options may choose tests of one folder only.
    groups = [QUICK] if options else [(path,) for path in QUICK]
    parts = [
        *(Part(" and ".join(group), _pytest(group, options)) for group in groups),
        Part("pyright", [NODE, pyright, "--warnings"], node),
        Part("ruff", [PYTHON, "-m", "ruff", "check", "."]),
    ]
    if (WEB_SOURCE / "tsconfig.json").is_file():
        tsc = NODE_MODULES / ".bin" / "tsc"
        parts.append(Part("tsc", [tsc, "--noEmit", "--project", WEB_SOURCE], node))
    return parts


def run_quick(options: Sequence[str]) -> int:
    """Lint, types, unit tests and behaviour tests on CPython; returns the exit code.

    :raises SetupError: something is missing or could not be installed.
    """
    setup.ensure_python()
    setup.ensure_node()
    return 0 if _run_together(_quick_parts(options)) else 1


def _run_on(version: str, interpreter: Path) -> bool:
    """The unit and behaviour tests on another Python; whether they passed."""
    python = ensure_environment(version, interpreter)
    return _run(Part(f"Python {version}", [python, "-m", "pytest", "-q", *QUICK]))


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
    environment = {"HYPOTHESIS_PROFILE": "default"} if nightly else {}
    if any((ROOT / "tests" / "browser").rglob("test_*.py")):
        environment["PALIMPSEST_CHROMIUM"] = str(ensure_chromium())
    environment[postgres.VARIABLE] = str(postgres.ensure_postgres())
    results = [_run_together(_quick_parts(options))]
    chosen = list(options) if nightly else ["-m", "not nightly", *options]
    results.append(_run(Part("tests in workerd", _pytest(FULL, chosen), environment)))
    if nightly:
        again = [PYTHON, "-m", "pytest", "-q", "--no-snapshot", *options]
        again.append("tests/worker/test_behaviour_inside.py")
        results.append(_run(Part("tests in workerd, without a snapshot", again)))
        results += [_run_on(version, path) for version, path in find_pythons().items()]
    return 0 if all(results) else 1
