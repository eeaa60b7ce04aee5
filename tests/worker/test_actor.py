"""The actor in real workerd: hibernation, real alarms, kills and restarts, destruction."""

from __future__ import annotations

import itertools
import json
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.packages import ensure_worker_packages
from support.worker_config import define_worker
from support.workerd import Workerd
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

pytestmark = pytest.mark.workerd

MAIN = Path(__file__).parent / "workers" / "actor_worker.py"
HIBERNATION_SECONDS = 13.0
"""workerd lets an idle object hibernate after about ten seconds."""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, snapshot: bool) -> Iterator[Workerd]:
    ensure_worker_packages()
    running = Workerd(
        define_worker(MAIN, assets=False), tmp_path_factory.mktemp("actor"), snapshot=snapshot
    )
    running.start()
    yield running
    running.kill()


class Client:
    """A client of one agent over one WebSocket."""

    _ids = itertools.count(1)

    def __init__(self, running: Workerd, path: str, query: str = "") -> None:
        address = f"{running.socket_url}/agents/{path}?{query}"
        self.socket: ClientConnection = open_socket(
            address, max_size=None, open_timeout=60
        ).__enter__()

    def frame(self, kind: str | None = None, seconds: float = 20) -> dict[str, Any]:
        """The next JSON frame (of one type)."""
        while True:
            text = self.socket.recv(timeout=seconds)
            frame = json.loads(text)
            if kind is None or frame.get("type") == kind:
                return frame

    def frame_without_type(self) -> dict[str, Any]:
        """The next JSON frame that is not the protocol's."""
        while "type" in (frame := self.frame()):
            pass
        return frame

    def call(self, method: str, *arguments: Any, seconds: float = 30) -> Any:
        """The result of a callable method."""
        identifier = str(next(self._ids))
        call = {"type": "rpc", "id": identifier, "method": method, "args": arguments}
        self.socket.send(json.dumps(call))
        while True:
            answer = self.frame("rpc", seconds)
            if answer["id"] == identifier and answer.get("done", True):
                assert answer["success"], answer
                return answer.get("result")

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()


