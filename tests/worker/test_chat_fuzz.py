"""Fuzzed frames over real sockets in workerd, from many clients, while one reads nothing.

Ten thousand of the same kind go to the local host in ``tests/unit/test_chat_fuzz.py``.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from tests.fixtures import StartWorker
from tests.unit.test_chat_fuzz import Fuzz

pytestmark = pytest.mark.workerd

WORKER = Path(__file__).parent.parent / "clients" / "workers" / "chat_worker.py"
FRAMES = 4_000
ATTACKERS = 5
BURST = 100
"""Frames that an attacker sends before it waits until they were taken.

workerd hands an object its events in the order in which they came, so what nobody waits for only
makes a queue, and how long that is depends on the machine.
"""
QUESTIONS = 3
"""How many turns of another client are answered before the attackers may end."""

MOST_GROWN = 512 * 1024 * 1024
"""How much larger the process may get, in bytes.

It grows by 190 to 250 MB, compiled code and V8's garbage included, and by more the slower the
machine is, since the attackers go on until the others were answered. What piles up for a client
that reads nothing would come on top of that without an end.
"""

TAKEN: dict[str, Any] = {"type": "rpc", "method": "nobody has this", "args": []}
"""A call that is answered behind everything sent before it."""

CLOSED = "closed"


async def _attack(url: str, seed: int, enough: asyncio.Event) -> None:
    """Send frames, and open the socket anew whenever the agent has had enough of it."""
    fuzz = Fuzz(seed)
    sent = 0

    def goes_on() -> bool:
        return sent < FRAMES // ATTACKERS or not enough.is_set()

    while goes_on():
        async with connect(f"{url}?_pk=bad{seed}", max_size=None, open_timeout=90) as socket:
            taken = asyncio.Queue[str]()
            reader = asyncio.create_task(_read(socket, taken))
            try:
                while goes_on():
                    for _ in range(BURST):
                        await socket.send(fuzz.frame())
                    sent += BURST
                    await socket.send(json.dumps({**TAKEN, "id": f"taken{sent}"}))
                    async with asyncio.timeout(90):
                        while await taken.get() not in (f"taken{sent}", CLOSED):
                            pass
            except WebSocketException:
                await asyncio.sleep(0.05)  # closed: it sent too much
            finally:
                await socket.close()
                await reader


async def _read(socket: ClientConnection, taken: asyncio.Queue[str]) -> None:
    """Read everything; note the answers to calls, and the end."""
    with suppress(WebSocketException):
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "rpc":
                taken.put_nowait(str(frame["id"]))
    taken.put_nowait(CLOSED)


async def _ask(url: str, session: str, text: str) -> str:
    """A well-behaved client's turn in a session of its own; its answer."""
    request_id = session
    async with connect(
        f"{url}?_pk={session}&session={session}", max_size=None, open_timeout=90
    ) as socket:
        message = {
            "id": f"u-{request_id}",
            "role": "user",
            "parts": [{"type": "text", "text": text}],
        }
        body = json.dumps({"messages": [message], "trigger": "submit-message"})
        frame = {
            "type": "cf_agent_use_chat_request",
            "id": request_id,
            "init": {"method": "POST", "body": body},
        }
        await socket.send(json.dumps(frame))
        pieces: list[str] = []
        async with asyncio.timeout(90):
            async for received in socket:
                answer = json.loads(received)
                if answer.get("id") != request_id:
                    continue
                if answer["done"]:
                    return "".join(pieces)
                chunk = json.loads(answer["body"])
                pieces.append(chunk.get("delta", ""))
    raise AssertionError("the socket closed")


async def _scene(address: str) -> None:
    url = f"{address}/agents/tester/fuzzed"
    async with connect(f"{url}?_pk=deaf", max_size=None, open_timeout=90) as deaf:
        deaf.transport.pause_reading()  # a client that reads nothing
        enough = asyncio.Event()
        attackers = [
            asyncio.create_task(_attack(url, 100 + number, enough)) for number in range(ATTACKERS)
        ]
        answered = 0
        while not all(task.done() for task in attackers):
            answered += 1
            answer = await _ask(url, f"quiet{answered}", f"number {answered}")
            assert answer.strip() == f"you said number {answered}"
            if answered == QUESTIONS:
                enough.set()
        for task in attackers:
            await task
        deaf.transport.resume_reading()
    assert answered >= QUESTIONS, "others were answered while it went on"
    assert (await _ask(url, "after", "and now")).strip() == "you said and now"


def test_fuzzed_frames_over_sockets(start_worker: StartWorker) -> None:
    running = start_worker(WORKER)
    before = running.resident_bytes()
    asyncio.run(_scene(running.socket_url))
    grown = running.resident_bytes() - before
    assert grown < MOST_GROWN, f"{grown / 1e6:.0f} MB more"
    assert "message.failed" not in running.log()
