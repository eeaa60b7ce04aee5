"""The wheel: it installs into an empty environment, and into a Worker project of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from support.packages import ensure_worker_packages
from support.paths import ROOT
from support.worker_config import WorkerDefinition, WorkerModule, exported_objects, vendored_modules
from support.workerd import Workerd

from tests.support.chat_client import ChatClient

pytestmark = pytest.mark.workerd

ENTRY = """\
from palimpsest import ChatAgent
from palimpsest.hosts.workers import durable_object, worker_entrypoint

@durable_object
class Keeper(ChatAgent): "Remembers."

Default = worker_entrypoint()
"""
"""A whole Worker in five lines of code."""


def run(*command: str | Path, directory: Path) -> str:
    """Run a command away from the repository, so that nothing of it is imported by chance."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by ``python -m build`` from a copy of what is in the repository."""
    directory = tmp_path_factory.mktemp("wheel")
    source = directory / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "web")
    shutil.copytree(ROOT / "src", source / "src", ignore=ignored)
    run(
        sys.executable, "-m", "build", "--wheel", "--outdir", directory, source, directory=directory
    )
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    (information,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
    assert information == "palimpsest-0.1.0.dist-info"
    modules = [name for name in names if not name.startswith(information)]
    assert all(name.startswith("palimpsest/") and name.endswith(".py") for name in modules)
    sources = {path.relative_to(ROOT / "src").as_posix() for path in _sources()}
    assert set(modules) == sources


def _sources() -> list[Path]:
    return sorted((ROOT / "src" / "palimpsest").rglob("*.py"))


def test_the_wheel_installs_into_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", environment, directory=tmp_path)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, directory=tmp_path)
    program = """
import asyncio, json, palimpsest
from palimpsest.hosts.local import LocalHost
from palimpsest.testing.agents import LocalAgent

async def chat():
    async with LocalAgent(palimpsest.ChatAgent) as local:
        client = await local.connect()
        await client.chat("My cat is called Minka.")
        return await client.chat("What is my cat called?")

missing = [name for name in palimpsest.__all__ if not hasattr(palimpsest, name)]
answer = asyncio.run(chat())
print(json.dumps({"file": palimpsest.__file__, "missing": missing, "answer": answer}))
"""
    found = json.loads(run(python, "-c", program, directory=tmp_path))
    assert found["file"].startswith(str(environment))
    assert found["missing"] == []
    assert "Minka" in found["answer"]
    assert "inspect" in run(environment / "bin" / "palimpsest", "--help", directory=tmp_path)


def test_a_worker_project_of_its_own(wheel: Path, tmp_path: Path) -> None:
    """Nothing of the repository's ``src`` is in it: the wheel is one of its vendored packages."""
    project = tmp_path / "project"
    packages = project / "python_modules"
    shutil.copytree(ensure_worker_packages(), packages)
    assert not (packages / "palimpsest").exists()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    entry = project / "entry.py"
    entry.write_text(ENTRY, encoding="utf-8")
    assert len([line for line in ENTRY.splitlines() if line]) == 5
    worker = WorkerDefinition(
        name="project",
        modules=[WorkerModule("entry.py", entry, "pythonModule"), *vendored_modules(packages)],
        compatibility_date="2026-11-01",
        compatibility_flags=["python_workers"],
        object_bindings={name: name for name in exported_objects(entry)},
    )
    with Workerd(worker, tmp_path / "workerd") as running:
        client = ChatClient(lambda: running.url, "one", agent="keeper")
        client.ask("My cat is called Minka.")
        assert "Minka" in client.ask("What is my cat called?")
        client.close()
