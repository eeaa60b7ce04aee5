"""The Worker's door, and that one agent's conversation cannot be written from another's."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.workerd import Workerd
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from palimpsest.auth import make_token
from palimpsest.messages import text_message
from tests.fixtures import StartWorker

pytestmark = pytest.mark.workerd

SECRET = "a secret of at least sixteen bytes"


def ask(
    running: Workerd, path: str, *, body: str | None = None, token: str = "", origin: str = ""
) -> tuple[int, str]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    if origin:
        headers["origin"] = origin
    data = None if body is None else body.encode()
    request = urllib.request.Request(f"{running.url}{path}", data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def token(**options: Any) -> str:
    return make_token(SECRET, "ann", now=int(time.time() * 1000), lifetime=300, **options)


def test_a_secret_closes_the_template(start_worker: StartWorker) -> None:
    running = start_worker(variables={"PALIMPSEST_AUTH_SECRET": SECRET})
    path = "/agents/assistant/door"
    for method in ("get-messages", "export", "memory", "sessions", "search?q=x", "status"):
        assert ask(running, f"{path}/{method}")[0] == 401, method
        assert ask(running, f"{path}/{method}", token=token())[0] == 200, method
    for method in ("chat", "import", "clear", "compact"):
        assert ask(running, f"{path}/{method}", body="{}")[0] == 401, method
        only_reads = token(readonly=True)
        assert ask(running, f"{path}/{method}", body="{}", token=only_reads)[0] == 403, method
    elsewhere = token(names=["another"])
    assert ask(running, f"{path}/get-messages", token=elsewhere)[0] == 403
    page = "https://evil.example"
    assert ask(running, f"{path}/get-messages", token=token(), origin=page)[0] == 403
    for query, code in (("", 4401), (f"?token={elsewhere}", 4403)):
        with (
            connect(f"{running.socket_url}{path}{query}") as socket,
            pytest.raises(ConnectionClosed) as closed,
        ):
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
    log = running.log()
    assert SECRET not in log
    assert elsewhere not in log
    given = ask(running, "/", token="")
    assert SECRET not in given[1], "the page is served to everybody and holds nothing secret"


def test_a_short_secret_opens_nothing(start_worker: StartWorker) -> None:
    running = start_worker(variables={"PALIMPSEST_AUTH_SECRET": "short"}, assets=False)
    status, text = ask(running, "/agents/assistant/door/get-messages")
    assert status == 500
    assert "short" not in text.replace("shorter", "")


def test_an_import_reaches_its_own_agent_only(assistant: Workerd) -> None:
    forged = {
        "type": "message",
        "message": text_message("m1", "user", "the forged word xylograph"),
        "agent": "victim",
        "name": "victim",
    }
    header = {"type": "session", "id": "/agents/assistant/victim", "name": "../victim"}
    lines = "\n".join(json.dumps(line) for line in (header, forged))
    for name in ("attacker", "..%2Fvictim", "victim%2F..%2Fvictim2"):
        assert ask(assistant, f"/agents/assistant/{name}/import", body=lines)[0] == 200
    assert ask(assistant, "/agents/assistant/victim/get-messages") == (200, "[]")
    found = ask(assistant, "/agents/assistant/victim/search?q=xylograph")
    assert json.loads(found[1])["results"] == []
    exported = ask(assistant, "/agents/assistant/victim/export")[1]
    assert "xylograph" not in exported
    files = [path for path in assistant.state.rglob("*") if path.is_file()]
    assert files
    assert all("victim" not in path.name for path in files), "names never become file names"


def test_pages_of_other_origins_send_no_credentials(assistant: Workerd) -> None:
    """The template answers any origin; without credentials there is nothing to steal with."""
    request = urllib.request.Request(
        f"{assistant.url}/agents/assistant/cors/get-messages",
        headers={"origin": "https://elsewhere.example"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.headers["access-control-allow-credentials"] is None
        assert response.headers["set-cookie"] is None


def test_the_page_comes_with_headers_that_protect_it(assistant: Workerd) -> None:
    with urllib.request.urlopen(f"{assistant.url}/", timeout=30) as response:
        headers = response.headers
        assert "text/html" in headers["content-type"]
    assert headers["content-security-policy"] == "frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def send_head(running: Workerd, length: str, *, token: str = "", body: bytes = b"") -> int:
    """Send a POST whose body is announced, and its beginning; the answer's status."""
    address = urlsplit(running.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    try:
        connection.putrequest("POST", "/agents/assistant/door/chat")
        name = "transfer-encoding" if length == "chunked" else "content-length"
        connection.putheader(name, length)
        if token:
            connection.putheader("authorization", f"Bearer {token}")
        connection.endheaders(body)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_strangers_body_and_one_that_is_too_large_are_not_read(
    start_worker: StartWorker,
) -> None:
    running = start_worker(variables={"PALIMPSEST_AUTH_SECRET": SECRET}, assets=False)
    announced = str(100 * 1024 * 1024)
    assert send_head(running, announced) == 401
    assert send_head(running, announced, token=token()) == 413
    text = b'{"message": "hello"}'
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text)
    assert send_head(running, "chunked", token=token(), body=chunks) == 200


def test_what_can_never_connect_is_told_so(start_worker: StartWorker) -> None:
    running = start_worker(assets=False)
    for query, code in (("session=%00", 4400), (f"x={'y' * 9_000}", 4414)):
        with (
            connect(f"{running.socket_url}/agents/assistant/door?{query}") as socket,
            pytest.raises(ConnectionClosed) as closed,
        ):
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code
