"""What tests of running Workers need beside a chat: methods, status, a scripted model."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from tests.support.chat_client import ChatClient
from tests.support.model_server import ModelServer

Json = dict[str, Any]
T = TypeVar("T")


def call_method(client: ChatClient, method: str, *arguments: Any) -> Any:
    """Call an agent's callable method over the socket and return its result.

    :raises AssertionError: the method failed; with its error.
    """
    identifier = uuid.uuid4().hex
    client.send({"type": "rpc", "id": identifier, "method": method, "args": list(arguments)})
    while True:
        frame = client.receive()
        if frame.get("type") == "rpc" and frame.get("id") == identifier:
            assert frame["success"], frame.get("error")
            return frame["result"]


def get_json(url: str) -> Any:
    """The JSON of an address."""
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


def wait_for(check: Callable[[], T], *, seconds: float = 30.0) -> T:
    """What ``check`` gives, once it is not empty.

    :raises AssertionError: it stayed empty.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < deadline, f"nothing within {seconds} s: {found!r}"
        time.sleep(0.1)


def tool_call(name: str, **arguments: Any) -> Json:
    """A model's step that calls one tool."""
    call = {"id": uuid.uuid4().hex[:8], "name": name, "arguments": json.dumps(arguments)}
    return {"calls": [call], "usage": [100, 10]}


def script_model(server: ModelServer, *steps: Json, name: str = "") -> Json:
    """Have the server answer with these steps; the variables that point a Worker at them.

    :param name: of a script that was set before: from now on the steps are these.
    """
    name = name or uuid.uuid4().hex[:8]
    body = json.dumps({"steps": steps}).encode()
    urllib.request.urlopen(f"{server.url}/{name}/script", data=body, timeout=10).read()
    return {
        "PALIMPSEST_MODEL": "openai:gpt-5.6",
        "PALIMPSEST_MODEL_URL": f"{server.url}/{name}/v1",
        "PALIMPSEST_MODEL_KEY": "sk-not-a-real-key",
    }
