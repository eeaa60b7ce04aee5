"""The project's Worker with a model behind real HTTP: a turn, a stop, a failure, and the key."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.workerd import Workerd
from websockets.sync.client import ClientConnection, connect

from tests.fixtures import StartWorker
from tests.support.model_server import ModelServer

pytestmark = pytest.mark.workerd

KEY = "sk-worker-0123456789abcdef"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    """The provider."""
    with ModelServer() as server:
        yield server


def script(server: ModelServer, name: str, *steps: Json) -> None:
    body = json.dumps({"steps": steps}).encode()
    urllib.request.urlopen(f"{server.url}/{name}/script", data=body).read()


def received(server: ModelServer, name: str) -> list[Json]:
    with urllib.request.urlopen(f"{server.url}/{name}/log") as answer:
        return json.load(answer)["requests"]


def start(start_worker: StartWorker, models: ModelServer, provider: str, name: str) -> Workerd:
    address = f"{models.url}/{name}" + ("/v1" if provider == "openai" else "")
    return start_worker(
        variables={
            "PALIMPSEST_MODEL": f"{provider}:m",
            "PALIMPSEST_MODEL_URL": address,
            "PALIMPSEST_MODEL_KEY": KEY,
            "PALIMPSEST_MODEL_ATTEMPTS": "2",
        }
    )


def ask(socket: ClientConnection, text: str, request: str = "r1") -> None:
    message = {"id": f"u-{request}", "role": "user", "parts": [{"type": "text", "text": text}]}
    body = json.dumps({"messages": [message], "trigger": "submit-message"})
    frame = {
        "type": "cf_agent_use_chat_request",
        "id": request,
        "init": {"method": "POST", "body": body},
    }
    socket.send(json.dumps(frame))


def frames(
    socket: ClientConnection, request: str = "r1", told: Callable[[Json], None] | None = None
) -> list[Json]:
    """The answer's frames up to the last one."""
    found: list[Json] = []
    while True:
        frame = json.loads(socket.recv(timeout=30))
        if frame.get("type") != "cf_agent_use_chat_response" or frame["id"] != request:
            continue
        found.append(frame)
        if told is not None:
            told(frame)
        if frame["done"]:
            return found


def chunks(found: list[Json]) -> list[Json]:
    return [json.loads(frame["body"]) for frame in found if frame["body"].startswith("{")]


def messages(worker: Workerd, name: str) -> list[Json]:
    with urllib.request.urlopen(f"{worker.url}/agents/assistant/{name}/get-messages") as answer:
        return json.load(answer)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_turn_with_the_sessions_own_tool(
    start_worker: StartWorker, models: ModelServer, provider: str
) -> None:
    note = {"label": "memory", "content": "The cat is called Minka."}
    call = {"id": "c1", "name": "set_context", "arguments": json.dumps(note)}
    script(
        models,
        provider,
        {"text": "I note that down.", "calls": [call], "usage": [900, 20]},
        {"text": "Done: Minka.", "usage": [950, 5]},
    )
    worker = start(start_worker, models, provider, provider)
    with connect(f"{worker.socket_url}/agents/assistant/{provider}") as socket:
        ask(socket, "My cat is called Minka.")
        made = chunks(frames(socket))
    kinds = [chunk["type"] for chunk in made]
    assert kinds.count("tool-output-available") == 1
    assert "".join(chunk.get("delta", "") for chunk in made).endswith("Done: Minka.")
    assert kinds[-1] == "finish"
    first, second = received(models, provider)
    assert "set_context" in json.dumps(first["body"]["tools"])
    assert "session_search" in json.dumps(first["body"]["tools"])
    assert "Written to memory" in json.dumps(second["body"])
    stored = messages(worker, provider)
    assert [message["role"] for message in stored] == ["user", "assistant"]
    for path in ("get-messages", "export", "memory"):
        address = f"{worker.url}/agents/assistant/{provider}/{path}"
        with urllib.request.urlopen(address) as answer:
            assert KEY not in answer.read().decode()
    assert KEY not in worker.log()
    # The key was used all the same.
    assert KEY in json.dumps(first["headers"])


def test_stop_ends_the_request_at_the_provider(
    start_worker: StartWorker, models: ModelServer
) -> None:
    words = " ".join(f"word{number}" for number in range(3_000))
    script(models, "stop", {"text": words, "delay": 0.02})
    worker = start(start_worker, models, "openai", "stop")
    with connect(f"{worker.socket_url}/agents/assistant/stop") as socket:
        stopped: list[bool] = []

        def stop_soon(frame: Json) -> None:
            if "text-delta" in frame["body"] and not stopped:
                stopped.append(True)
                socket.send(json.dumps({"type": "cf_agent_chat_request_cancel", "id": "r1"}))

        ask(socket, "Talk to me.")
        last = frames(socket, told=stop_soon)[-1]
    assert last["outcome"] == "aborted"
    deadline = time.monotonic() + 10
    while not received(models, "stop")[0]["gone"] and time.monotonic() < deadline:
        time.sleep(0.05)
    (request,) = received(models, "stop")
    assert request["gone"]
    assert request["events"] < 900
    assert "word0" in json.dumps(messages(worker, "stop")[1])


def test_a_refused_key_is_told_without_the_key(
    start_worker: StartWorker, models: ModelServer
) -> None:
    error = {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}
    script(models, "refused", {"status": 401, "body": {"error": error}})
    worker = start(start_worker, models, "openai", "refused")
    with connect(f"{worker.socket_url}/agents/assistant/refused") as socket:
        ask(socket, "Hello?")
        found = frames(socket)
    shown = json.dumps(found)
    assert "Incorrect API key" in shown
    assert found[-1]["outcome"] == "error"
    assert KEY not in shown
    assert KEY not in worker.log()


def test_a_wrong_variable_is_named_to_whoever_asks(start_worker: StartWorker) -> None:
    worker = start_worker(variables={"PALIMPSEST_MODEL": "openai:m"})
    with connect(f"{worker.socket_url}/agents/assistant/wrong") as socket:
        ask(socket, "Hello?")
        found = frames(socket)
    assert "OPENAI_API_KEY is not set" in json.dumps(found)
    assert found[-1]["done"]
