"""Vendoring Python packages for the Worker: WebAssembly wheels for CPython 3.14 by pip alone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from support.errors import SetupError
from support.paths import PYTHON_MODULES, ROOT, TEST_MODULES, VENV

REQUIREMENTS = ROOT / "scripts" / "requirements"

_WHEEL_OPTIONS = (
    "--platform=pyemscripten_2026_0_wasm32",
    "--python-version=3.14",
    "--implementation=cp",
    "--abi=cp314",
    "--abi=abi3",
    "--abi=none",
    "--only-binary=:all:",
    "--ignore-requires-python",  # pip judges by the Python that runs it
    "--no-deps",
    "--require-hashes",
    "--no-compile",
    "--disable-pip-version-check",
    "--quiet",
)

PYWRANGLER = "1.17.9"
"""The pywrangler version whose own synchronization the vendored directory stands in for."""


def _install(requirements: Path, target: Path) -> None:
    """Fill ``target`` with the pinned wheels unless its stamp says that it has them."""
    wanted = requirements.read_text(encoding="utf-8")
    stamp = target / ".requirements"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return
    shutil.rmtree(target, ignore_errors=True)
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", *_WHEEL_OPTIONS]
    command += ["--target", str(target), "--requirement", str(requirements)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        shutil.rmtree(target, ignore_errors=True)
        raise SetupError(f"pip could not vendor {requirements.name}:\n{result.stderr.strip()}")
    stamp.write_text(wanted, encoding="utf-8")


def ensure_worker_packages() -> Path:
    """``python_modules/`` with what the Worker imports; left as it is when pywrangler made it."""
    if (PYTHON_MODULES / ".synced").is_file() and not (PYTHON_MODULES / ".requirements").is_file():
        return PYTHON_MODULES
    _install(REQUIREMENTS / "worker.txt", PYTHON_MODULES)
    return PYTHON_MODULES


def ensure_packages(name: str) -> Path:
    """A directory with the packages of ``scripts/requirements/{name}.txt``: for tests, benches."""
    directory = TEST_MODULES.with_name(f"{name}-modules")
    _install(REQUIREMENTS / f"{name}.txt", directory)
    return directory


def ensure_test_packages() -> Path:
    """A directory with pytest for the tests that run inside workerd."""
    _install(REQUIREMENTS / "worker-tests.txt", TEST_MODULES)
    return TEST_MODULES