def wait_for(check: Callable[[], Any], seconds: float = 20) -> Any:
    """The first true result of ``check``."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)
    return found


def status_of(running: Workerd, path: str) -> dict[str, Any]:
    """What ``GET .../status`` shows."""
    with urllib.request.urlopen(f"{running.url}/agents/{path}/status", timeout=30) as response:
        return json.loads(response.read())


def texts(client: Client) -> list[str]:
    """The notes of the agent."""
    return [text for _, text in client.call("notes")]


def test_an_idle_agent_hibernates_and_keeps_what_it_must(worker: Workerd) -> None:
    client = Client(worker, "lab/hibernating", "_pk=me&red&session=s")
    client.call("schedule_note", 0.3, "before")  # a job must leave nothing that keeps it awake
    client.socket.send(json.dumps({"type": "cf_agent_state", "state": {"count": 7}}))
    client.socket.send("hello")
    first = client.frame_without_type()
    assert (first["count"], first["tags"], first["id"]) == (1, ["red"], "me")
    later = client.call("schedule_note", HIBERNATION_SECONDS + 6, "while asleep")
    assert later
    time.sleep(HIBERNATION_SECONDS)
    client.socket.send("ping")
    assert client.socket.recv(timeout=5) == "pong"
    client.socket.send("again")
    second = client.frame_without_type()
    assert second["instance"] > first["instance"], "it did not hibernate"
    assert (second["count"], second["tags"], second["id"]) == (2, ["red"], "me")
    observer = Client(worker, "lab/hibernating")
    assert observer.frame("cf_agent_state")["state"] == {"count": 7}
    wait_for(lambda: texts(observer) == ["before", "while asleep"])
    client.close()
    observer.close()


def test_a_ping_does_not_wake_the_agent(worker: Workerd) -> None:
    client = Client(worker, "lab/pinged", "red")
    client.socket.send("hello")
    first = client.frame_without_type()["instance"]
    until = time.monotonic() + HIBERNATION_SECONDS + 2
    while time.monotonic() < until:
        client.socket.send("ping")
        while client.socket.recv(timeout=5) != "pong":
            pass
        time.sleep(1)
    client.socket.send("hello")
    assert client.frame_without_type()["instance"] > first
    client.close()


def test_real_alarms_fire_retry_and_give_up(worker: Workerd) -> None:
    client = Client(worker, "lab/alarms")
    client.call("schedule_failing", 2)
    wait_for(lambda: texts(client) == ["attempt 1", "attempt 2", "attempt 3"])
    assert client.call("letters") == []
    client.call("schedule_failing", 99)
    wait_for(lambda: client.call("letters"))
    ((_, error),) = client.call("letters")
    assert error == "RuntimeError: not yet"
    assert wait_for(lambda: status_of(worker, "lab/alarms")["nextAlarm"] is None)
    client.close()


def test_work_in_progress_is_done_again_after_a_kill(worker: Workerd) -> None:
    client = Client(worker, "lab/killed", "_pk=k")
    client.call("queue_slow", "one")
    client.call("queue_slow", "two")
    fiber = client.call("begin_fiber")
    client.call("schedule_note", 3, "scheduled")
    wait_for(lambda: "one begins" in texts(client))
    wait_for(lambda: (client.call("fiber", fiber)[1] or 0) >= 5)
    worker.kill()
    worker.start()
    client = Client(worker, "lab/killed", "_pk=k")
    expected = ["one begins", "one begins", "one ends", "two begins", "two ends"]
    wait_for(lambda: [t for t in texts(client) if t.split()[0] in ("one", "two")] == expected)
    wait_for(lambda: "scheduled" in texts(client))
    status, snapshot, recoveries = wait_for(
        lambda: client.call("fiber", fiber)[0] == "completed" and client.call("fiber", fiber)
    )
    assert (status, snapshot, recoveries) == ("completed", 40, 1)
    begun = [int(text.split()[-1]) for text in texts(client) if text.startswith("fiber from")]
    assert begun[0] == 0
    assert begun[1] >= 5
    client.close()


def test_a_start_that_fails_is_tried_again_and_loses_no_alarm(worker: Workerd) -> None:
    url = f"{worker.url}/agents/lab/unstartable"
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as failure:
            urllib.request.urlopen(f"{url}/status", timeout=30)
        assert failure.value.code == 500
        assert b"cannot start yet" not in failure.value.read()


def test_destroy_removes_everything_also_when_killed(worker: Workerd) -> None:
    for kill in (False, True):
        name = f"lab/destroyed-{kill}"
        client = Client(worker, name)
        client.call("schedule_note", 1000, "never")
        client.socket.send(json.dumps({"type": "cf_agent_state", "state": {"count": 7}}))
        client.socket.send('{"type": "rpc", "id": "end", "method": "end", "args": []}')
        with pytest.raises(ConnectionClosed) as closed:
            client.frame("never")
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (
            4410,
            "the agent was destroyed",
        )
        if kill:
            worker.kill()
            worker.start()
        else:
            time.sleep(1)
        client = Client(worker, name)
        assert client.frame("cf_agent_state")["state"] == {"count": 0}
        assert client.call("alarm_and_tables") == [None, 0]
        client.close()


def test_a_rejected_client_sees_a_terminal_code(worker: Workerd) -> None:
    client = Client(worker, "lab/guarded", "forbidden=1")
    with pytest.raises(ConnectionClosed) as closed:
        client.socket.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4401, "not you")
    assert status_of(worker, "lab/guarded")["connections"] == 0


def ask(
    running: Workerd, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
) -> tuple[int, bytes]:
    """Status and body of a request."""
    request = urllib.request.Request(f"{running.url}{path}", data=body, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_workers_gates_decide_before_the_agent(worker: Workerd) -> None:
    assert ask(worker, "/agents/lab/gated?gate-reject")[0] == 409
    assert ask(worker, "/agents/lab/gated/x?gate-answer") == (203, b"lab gated")
    status, body = ask(worker, "/agents/lab/gated?gate-replace", body=b"kept")
    assert (status, json.loads(body)) == (
        200,
        {"name": "gated", "query": "replaced", "replaced": "yes", "body": "kept"},
    )
    refused = Client(worker, "lab/gated", "gate-reject")
    with pytest.raises(ConnectionClosed) as closed:
        refused.socket.recv(timeout=5)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4409, "closed")
    replaced = Client(worker, "lab/gated", "gate-replace&red")
    replaced.socket.send("hello")
    assert replaced.frame_without_type()["tags"] == ["red"]
    replaced.close()


def test_addresses_of_the_workers_own(worker: Workerd) -> None:
    status, body = ask(worker, "/me/anything?q", {"x-user": "ada"})
    assert (status, json.loads(body)["name"]) == (200, "ada")
    assert ask(worker, "/missing")[0] == 400
    assert ask(worker, "/agents/nope/x")[0] == 400
    assert ask(worker, "/agents/lab")[0] == 400
    assert ask(worker, "/elsewhere")[0] == 404


def test_large_messages_pass(worker: Workerd) -> None:
    client = Client(worker, "lab/large", "red")
    client.socket.send("x" * 4_000_000)
    assert client.frame_without_type()["length"] == 4_000_000
    client.socket.send(b"\0" * 16_000_000)
    while not isinstance(answer := client.socket.recv(timeout=20), bytes):
        pass
    assert int.from_bytes(answer) == 16_000_000
    client.close()


def test_one_agent_calls_another(worker: Workerd) -> None:
    client = Client(worker, "lab/caller")
    number, streamed, early, refusal = client.call("ask_other", "callee")
    assert (streamed, early) == ([0, 1, 2], [0, 1])
    assert refusal == "RemoteError: Method note is not callable"
    other = Client(worker, "lab/callee")
    assert other.call("instance_number") == number
    assert texts(other) == ["left early"]
    assert other.call("whose") == [True, True]
    client.close()
    other.close()


def test_two_thousand_uses_leave_no_references(worker: Workerd) -> None:
    client = Client(worker, "lab/references")
    client.call("repeat", 200)
    first = client.call("repeat", 2000, seconds=120)
    assert first["ended"] >= 2200 - 200 + 200
    for key in ("proxies", "functions", "coroutines", "tasks"):
        assert first[key] < 50, first
    heap = status_of(worker, "lab/references")["heapBytes"]
    client.call("repeat", 2000, seconds=120)
    assert status_of(worker, "lab/references")["heapBytes"] == heap
    client.close()


def test_a_thousand_schedules_fire_in_order_across_five_restarts(worker: Workerd) -> None:
    client = Client(worker, "planner/year")
    planned = {row[0]: row for row in client.call("plan", seconds=60)}
    assert len(planned) == 1000
    assert Counter(row[1] for row in planned.values()) == {
        "delayed": 400,
        "scheduled": 400,
        "cron": 100,
        "interval": 100,
    }
    for _ in range(5):
        time.sleep(3)
        worker.kill()
        worker.start()
        client = Client(worker, "planner/year")
        recurring = [
            row for row in client.call("plan", seconds=60) if row[1] in ("cron", "interval")
        ]
        assert len(recurring) == 200
    wait_for(lambda: not [r for r in client.call("plan") if r[1] in ("delayed", "scheduled")], 90)
    ended = client.call("stop_recurring", seconds=60)
    notes = [[at, text] for at, text in client.call("notes", seconds=60) if text != "start"]
    due = [at for at, _ in notes]
    fired = Counter(re.sub("^fired ", "", text) for _, text in notes)
    once = {payload: 1 for payload in planned if payload.split()[0] in ("delayed", "dated")}
    assert {p: n for p, n in fired.items() if p.split()[0] in ("delayed", "dated")} == once
    late = 5_000  # what was due in the last moments may not have had its turn
    for payload, _, at, _, interval in planned.values():
        if interval is None:
            continue
        step = int(interval * 1000)
        most = (ended - at) // step + 1
        least = max((ended - late - at) // step + 1, 0)
        assert least <= fired[payload] <= most, (payload, fired[payload], least, most)
    for number in range(100):
        period = (10 + number % 10) * 1000
        times = [at for at, text in notes if text == f"fired cron {number}"]
        assert all(at % 60_000 % period == 0 for at in times)
        assert all(later - earlier <= period for earlier, later in itertools.pairwise(times))
        assert len(times) >= 1
    for payload, times in by_payload(notes).items():
        assert times == sorted(set(times)), payload
    assert inversions(due) == 0
    client.close()


def by_payload(notes: list[list[Any]]) -> dict[str, list[int]]:
    """The due times that each schedule fired for, in order of firing."""
    found: dict[str, list[int]] = {}
    for at, text in notes:
        found.setdefault(text, []).append(at)
    return found


def inversions(values: list[int]) -> int:
    """How often a value is followed by a smaller one."""
    return sum(later < earlier for earlier, later in itertools.pairwise(values))
