"""The Durable Object shell and the Worker's entry, in real workerd."""

from __future__ import annotations

import http.server
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets.exceptions
from support.packages import ensure_worker_packages
from support.worker_config import define_worker
from support.workerd import Workerd
from websockets.sync.client import ClientConnection, connect

pytestmark = pytest.mark.workerd

MAIN = Path(__file__).parent / "workers" / "shell_worker.py"


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, snapshot: bool) -> Iterator[Workerd]:
    ensure_worker_packages()
    definition = define_worker(
        MAIN, variables={"WORDS": "some text", "SETTINGS": {"a": [1, None]}}, assets=False
    )
    running = Workerd(definition, tmp_path_factory.mktemp("shell"), snapshot=snapshot)
    running.start()
    yield running
    running.kill()


def ask(
    running: Workerd, path: str, body: bytes | None = None, method: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    """Status, lower-case headers and body of a request."""
    request = urllib.request.Request(f"{running.url}{path}", data=body, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return response.status, headers, response.read()
    except urllib.error.HTTPError as error:
        with error:
            headers = {name.lower(): value for name, value in error.headers.items()}
            return error.code, headers, error.read()


def text(running: Workerd, path: str, body: bytes | None = None) -> str:
    """The body of a request that succeeds."""
    status, _, content = ask(running, path, body)
    assert status == 200, content
    return content.decode()


def open_socket(running: Workerd, name: str) -> ClientConnection:
    return connect(f"{running.socket_url}/agents/probe/{name}/socket")


def wait_for(check: Any, seconds: float = 10.0) -> Any:
    """The first true result of ``check``."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)
    return found


def seen(running: Workerd, name: str) -> list[str]:
    return json.loads(text(running, f"/agents/probe/{name}/seen"))


@pytest.fixture
def upstream() -> Iterator[tuple[str, list[str]]]:
    """A server for outgoing requests: its address, and what happened to it."""
    events: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(202)
            self.send_header("x-answer", self.headers["x-a"])
            self.end_headers()
            self.wfile.write(body.upper())

        def do_GET(self) -> None:
            if self.path == "/slow":
                time.sleep(1.5)
            try:
                self.send_response(200)
                self.end_headers()
                for _ in range(200):
                    self.wfile.write(b"x" * 100_000)
                    time.sleep(0.01)
                events.append("all sent")
            except OSError:
                events.append("given up")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            del format, args

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", events
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_object_knows_its_name(worker: Workerd) -> None:
    assert text(worker, "/agents/probe/Room-1/name") == "Room-1"


def test_requests_and_responses_keep_method_headers_and_bytes(worker: Workerd) -> None:
    body = bytes(range(256))
    status, headers, content = ask(worker, "/agents/probe/echo/echo", body, "PUT")
    assert (status, headers["x-method"], content) == (201, "PUT", body)
    assert headers["x-type"] == "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/nobody/a/name", 400),
        ("/agents/probe/", 400),
        ("/agents/probe", 400),
        ("/agents/probe/" + "n" * 1025, 400),
        ("/agents/probe/" + "n" * 1024 + "/name", 200),
        ("/elsewhere", 404),
    ],
)
def test_addresses(worker: Workerd, path: str, status: int) -> None:
    found, _, content = ask(worker, path)
    assert found == status
    if status != 200:
        assert set(json.loads(content)["error"]) == {"code", "message"}


def test_cross_origin_headers(worker: Workerd) -> None:
    status, headers, _ = ask(worker, "/agents/probe/cors/name", method="OPTIONS")
    assert (status, headers["access-control-allow-origin"]) == (200, "*")
    for path in ("/agents/probe/cors/name", "/agents/nobody/x", "/agents/probe/cors/break"):
        assert ask(worker, path)[1]["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "attribute",
    ["_runtime", "ctx", "env", "agent_class", "__init__", "__setattr__", "handle_call", "host"],
)
def test_only_the_handlers_and_call_can_be_reached(worker: Workerd, attribute: str) -> None:
    status, _, content = ask(worker, f"/reach/{attribute}")
    assert status == 403, content


def test_call_answers_errors_as_values(worker: Workerd) -> None:
    status, _, content = ask(worker, "/reach/call")
    assert status == 200
    assert b'"ok": false' in content


def test_environment_and_calls_between_agents(worker: Workerd) -> None:
    found = json.loads(text(worker, "/agents/probe/environment/environment"))
    assert found == ["some text", {"a": [1, None]}, 42]


def test_errors_tell_no_secrets(worker: Workerd) -> None:
    status, _, content = ask(worker, "/agents/probe/errors/break")
    assert status == 500
    assert b"secret" not in content
    status, _, content = ask(worker, "/agents/probe/errors/refuse")
    assert status == 400
    assert b"refused for a reason" in content
    wait_for(lambda: "a secret detail" in worker.log())


def test_a_failing_start_answers_an_error_and_is_tried_again(worker: Workerd) -> None:
    ask(worker, "/agents/probe/helper/fail_starts", b"2")
    assert ask(worker, "/agents/probe/late/name")[0] == 500
    assert ask(worker, "/agents/probe/late/name")[0] == 500
    assert text(worker, "/agents/probe/late/name") == "late"


def test_a_failing_start_closes_the_socket_or_refuses_it(worker: Workerd) -> None:
    ask(worker, "/agents/probe/helper/fail_starts", b"1")
    with pytest.raises(websockets.exceptions.InvalidStatus):
        open_socket(worker, "late-socket")
    with open_socket(worker, "late-socket") as client:
        assert "started" in json.loads(client.recv())


def test_messages_attachments_and_broadcast(worker: Workerd) -> None:
    with open_socket(worker, "talk") as one, open_socket(worker, "talk") as two:
        one.recv()
        two.recv()
        one.send("hello")
        assert (mine := json.loads(one.recv()))["mine"] is True
        assert (other := json.loads(two.recv()))["mine"] is False
        assert mine["n"] == other["n"] == 1
        one.send("again")
        assert json.loads(one.recv())["n"] == 2
        one.send(b"\x00\x01\x02")
        assert one.recv() == b"\x02\x01\x00"
        one.send("raise")
        one.send("still here")
        assert json.loads(one.recv())["echo"] == "still here"
        one.send("ping")
        assert one.recv() == "pong"


def test_a_close_is_answered_and_reported(worker: Workerd) -> None:
    with open_socket(worker, "closing") as client:
        client.recv()
        began = time.monotonic()
        client.close(4005, "enough")
        assert time.monotonic() - began < 2
        assert client.close_code == 4005
    wait_for(lambda: "closed 4005 enough True" in seen(worker, "closing"))


def test_streaming_arrives_in_pieces(worker: Workerd) -> None:
    with urllib.request.urlopen(f"{worker.url}/agents/probe/stream/stream") as response:
        began = time.monotonic()
        assert response.readline() == b"0\n"
        first = time.monotonic() - began
        assert response.read().endswith(b"199\n")
        assert first < 1 < time.monotonic() - began
    assert wait_for(lambda: seen(worker, "stream")) == ["stream ended"]


def test_a_reader_that_leaves_ends_the_stream(worker: Workerd) -> None:
    with urllib.request.urlopen(f"{worker.url}/agents/probe/leave/stream") as response:
        response.readline()
    assert wait_for(lambda: seen(worker, "leave")) == ["stream ended"]


def test_outgoing_requests(worker: Workerd, upstream: tuple[str, list[str]]) -> None:
    url, events = upstream
    found = json.loads(text(worker, "/agents/probe/out/fetch", url.encode()))
    assert found == [202, "b", "HELLO"]
    answer = text(worker, "/agents/probe/out/fetch_slowly", f"{url}/slow".encode())
    assert answer.startswith("TimeoutError")
    assert text(worker, "/agents/probe/out/fetch_nowhere") == "ConnectionError"
    events.clear()
    answer = text(worker, "/agents/probe/out/fetch_and_leave", f"{url}/endless".encode())
    assert set(answer) == {"x"}
    wait_for(lambda: "given up" in events)


def test_spawned_work_outlives_its_request(worker: Workerd) -> None:
    assert text(worker, "/agents/probe/spawn/spawn") == "spawned"
    assert wait_for(lambda: seen(worker, "spawn")) == ["spawned"]


def test_the_alarm_fires_without_a_client(worker: Workerd) -> None:
    text(worker, "/agents/probe/alarm/arm")
    time.sleep(1)
    assert seen(worker, "alarm") == ["alarm of alarm"]


def test_delete_all_removes_tables_and_alarm(worker: Workerd) -> None:
    assert json.loads(text(worker, "/agents/probe/wipe/wipe")) == [0, None]


def test_abort_drops_the_instance_and_keeps_what_was_written(worker: Workerd) -> None:
    ask(worker, "/agents/probe/abort/abort")
    assert "before abort" in wait_for(lambda: seen(worker, "abort"))
    assert text(worker, "/agents/probe/bystander/name") == "bystander"


def test_the_object_hibernates_and_its_socket_survives(worker: Workerd) -> None:
    with open_socket(worker, "sleepy") as client:
        first = json.loads(client.recv())["started"]
        client.send("one")
        assert json.loads(client.recv())["n"] == 1
        time.sleep(13)
        client.send("two")
        answer = json.loads(client.recv())
        assert answer["n"] == 2
        assert answer["started"] > first, "it did not hibernate"


def test_rows_and_alarms_survive_a_kill(worker: Workerd) -> None:
    text(worker, "/agents/probe/durable/spawn")
    wait_for(lambda: seen(worker, "durable"))
    text(worker, "/agents/probe/durable/arm_later")
    worker.kill()
    worker.start()
    time.sleep(4)
    assert seen(worker, "durable") == ["spawned", "alarm of durable"]


