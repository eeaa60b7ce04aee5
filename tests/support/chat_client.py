"""A chat client for tests against a running Worker: blocking, and patient with restarts."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from collections.abc import Callable
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

Frame = dict[str, Any]


class ChatFailed(Exception):
    """A turn ended with an error, or not at all."""


class ChatClient:
    """One user of one agent.

    :param address: gives the Worker's address now, ``http://host:port``; asked at each connect.
    :param name: the object's name.
    """

    def __init__(
        self,
        address: Callable[[], str],
        name: str,
        *,
        agent: str = "assistant",
        session: str = "",
        patience: float = 60.0,
    ) -> None:
        self._address = address
        self._path = f"/agents/{agent}/{name}"
        self._query = f"session={session}"
        self._patience = patience
        self._connection_id = uuid.uuid4().hex
        self._socket: ClientConnection | None = None
        self.sent: list[str] = []
        """Ids of the user messages whose turn was seen to end."""

    def connect(self) -> ClientConnection:
        """The open socket; waits while the Worker is away.

        :raises ChatFailed: it did not come back in time.
        """
        if self._socket is not None:
            return self._socket
        deadline = time.monotonic() + self._patience
        while True:
            url = self._address().replace("http", "ws", 1)
            url += f"{self._path}?_pk={self._connection_id}&{self._query}"
            try:
                self._socket = connect(url, open_timeout=10, max_size=None, legacy=True)
            except (OSError, WebSocketException, TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise ChatFailed(f"no connection within {self._patience} s") from error
                time.sleep(0.1)
            else:
                return self._socket

    def close(self) -> None:
        """Close the connection."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close()

    def receive(self, timeout: float = 30.0) -> Frame:
        """The next JSON frame.

        :raises ChatFailed: the connection broke, or nothing came in time.
        """
        try:
            return json.loads(self.connect().recv(timeout=timeout))
        except (OSError, WebSocketException, TimeoutError) as error:
            self._socket = None
            raise ChatFailed(f"the connection broke: {error!r}") from error

    def send(self, frame: Frame) -> None:
        """Send a frame.

        :raises ChatFailed: the connection broke.
        """
        try:
            self.connect().send(json.dumps(frame))
        except (OSError, WebSocketException) as error:
            self._socket = None
            raise ChatFailed(f"the connection broke: {error!r}") from error

    def ask(self, text: str, *, message_id: str | None = None) -> str:
        """Send a user message and return the answer's text once its turn has ended.

        :raises ChatFailed: the connection broke, or the turn ended with an error.
        """
        request_id = uuid.uuid4().hex[:8]
        message_id = message_id or uuid.uuid4().hex
        message = {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}
        body = json.dumps({"messages": [message], "trigger": "submit-message"})
        self.send(
            {
                "type": "cf_agent_use_chat_request",
                "id": request_id,
                "init": {"method": "POST", "body": body},
            }
        )
        pieces: list[str] = []
        while True:
            frame = self.receive()
            if frame.get("type") != "cf_agent_use_chat_response" or frame.get("id") != request_id:
                continue
            if frame.get("error"):
                raise ChatFailed(str(frame.get("body")))
            if frame.get("body"):
                chunk = json.loads(frame["body"])
                if chunk["type"] == "text-delta":
                    pieces.append(chunk["delta"])
            if frame.get("done"):
                self.sent.append(message_id)
                return "".join(pieces)

    def ask_until_answered(self, text: str) -> str:
        """Ask, and after a broken connection ask again with the same message id, as clients do."""
        message_id = uuid.uuid4().hex
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return self.ask(text, message_id=message_id)
            except ChatFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def messages(self) -> list[dict[str, Any]]:
        """The transcript as the server has it; waits while the Worker is away.

        :raises ChatFailed: it did not come back in time.
        """
        deadline = time.monotonic() + self._patience
        while True:
            url = f"{self._address()}{self._path}/get-messages?{self._query}"
            try:
                with urllib.request.urlopen(url, timeout=30) as response:
                    return json.load(response)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise ChatFailed(f"no transcript within {self._patience} s") from error
                time.sleep(0.1)


def texts_of(messages: list[dict[str, Any]], role: str) -> list[str]:
    """The texts of the messages of one role."""
    return [
        "".join(part["text"] for part in message["parts"] if part["type"] == "text")
        for message in messages
        if message["role"] == role
    ]
