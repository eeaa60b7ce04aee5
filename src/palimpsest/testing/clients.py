"""A connected client: sends the protocol's frames and keeps what the agent sent back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from palimpsest.actor.agent import Agent
from palimpsest.hosts.local import LocalSocket
from palimpsest.messages import Message, text_message

Frame = dict[str, Any]


class FakeClient:
    """The client's end of a WebSocket to an agent on the local host.

    :param socket: the accepted socket.
    :param agent: gives the instance that runs now.
    """

    def __init__(self, socket: LocalSocket, agent: Callable[[], Agent]) -> None:
        self.socket = socket
        self._agent = agent
        self._numbers = count(1)
        self._received: dict[str, int] = {}

    @property
    def frames(self) -> list[Frame]:
        """Every JSON frame that came, oldest first."""
        return [json.loads(data) for data in self.socket.sent if isinstance(data, str)]

    def frames_of(self, kind: str) -> list[Frame]:
        """The frames of one ``type``."""
        return [frame for frame in self.frames if frame.get("type") == kind]

    async def send(self, frame: Mapping[str, Any] | str | bytes) -> None:
        """Send a frame, or a raw message, and wait until the agent has taken it.

        :raises ConnectionError: the connection is closed; its code and reason.
        """
        if self.socket.closed is not None:
            code, reason = self.socket.closed
            raise ConnectionError(f"the connection was closed with {code}: {reason}")
        data = frame if isinstance(frame, str | bytes) else json.dumps(frame)
        await self._agent().handle_message(self.socket, data)

    async def receive(self, kind: str, *, timeout: float = 5.0) -> Frame:
        """The next frame of a ``type`` that was not yet received this way; others are kept.

        :param timeout: seconds of real time to wait.
        :raises TimeoutError: none came.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            place = self._received.get(kind, 0)
            for index in range(place, len(self.socket.sent)):
                data = self.socket.sent[index]
                frame: Frame = json.loads(data) if isinstance(data, str) else {}
                self._received[kind] = index + 1
                if frame.get("type") == kind:
                    return frame
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError(f"no frame {kind!r} within {timeout} s")
            await asyncio.sleep(0.001)

    async def chat(self, text: str, *, message_id: str | None = None, timeout: float = 5.0) -> str:
        """Send one user message and return the text of the answer to it.

        :raises TimeoutError: the turn did not end in time.
        :raises RuntimeError: the turn ended with an error; its text.
        """
        number = next(self._numbers)
        message = text_message(message_id or f"user-{id(self):x}-{number}", "user", text)
        request_id = f"request-{id(self):x}-{number}"
        await self.request_chat([message], request_id=request_id)
        return await self.answer(request_id, timeout=timeout)

    async def request_chat(
        self,
        messages: list[Message],
        *,
        request_id: str,
        trigger: str = "submit-message",
        **body: Any,
    ) -> None:
        """Send a chat request as the npm hook does; further fields go into its body."""
        content = json.dumps({"messages": messages, "trigger": trigger, **body})
        await self.send(
            {
                "type": "cf_agent_use_chat_request",
                "id": request_id,
                "init": {"method": "POST", "body": content},
            }
        )

    async def answer(self, request_id: str, *, timeout: float = 5.0) -> str:
        """The text of a request's answer, once its ``done`` frame came.

        :raises TimeoutError: it did not come in time.
        :raises RuntimeError: the turn ended with an error; its text.
        """
        pieces: list[str] = []
        while True:
            frame = await self.receive("cf_agent_use_chat_response", timeout=timeout)
            if frame.get("id") != request_id:
                continue
            if frame.get("error"):
                raise RuntimeError(frame.get("body") or "the turn failed")
            if frame.get("body") and not frame.get("done"):
                chunk: Frame = json.loads(frame["body"])
                if chunk.get("type") == "text-delta":
                    pieces.append(chunk["delta"])
                elif chunk.get("type") == "error":
                    raise RuntimeError(chunk.get("errorText") or "the turn failed")
            if frame.get("done"):
                return "".join(pieces)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection from the client's side."""
        self.socket.close(code, reason)
        await self._agent().handle_close(self.socket, code, reason, True)
