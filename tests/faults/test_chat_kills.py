"""workerd is killed at random moments of streaming turns; clients come back and see it through."""

from __future__ import annotations

import asyncio
import json
import random
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.workerd import Workerd
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from palimpsest.chat.accumulator import MessageAccumulator
from palimpsest.messages import Message, text_of
from tests.fixtures import StartWorker

pytestmark = pytest.mark.workerd

KILLS = 50
WORDS = 24
WORKER = Path(__file__).parent.parent / "clients" / "workers" / "chat_worker.py"


class Page:
    """A client that keeps its transcript through lost connections, as the npm hooks do."""

    def __init__(self, running: Workerd, room: str, identifier: str) -> None:
        self._running = running
        self._path = f"/agents/tester/{room}"
        self._id = identifier
        self.messages: list[Message] = []
        self.streams: dict[str, MessageAccumulator] = {}
        self.ended: dict[str, str] = {}
        self.chunks = 0
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and listen, until the connection is lost."""
        url = f"{self._running.socket_url}{self._path}?_pk={self._id}"
        end = time.monotonic() + 60
        while True:
            try:
                self._socket = await connect(url, max_size=None)
                break
            except (OSError, WebSocketException, TimeoutError):
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.05)
        self.streams.clear()  # a stream ends with its socket; it is resumed, or the end is shown
        await self._send({"type": "cf_agent_stream_resume_request", "probeId": "p"})
        self._task = asyncio.create_task(self._listen(self._socket))

    async def _send(self, frame: dict[str, Any]) -> None:
        assert self._socket is not None
        await self._socket.send(json.dumps(frame))

    async def lost(self) -> None:
        """Wait until the connection is gone."""
        assert self._task is not None
        await self._task

    async def say(self, request_id: str, text: str) -> None:
        """Send a message, shown at once."""
        message = {
            "id": f"u-{request_id}",
            "role": "user",
            "parts": [{"type": "text", "text": text}],
        }
        self.messages.append(message)
        body = json.dumps({"messages": self.messages, "trigger": "submit-message"})
        init = {"method": "POST", "body": body}
        await self._send({"type": "cf_agent_use_chat_request", "id": request_id, "init": init})

    async def _listen(self, socket: ClientConnection) -> None:
        acknowledged: set[str] = set()
        try:
            async for text in socket:
                frame = json.loads(text)
                kind = frame["type"].removeprefix("cf_agent_")
                if kind == "chat_messages":
                    self.messages = frame["messages"]
                elif kind == "stream_resuming" and frame["id"] not in acknowledged:
                    acknowledged.add(frame["id"])
                    await self._send({"type": "cf_agent_stream_resume_ack", "id": frame["id"]})
                elif kind == "use_chat_response":
                    self._take(frame)
        except WebSocketException:
            pass

    def _take(self, frame: dict[str, Any]) -> None:
        request_id = frame["id"]
        if frame["body"] and not frame.get("error"):
            self.chunks += 1
            chunk = json.loads(frame["body"])
            if chunk["type"] == "start":
                self.streams[request_id] = MessageAccumulator(chunk["messageId"])
            if request_id in self.streams:
                self.streams[request_id].accept(chunk)
                self._show(self.streams[request_id].message())
        if frame["done"]:
            self.ended[request_id] = frame.get("outcome", "completed")
            self.streams.pop(request_id, None)

    def _show(self, message: Message) -> None:
        for index, shown in enumerate(self.messages):
            if shown["id"] == message["id"]:
                self.messages[index] = message
                return
        self.messages.append(message)

    def lines(self) -> list[str]:
        """The transcript as the page shows it."""
        return [f"{message['role']}: {text_of(message).strip()}" for message in self.messages]

    def stored(self) -> list[str]:
        """The transcript as the server has it."""
        url = f"{self._running.url}{self._path}/get-messages"
        with urllib.request.urlopen(url, timeout=30) as response:
            messages = json.load(response)
        return [f"{message['role']}: {text_of(message).strip()}" for message in messages]

    async def close(self) -> None:
        """Leave."""
        assert self._socket is not None
        await self._socket.close()
        await self.lost()


async def _until(condition: Any, what: str, seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.01)


async def _one_kill(running: Workerd, number: int, dice: random.Random) -> None:
    room = f"room-{number}"
    asker, watcher = Page(running, room, f"a{number}"), Page(running, room, f"w{number}")
    await asker.open()
    await watcher.open()
    request_id = f"r{number}"
    await asker.say(request_id, f"slow {WORDS}")
    moment = dice.uniform(0, 0.7)
    await asyncio.sleep(moment)
    running.kill()
    await asker.lost()
    await watcher.lost()
    await asyncio.to_thread(running.start)
    await asker.open()
    await watcher.open()
    whole = " ".join(f"w{word}" for word in range(WORDS))
    expected = [f"user: slow {WORDS}", f"assistant: {whole}"]
    stored: list[str] = []
    end = time.monotonic() + 90
    while stored != expected and time.monotonic() < end:
        stored = await asyncio.to_thread(asker.stored)
        if stored == []:
            break  # killed before the request was accepted: nothing was acknowledged
        await asyncio.sleep(0.05)
    if stored == []:
        assert moment < 0.1 or asker.chunks == 0, "an answer had begun, so the message was accepted"
    else:
        assert stored == expected, f"kill {number} after {moment:.3f} s"
        for page in (asker, watcher):
            await _until(lambda page=page: page.lines() == expected, f"{number}: {page.lines()}")
        await _until(
            lambda: not asker.streams and not watcher.streams, f"{number}: no stream stays open"
        )
        await asker.say(f"next{number}", "and now")
        await _until(lambda: asker.ended.get(f"next{number}") == "completed", "the next turn")
    await asker.close()
    await watcher.close()


def test_fifty_kills_in_the_middle_of_answers(start_worker: StartWorker) -> None:
    running = start_worker(WORKER)
    dice = random.Random(20_261_130)
    for number in range(KILLS):
        asyncio.run(_one_kill(running, number, dice))
