"""workerd is killed at random moments while chats, compaction, schedules and imports go on.

After each kill: the database is sound, no acknowledged message is lost or doubled, overlays have
their ends, the index equals the messages, and the alarm is armed.
"""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.workerd import Workerd

from tests.fixtures import StartWorker
from tests.support.chat_client import ChatClient, ChatFailed, texts_of

WORKER = Path(__file__).parent / "workers" / "busy_worker.py"
ADDRESS = "/agents/busy/one"
IMPORTED_AT_ONCE = 40
CLIENTS = 2


class Person(threading.Thread):
    """Sends one message after the other and notes what was acknowledged."""

    def __init__(self, running: Workerd, number: int, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self._client = ChatClient(lambda: running.url, "one", agent="busy")
        self._number = number
        self._stopping = stopping
        self.acknowledged: list[str] = []
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Talk until told to stop."""
        count = 0
        try:
            while not self._stopping.is_set():
                text = f"Person {self._number} says that box {count} weighs {count * 3} pounds."
                self._client.ask_until_answered(text)
                self.acknowledged.append(text)
                count += 1
        except BaseException as error:
            self.failure = error
        finally:
            self._client.close()


class Importer(threading.Thread):
    """Imports batches into another session; a batch counts once it was answered."""

    def __init__(self, running: Workerd, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self._running = running
        self._stopping = stopping
        self.acknowledged: list[str] = []

    def run(self) -> None:
        """Import until told to stop; what failed is sent again."""
        batch = 0
        while not self._stopping.is_set():
            messages = [
                {
                    "id": f"i{batch}-{number}",
                    "role": "user",
                    "parts": [{"type": "text", "text": f"imported {batch} {number}"}],
                }
                for number in range(IMPORTED_AT_ONCE)
            ]
            url = f"{self._running.url}{ADDRESS}/import?session=imported"
            request = urllib.request.Request(url, data=json.dumps(messages).encode())
            try:
                with urllib.request.urlopen(request, timeout=20) as response:
                    response.read()
            except OSError:
                time.sleep(0.05)
                continue
            self.acknowledged += [f"i{batch}-{number}" for number in range(IMPORTED_AT_ONCE)]
            batch += 1
            time.sleep(0.2)


def check(running: Workerd) -> dict[str, Any]:
    with urllib.request.urlopen(f"{running.url}{ADDRESS}?op=check", timeout=60) as response:
        return json.loads(response.read())


def is_armed(running: Workerd, report: dict[str, Any]) -> bool:
    """Whether the alarm is armed; the platform shows none in the moment in which it fires."""
    deadline = time.monotonic() + 5
    while report["alarm"] is None and time.monotonic() < deadline:
        time.sleep(0.1)
        report = check(running)
    return report["alarm"] is not None


def kill_at_random(running: Workerd, kills: int, seed: int) -> None:
    choose = random.Random(seed)
    stopping = threading.Event()
    people = [Person(running, number, stopping) for number in range(CLIENTS)]
    importer = Importer(running, stopping)
    for thread in (*people, importer):
        thread.start()
    for number in range(kills):
        time.sleep(choose.uniform(0.1, 1.2))
        running.kill()
        running.start("/")
        report = check(running)
        assert report["faults"] == [], f"kill {number} of seed {seed}"
        assert report["schedules"] == 1
        assert is_armed(running, report)
    stopping.set()
    for thread in (*people, importer):
        thread.join(timeout=90)
        assert not thread.is_alive()
    assert [person.failure for person in people] == [None] * CLIENTS
    settle(running)
    report = check(running)
    assert report["faults"] == []
    assert report["ticks"] > 0
    assert report["overlays"] > 0
    reader = ChatClient(lambda: running.url, "one", agent="busy")
    asked = texts_of(reader.messages(), "user")
    assert len(asked) == len(set(asked)), "a message stands twice"
    for person in people:
        own = [text for text in asked if text in set(person.acknowledged)]
        assert own == person.acknowledged, "an acknowledged message is lost or out of order"
    imported = ChatClient(lambda: running.url, "one", agent="busy", session="imported")
    stored = [message["id"] for message in imported.messages()]
    assert stored == [identifier for identifier in stored if identifier in stored]
    assert set(importer.acknowledged) <= set(stored)


def settle(running: Workerd) -> None:
    """Wait until what was interrupted has been brought to its end."""
    client = ChatClient(lambda: running.url, "one", agent="busy")
    deadline = time.monotonic() + 60
    while True:
        try:
            client.ask("That is all.")
        except ChatFailed:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            client.close()
            return


def test_twenty_kills(start_worker: StartWorker) -> None:
    kill_at_random(start_worker(WORKER), 20, seed=1)


@pytest.mark.nightly
def test_two_hundred_kills(start_worker: StartWorker) -> None:
    kill_at_random(start_worker(WORKER), 200, seed=int(time.time()))
