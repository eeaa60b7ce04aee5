"""Installing what is missing, once: each step is skipped while its inputs have not changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.errors import SetupError
from support.paths import CACHE, NODE, NODE_MODULES, ROOT, VENV, WEB_BUILD, WEB_SOURCE

OLDEST_PYTHON = (3, 11)
_STAMPS = CACHE / "stamps"


def say(text: str) -> None:
    """Tell the user what takes time."""
    print(f"[palimpsest] {text}", flush=True)


def need(tool: str, install: str) -> str:
    """The path of a command.

    :raises SetupError: it is not there; the error names what to install.
    """
    found = shutil.which(tool)
    if found is None:
        raise SetupError(f"'{tool}' is missing. Install it, for example: {install}")
    return found


def run(command: Sequence[str | Path], *, what: str, env: Mapping[str, str] | None = None) -> None:
    """Run a command quietly in the repository.

    :raises SetupError: it failed; the error carries its output.
    """
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise SetupError(f"{what} failed:\n{result.stdout.strip()[-4000:]}")


def _digest(paths: Sequence[Path]) -> str:
    hasher = hashlib.sha256()
    for path in paths:
        hasher.update(str(path.relative_to(ROOT)).encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


class Step:
    """A set-up step that is done again only when the files it depends on change."""

    def __init__(self, name: str, inputs: Sequence[Path], result: Path) -> None:
        self._stamp = _STAMPS / name
        self._digest = _digest(inputs)
        self._result = result

    def is_done(self) -> bool:
        """Whether the result is there and was made from the same inputs."""
        if not self._result.exists() or not self._stamp.is_file():
            return False
        return self._stamp.read_text(encoding="utf-8") == self._digest

    def mark_done(self) -> None:
        """Remember the inputs that the result was made from."""
        _STAMPS.mkdir(parents=True, exist_ok=True)
        self._stamp.write_text(self._digest, encoding="utf-8")


def ensure_python() -> None:
    """The development environment ``.venv`` with this package and its tools.

    :raises SetupError: Python is too old, or the environment could not be made.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError("Python 3.11 or newer is needed")
    step = Step("python", [ROOT / "pyproject.toml"], VENV / "bin" / "python")
    if step.is_done():
        return
    say("installing Python packages into .venv")
    _make_environment()
    run(
        [VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--editable", ".[cli,dev]"],
        what="pip install",
    )
    step.mark_done()


def _make_environment() -> None:
    if (VENV / "bin" / "pip").exists():
        return
    command = [sys.executable, "-m", "venv", str(VENV)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if not install_from_debian([package]):
        raise SetupError(
            f"Python's venv module is missing. Install it: apt-get install {package}\n"
            f"{result.stdout.strip()}"
        )
    run(command, what="making .venv")


def install_from_debian(packages: Sequence[str]) -> bool:
    """Install Debian packages where that is possible (root, apt-get); whether it was."""
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        return False
    say(f"installing {', '.join(packages)} with apt-get")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    install = [apt, "install", "--yes", "--no-install-recommends", *packages]
    try:
        run(install, what="apt-get install", env=quiet)
    except SetupError:
        run([apt, "update"], what="apt-get update", env=quiet)
        run(install, what="apt-get install", env=quiet)
    return True


def ensure_node() -> None:
    """The npm packages, among them Node 22, wrangler, workerd and Pyodide.

    :raises SetupError: npm is missing or failed.
    """
    inputs = [ROOT / "package.json", ROOT / "package-lock.json", ROOT / ".npmrc"]
    step = Step("node", inputs, NODE)
    if step.is_done():
        return
    npm = need("npm", "apt-get install npm")
    say("installing npm packages into node_modules")
    # "ci" removes node_modules first: not under the feet of a server that runs from it.
    command = ["install", "--no-save"] if NODE_MODULES.is_dir() else ["ci"]
    run([npm, *command, "--no-progress", "--prefer-offline"], what=f"npm {command[0]}")
    step.mark_done()


def node_environment() -> dict[str, str]:
    """Variables for commands that must find the project's own Node first."""
    path = os.pathsep.join([str(NODE_MODULES / ".bin"), os.environ.get("PATH", "")])
    return {
        "PATH": path,
        "WRANGLER_SEND_METRICS": "false",
        "WRANGLER_HIDE_BANNER": "true",
        "NO_UPDATE_NOTIFIER": "1",
    }


def ensure_page() -> None:
    """The chat page, built from ``src/web`` into ``build/web``.

    :raises SetupError: the build failed.
    """
    sources = [path for path in sorted(WEB_SOURCE.rglob("*")) if path.is_file()]
    step = Step("page", [*sources, ROOT / "package-lock.json"], WEB_BUILD / "index.html")
    if step.is_done():
        return
    say("building the page")
    run([NODE, WEB_SOURCE / "build.mjs"], what="building the page", env=node_environment())
    step.mark_done()
