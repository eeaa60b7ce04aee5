"""Other Python versions on this machine, to run the unit tests on."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.paths import ROOT
from support.setup import Step, run, say

VERSIONS = ("3.12", "3.13", "3.14")


def find_pythons() -> dict[str, Path]:
    """The newer interpreters that are on the path or installed by pyenv, by version."""
    found: dict[str, Path] = {}
    for version in VERSIONS:
        on_path = shutil.which(f"python{version}")
        managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        candidates = [*managed, *([Path(on_path)] if on_path else [])]
        for candidate in candidates:
            if candidate.is_file():
                found[version] = candidate
                break
    return found


def ensure_environment(version: str, interpreter: Path) -> Path:
    """An environment of that version with this package and its tools; its interpreter.

    :raises SetupError: it could not be made.
    """
    directory = ROOT / f".venv-{version}"
    python = directory / "bin" / "python"
    step = Step(f"python-{version}", [ROOT / "pyproject.toml"], python)
    if not step.is_done():
        say(f"installing Python packages into {directory.name}")
        run([interpreter, "-m", "venv", directory], what=f"making {directory.name}")
        run(
            [python, "-m", "pip", "install", "--quiet", "--editable", ".[cli,dev]"],
            what="pip install",
        )
        step.mark_done()
    return python
