"""The tutorial, step by step, in a copy of the repository."""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.packages import ensure_worker_packages
from support.paths import CACHE, NODE_MODULES, PYTHON_MODULES, ROOT, VENV
from support.runtime_bundle import ensure_bundle
from support.workerd import free_port
from support.wrangler import upload_size

from tests.support.chat_client import ChatClient, texts_of
from tests.support.doc_blocks import blocks_labelled

pytestmark = pytest.mark.workerd

TUTORIAL = ROOT / "docs" / "tutorial.md"
READY_SECONDS = 180
UPLOAD_LIMIT_KIB = 3_000

COMMANDS = [
    line for _, block in blocks_labelled(TUTORIAL, "sh") for line in block.splitlines() if line
]
((_, ENTRY),) = blocks_labelled(TUTORIAL, "python worker")
((_, TESTS),) = blocks_labelled(TUTORIAL, "python test")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files, with what ``scripts/dev`` installs already there."""
    ensure_worker_packages()
    ensure_bundle()
    directory = tmp_path_factory.mktemp("tutorial") / "clone"
    skipped = {".git", ".state", ".wrangler", ".cache", ".venv", "node_modules"}
    ignored = shutil.ignore_patterns(*skipped, "__pycache__", ".pytest_cache", "*.egg-info")
    shutil.copytree(ROOT, directory, ignore=ignored)
    for installed in (CACHE, VENV, NODE_MODULES):
        (directory / installed.name).symlink_to(installed)
    assert (directory / PYTHON_MODULES.name).is_dir()
    return directory


class Server:
    """``scripts/dev`` in the clone."""

    def __init__(self, clone: Path) -> None:
        self._port = free_port()
        self.url = f"http://localhost:{self._port}"
        self._log = clone.parent / "dev.log"
        self._clone = clone
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        ready = f"Ready on {self.url}"
        before = self._text().count(ready)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._clone / "scripts" / "dev"), "--port", str(self._port)],
                cwd=self._clone,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + READY_SECONDS
        while self._text().count(ready) == before:
            assert self._process.poll() is None, self._text()
            assert time.monotonic() < deadline, self._text()
            time.sleep(0.1)

    def stop(self) -> None:
        """Ctrl-C."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) == 0

    def _text(self) -> str:
        return self._log.read_text() if self._log.is_file() else ""

    def run_documented(self, command: str) -> str:
        """Run a ``curl`` line of the tutorial with this server's address: the answer's text."""
        words = shlex.split(command.replace("http://localhost:8787", self.url))
        assert words[0] == "curl"
        assert words[2] == "-d"
        request = urllib.request.Request(words[1], data=words[3].encode())
        with urllib.request.urlopen(request, timeout=60) as response:
            events = response.read().decode()
        chunks = [
            json.loads(line.removeprefix("data: "))
            for line in events.splitlines()
            if line.startswith("data: {")
        ]
        return "".join(chunk["delta"] for chunk in chunks if chunk["type"] == "text-delta")


@pytest.fixture(scope="module")
def server(clone: Path) -> Iterator[Server]:
    running = Server(clone)
    running.start()
    yield running
    running.stop()


def curls() -> list[str]:
    return [command for command in COMMANDS if command.startswith("curl ")]


def test_the_change_is_one_line_and_one_method() -> None:
    before = (ROOT / "src" / "entry.py").read_text(encoding="utf-8").splitlines()
    difference = [
        line
        for line in difflib.unified_diff(before, ENTRY.splitlines(), lineterm="", n=0)
        if not line.startswith(("---", "+++", "@@"))
    ]
    removed = [line for line in difference if line.startswith("-")]
    assert removed == ["-from palimpsest import ChatAgent, SessionManager"]
    added = [line for line in difference if line.startswith("+")]
    assert len(added) <= 6
    assert "+    @tool" in added


def test_steps_1_to_4(clone: Path, server: Server) -> None:
    """Start, talk, stop and start again, add the tool while it runs, and call it."""
    assert COMMANDS[0] == "scripts/dev"
    with urllib.request.urlopen(f"{server.url}/", timeout=30) as page:
        assert b"<html" in page.read()
    first, second, third = curls()
    assert server.run_documented(first)
    assert "Minka" in server.run_documented(second)
    server.stop()
    server.start()
    client = ChatClient(lambda: server.url, "ada")
    assert "My cat is called Minka." in texts_of(client.messages(), "user")

    assert server.run_documented(third) != "4", "the tool is not there yet"
    (clone / "src" / "entry.py").write_text(ENTRY, encoding="utf-8")
    deadline = time.monotonic() + 60
    answer = ""
    while answer != "4":
        assert time.monotonic() < deadline, answer
        time.sleep(1)
        try:
            answer = server.run_documented(third)
        except OSError:
            continue  # the server is loading the Worker again
    (part,) = [
        part for part in client.messages()[-1]["parts"] if part["type"] == "tool-count_words"
    ]
    assert (part["input"], part["output"]) == ({"text": "the quick brown fox"}, 4)


def test_step_5_names_what_the_configuration_knows() -> None:
    ((_, block),) = blocks_labelled(TUTORIAL, "toml")
    given = re.search(r'PALIMPSEST_MODEL = "(.+)"', block)
    assert given is not None
    from palimpsest.hosts.local import LocalHost
    from palimpsest.models.config import model_from_environment

    environment = {"PALIMPSEST_MODEL": given[1], "OPENAI_API_KEY": "a key"}
    assert model_from_environment(LocalHost(environment=environment)).name
    assert "[vars]" in (ROOT / "wrangler.toml").read_text(encoding="utf-8")
    assert ".dev.vars" in (ROOT / ".gitignore").read_text(encoding="utf-8")


def test_step_6_the_tests_pass(clone: Path) -> None:
    (clone / "src" / "entry.py").write_text(ENTRY, encoding="utf-8")
    (clone / "tests" / "test_assistant.py").write_text(TESTS, encoding="utf-8")
    (command,) = [command for command in COMMANDS if "pytest" in command]
    result = subprocess.run(
        shlex.split(command), cwd=clone, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "2 passed" in result.stdout


def test_step_7_the_changed_worker_can_be_deployed_and_the_token_opens_it(clone: Path) -> None:
    """Everything short of an account: the dry run is the command's own, and uploads nothing."""
    (clone / "src" / "entry.py").write_text(ENTRY, encoding="utf-8")
    (command,) = [command for command in COMMANDS if command.endswith("--dry-run")]
    assert {command.split()[0] for command in COMMANDS if "wrangler" in command} == {"npx"}
    dry_run = subprocess.run(
        shlex.split(command),
        cwd=clone,
        env={**os.environ, "WRANGLER_SEND_METRICS": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert dry_run.returncode == 0, dry_run.stdout + dry_run.stderr
    assert "Total Upload" in dry_run.stdout
    plain, gzipped = upload_size(clone)
    assert 0 < gzipped < UPLOAD_LIMIT_KIB
    assert gzipped < plain
    (command,) = [command for command in COMMANDS if "palimpsest token" in command]
    secret = "a secret of at least sixteen bytes"
    words = shlex.split(command)
    assert words[0] == "PALIMPSEST_AUTH_SECRET=..."
    token = subprocess.run(
        words[1:],
        cwd=clone,
        env={**os.environ, "PALIMPSEST_AUTH_SECRET": secret},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    from palimpsest.auth import verify_token

    assert verify_token(secret, token, now=int(time.time() * 1000)).subject == "ada"
