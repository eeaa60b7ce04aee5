"""What a deployment is: its upload, its memory, and the command that serves it for development."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from support.paths import ROOT
from support.worker_config import define_worker, read_wrangler, source_modules
from support.workerd import free_port
from support.wrangler import upload_size
from websockets.sync.client import connect

from tests.fixtures import StartWorker

pytestmark = pytest.mark.workerd

HERE = Path(__file__).parent
READY_SECONDS = 150


def test_the_upload_is_small() -> None:
    plain, gzipped = upload_size()
    print(f"\nupload: {plain:.0f} KiB, {gzipped:.0f} KiB gzipped")
    assert gzipped < 3 * 1024 * 1000 / 1024
    assert gzipped < plain


def test_the_configuration_is_for_production() -> None:
    config = read_wrangler()
    assert config["compatibility_flags"] == ["python_workers"]
    assert config["compatibility_date"] >= "2026-10-01"
    assert config["migrations"][0]["new_sqlite_classes"] == ["Assistant"]


def test_the_heap_stays_small(start_worker: StartWorker) -> None:
    running = start_worker(
        HERE / "workers" / "measured_worker.py",
        object_classes={"Assistant": "Assistant"},
        assets=False,
    )
    # The first object starts the agent, so that what only its start imports counts too.
    urllib.request.urlopen(f"{running.url}/agents/assistant/heap/status").read()
    answer = urllib.request.urlopen(f"{running.url}/heap").read().decode()
    heap = int(answer.split()[0]) / 2**20
    print(f"\nWebAssembly heap after start, with {' '.join(answer.split()[1:])}: {heap:.1f} MiB")
    assert heap < 48


def test_importing_the_library_reads_no_clock_and_draws_no_randomness() -> None:
    """A memory snapshot taken after the import would freeze both for every instance."""
    modules = [
        module.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for module in source_modules(ROOT / "src")
        if module.name.startswith("palimpsest/")
        and not module.name.startswith(("palimpsest/hosts/workers", "palimpsest/__main__"))
        and not module.name.startswith(("palimpsest/cli", "palimpsest/testing"))
    ]
    script = f"""
import importlib, os, random, secrets, sys, time, uuid
import asyncio, dataclasses, email, json, pydantic, typing, urllib.request
def refuse(*arguments, **named):
    raise AssertionError("called while importing")
for owner, names in ((time, ("time", "time_ns", "monotonic")), (os, ("urandom",)),
                     (uuid, ("uuid4",)), (random, ("random", "randint", "choice"))):
    for name in names:
        setattr(owner, name, refuse)
for name in {modules!r}:
    importlib.import_module(name)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr


class DevServer:
    """``scripts/dev`` as a user runs it."""

    def __init__(self, state: Path, port: int) -> None:
        self.url = f"http://localhost:{port}"
        self.socket_url = f"ws://127.0.0.1:{port}"
        self.log = state.with_suffix(".log")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(ROOT / "scripts" / "dev"), "--port", str(port), "--state", str(state)],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + READY_SECONDS
        while f"Ready on {self.url}" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def stop(self) -> int:
        """Ctrl-C; returns the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=30)


def test_scripts_dev_serves_and_keeps_state(tmp_path: Path) -> None:
    """wrangler itself, with the project's runtime bundle: page, agent, and state after a stop."""
    state, port = tmp_path / "state", free_port()
    server = DevServer(state, port)
    try:
        page = urllib.request.urlopen(f"{server.url}/").read()
        assert b"<html" in page
        with connect(f"{server.socket_url}/agents/assistant/kept?_pk=test") as client:
            assert json.loads(client.recv(timeout=10))["name"] == "kept"
            client.send(json.dumps({"type": "cf_agent_state", "state": {"colour": "green"}}))
            client.send(json.dumps({"type": "cf_agent_state", "state": {"colour": "blue"}}))
            time.sleep(1)
    finally:
        assert server.stop() == 0
    log = server.log.read_text()
    assert "palimpsest chat" in log
    server = DevServer(state, port)
    try:
        with connect(f"{server.socket_url}/agents/assistant/kept?_pk=test") as client:
            frames = [json.loads(client.recv(timeout=10)) for _ in range(2)]
        states = [frame["state"] for frame in frames if frame["type"] == "cf_agent_state"]
        assert states == [{"colour": "blue"}]
    finally:
        assert server.stop() == 0


def test_a_port_in_use_is_a_clear_error(start_worker: StartWorker) -> None:
    running = start_worker(assets=False)
    result = subprocess.run(
        [str(ROOT / "scripts" / "dev"), "--port", str(running.port)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 1
    assert f"port {running.port}" in result.stderr
    assert "--port" in result.stderr


def test_the_definition_names_modules_as_wrangler_does() -> None:
    names = [module.name for module in define_worker().modules]
    assert names[0] == "entry.py"
    assert "palimpsest/hosts/workers/shell.py" in names
    assert "python_modules/pydantic/__init__.py" in names
    assert not [name for name in names if name.startswith(("web/", "palimpsest.egg-info"))]
