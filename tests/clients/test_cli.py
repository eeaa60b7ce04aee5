"""The terminal client against the real Worker, through connections that break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from support.paths import ROOT
from support.workerd import Workerd

from palimpsest.auth import SECRET_VARIABLE, make_token
from tests.fixtures import StartWorker

pytestmark = pytest.mark.workerd

WORKER = ROOT / "tests" / "browser" / "page_worker.py"
SECONDS = 60


@pytest.fixture
def running(start_worker: StartWorker) -> Workerd:
    return start_worker(WORKER)


def chat(url: str, *arguments: str, lines: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "palimpsest", "chat", url, *arguments],
        input=lines,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def stored(url: str, name: str = "default") -> list[dict[str, Any]]:
    with urlopen(f"{url}/agents/assistant/{name}/get-messages", timeout=SECONDS) as response:
        return json.load(response)


def words(count: int) -> str:
    return " ".join(f"word{number}" for number in range(1, count + 1))


def test_one_message_is_answered(running: Workerd) -> None:
    first = chat(running.url, "remember the heron")
    assert (first.returncode, first.stdout) == (0, "You said: remember the heron\n"), first.stderr
    second = chat(running.url, "and the *owl*")
    assert second.stdout == "You said: and the *owl*\n"
    roles = [message["role"] for message in stored(running.url)]
    assert roles == ["user", "assistant", "user", "assistant"]


def test_lines_become_json(running: Workerd) -> None:
    result = chat(running.url, "--json", lines="one\n\ntool two\n/search two\n")
    assert result.returncode == 0, result.stderr
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert events[0] == {"event": "connected", "again": False}
    done = [event for event in events if event["event"] == "done"]
    assert [event["outcome"] for event in done] == ["completed", "completed"]
    chunks = [event["chunk"] for event in events if event["event"] == "chunk"]
    assert "tool-output-available" in [chunk["type"] for chunk in chunks]
    (found,) = [event for event in events if event["event"] == "found"]
    assert "\ue000two\ue001" in found["results"][0]["snippet"]


def test_approvals_are_answered_as_told(running: Workerd) -> None:
    allowed = chat(running.url, "approve a letter", "--approve", "always", "--name", "yes")
    assert "The tool was used." in allowed.stdout, allowed.stdout + allowed.stderr
    denied = chat(running.url, "approve a letter", "--name", "no")
    assert "The tool was not used." in denied.stdout, denied.stdout + denied.stderr


def test_compaction_and_its_command(running: Workerd) -> None:
    texts = [f"Entry {index}: the ship came in with the tide. " * 3 for index in range(20)]
    body = [
        {
            "id": f"m{index}",
            "role": "assistant" if index % 2 else "user",
            "parts": [{"type": "text", "text": text}],
        }
        for index, text in enumerate(texts)
    ]
    url = f"{running.url}/agents/assistant/default/import"
    urlopen(Request(url, data=json.dumps(body).encode(), method="POST"), timeout=SECONDS).close()
    result = chat(running.url, "/compact")
    assert result.returncode == 0, result.stderr
    assert "Summarized:" in result.stdout
    assert len(stored(running.url)) == 20


def test_failures_have_a_status_and_words(running: Workerd) -> None:
    failed = chat(running.url, "fail now")
    assert failed.returncode == 1
    assert failed.stdout == "Half of an answer \n"
    assert "The model is resting" in failed.stderr
    assert chat("ftp://x", "hello").returncode == 2
    # The next command is not told of it, and its own answer counts.
    later = chat(running.url, "how are you?")
    assert (later.returncode, later.stderr) == (0, "")
    assert later.stdout == "You said: how are you?\n"
    assert "Half of an answer" in json.dumps(stored(running.url))


def test_a_token_is_sent_where_one_is_asked_for(start_worker: StartWorker) -> None:
    secret = "a secret of the test, long enough"
    url = start_worker(WORKER, variables={SECRET_VARIABLE: secret}).url
    refused = chat(url, "hello")
    assert refused.returncode == 1
    assert "token" in refused.stderr
    token = make_token(secret, "reader", now=int(time.time() * 1000), lifetime=600)
    assert chat(url, "hello", "--token", token).stdout == "You said: hello\n"


class BreakableProxy:
    """Passes TCP connections on and breaks all of them when told."""

    def __init__(self, target: str) -> None:
        self.aim(target)
        self._open: set[asyncio.StreamWriter] = set()
        self.refusing = False
        self.port = 0

    def aim(self, target: str) -> None:
        parts = urlsplit(target)
        self._target = (str(parts.hostname), int(parts.port or 80))

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncGenerator[BreakableProxy]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        pairs = ((reader, far_writer), (far_reader, writer))
        self._open |= {writer, far_writer}
        try:
            await asyncio.gather(*(self._copy(source, sink) for source, sink in pairs))
        finally:
            self._open -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()


async def _chat_through(proxy: BreakableProxy, message: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-u",
        "-m",
        "palimpsest",
        "chat",
        f"http://127.0.0.1:{proxy.port}",
        message,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def _read_until(process: asyncio.subprocess.Process, text: str) -> str:
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        data = await asyncio.wait_for(process.stdout.read(1000), SECONDS)
        assert data, f"ended after {seen!r}"
        seen += data.decode()
    return seen


async def _finish(process: asyncio.subprocess.Process) -> tuple[str, str]:
    out, error = await asyncio.wait_for(process.communicate(), SECONDS)
    return out.decode(), error.decode()


async def test_an_answer_goes_on_after_broken_connections(running: Workerd) -> None:
    async with BreakableProxy(running.url).listening() as proxy:
        process = await _chat_through(proxy, "slow 150")
        seen = ""
        for mark in ("word10 ", "word40 ", "word70 "):
            seen += await _read_until(process, mark)
            proxy.cut()
        rest, error = await _finish(process)
    assert process.returncode == 0, error
    assert (seen + rest).strip() == words(150), error
    assert "Connection lost" in error


async def test_an_answer_that_ended_meanwhile_is_completed(running: Workerd) -> None:
    async with BreakableProxy(running.url).listening() as proxy:
        process = await _chat_through(proxy, "slow 40")
        seen = await _read_until(process, "word10 ")
        proxy.refusing = True
        proxy.cut()
        while len(await asyncio.to_thread(stored, running.url)) < 2:
            await asyncio.sleep(0.1)
        await asyncio.sleep(3)
        proxy.refusing = False
        rest, error = await _finish(process)
    assert process.returncode == 0, error
    assert (seen + rest).strip() == words(40)


async def test_a_killed_worker_is_waited_for(running: Workerd) -> None:
    async with BreakableProxy(running.url).listening() as proxy:
        process = await _chat_through(proxy, "slow 80")
        seen = await _read_until(process, "word10 ")
        await asyncio.to_thread(running.kill)
        await asyncio.to_thread(running.start)
        proxy.aim(running.url)
        rest, error = await _finish(process)
    (_, answer) = stored(running.url)
    text = "".join(part.get("text", "") for part in answer["parts"])
    assert (seen + rest).strip() == text.strip(), error
