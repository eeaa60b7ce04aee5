"""A chat agent under test, with clients that are plain sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from palimpsest.chat.agent import ChatAgent
from palimpsest.chat.turns import Turn
from palimpsest.errors import ModelError
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.messages import Message, text_of
from palimpsest.models.offline import OfflineModel

STEP = [{"type": "start"}, {"type": "start-step"}]
END = [{"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}]


def user(identifier: str, text: str) -> Message:
    """A user's message."""
    return {"id": identifier, "role": "user", "parts": [{"type": "text", "text": text}]}


class Talker(ChatAgent):
    """Answers as the message says: ``slow`` waits at its gate, ``fail`` fails, ``tool`` calls."""

    stall_seconds = None

    def __init__(self, host: Any) -> None:
        super().__init__(host)
        self.gate = asyncio.Event()
        self.continuing = asyncio.Event()
        self.continuing.set()
        self.turns_seen: list[Turn] = []

    def model(self) -> Any:
        return OfflineModel()

    def on_chat_message(self, turn: Turn) -> Any:
        return self.talk(turn)

    async def talk(self, turn: Turn) -> AsyncIterator[Any]:
        """The answer, as the message asks for it."""
        self.turns_seen.append(turn)
        text = "" if turn.message is None else text_of(turn.message)
        for chunk in STEP:
            yield dict(chunk)
        if turn.base is not None:
            async for chunk in self.continued(turn):
                yield chunk
            return
        if text.startswith("tool"):
            for call in text.split()[1:] or ["c1"]:
                yield {
                    "type": "tool-input-available",
                    "toolCallId": call,
                    "toolName": "locate",
                    "input": {"of": call},
                }
            yield {"type": "finish-step"}
            yield {"type": "finish", "finishReason": "tool-calls"}
            return
        if text.startswith("approve"):
            yield {
                "type": "tool-input-available",
                "toolCallId": "a1",
                "toolName": "remove",
                "input": {},
            }
            yield {"type": "tool-approval-request", "approvalId": "p1", "toolCallId": "a1"}
            yield {"type": "finish-step"}
            yield {"type": "finish", "finishReason": "tool-calls"}
            return
        words = f"answer to {text}".split()
        for number, word in enumerate(words):
            yield {"type": "text-delta", "id": "t", "delta": f"{word} "}
            if text.startswith("slow") and number == 1:
                await self.gate.wait()
            if text.startswith("fail") and number == 1:
                raise ModelError("the model is tired")
            if text.startswith("crash") and number == 1:
                raise RuntimeError("a secret of the inside")
        for chunk in END:
            yield dict(chunk)

    async def continued(self, turn: Turn) -> AsyncIterator[Any]:
        """Answer after tool results; an approved call is run first."""
        assert turn.base is not None
        await self.continuing.wait()
        for part in turn.base["parts"]:
            if part.get("state") == "approval-responded":
                yield {
                    "type": "tool-output-available",
                    "toolCallId": part["toolCallId"],
                    "output": "removed",
                }
        states = [part["state"] for part in turn.base["parts"] if "toolCallId" in part]
        yield {"type": "text-delta", "id": "t", "delta": f"continued after {','.join(states)}"}
        for chunk in END:
            yield dict(chunk)


class Client:
    """One connection."""

    def __init__(self, rig: Rig, socket: Any, identifier: str) -> None:
        self.rig = rig
        self.socket = socket
        self.id = identifier

    async def send(self, frame: dict[str, Any] | str) -> None:
        """Send one frame."""
        text = frame if isinstance(frame, str) else json.dumps(frame)
        await self.rig.agent.handle_message(self.socket, text)

    async def ask(
        self, request_id: str, messages: list[Message], trigger: str = "submit-message", **body: Any
    ) -> None:
        """Ask for a turn."""
        content = json.dumps({"messages": messages, "trigger": trigger, **body})
        init = {"method": "POST", "body": content}
        await self.send({"type": "cf_agent_use_chat_request", "id": request_id, "init": init})

    @property
    def frames(self) -> list[dict[str, Any]]:
        """Everything received, without the greeting."""
        skipped = ("cf_agent_identity", "cf_agent_mcp_servers", "palimpsest_sessions")
        return [
            frame
            for frame in map(json.loads, self.socket.sent)
            if frame["type"] not in skipped and not frame["type"].startswith("cf_agent_session")
        ]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The frames of a type, without ``cf_agent_``."""
        return [frame for frame in self.frames if frame["type"] == f"cf_agent_{kind}"]

    def chunks(self, request_id: str) -> list[dict[str, Any]]:
        """The chunks of a turn as received."""
        return [
            json.loads(frame["body"])
            for frame in self.of("use_chat_response")
            if frame["id"] == request_id and frame["body"] and not frame.get("error")
        ]

    def text(self, request_id: str) -> str:
        """The text that the chunks of a turn add up to."""
        return "".join(
            chunk["delta"] for chunk in self.chunks(request_id) if chunk["type"] == "text-delta"
        )

    def done(self, request_id: str) -> list[dict[str, Any]]:
        """The terminal frames of a turn."""
        return [
            frame
            for frame in self.of("use_chat_response")
            if frame["id"] == request_id and frame["done"]
        ]

    def kinds(self) -> list[str]:
        """The types of all frames, without ``cf_agent_``."""
        return [frame["type"].removeprefix("cf_agent_") for frame in self.frames]

    def forget(self) -> None:
        """Leave out what was received so far."""
        self.socket.sent.clear()

    async def close(self) -> None:
        """Close the connection."""
        self.socket.close(1000, "")
        await self.rig.agent.handle_close(self.socket, 1000, "", True)


class Rig:
    """An agent on a host."""

    def __init__(self, host: Any, kind: type[ChatAgent] = Talker) -> None:
        self.host = host
        self.kind = kind
        self.agent: Any = None

    async def start(self) -> Any:
        """Start the agent."""
        self.agent = self.kind(self.host)
        await self.agent.handle_start()
        return self.agent

    async def connect(self, identifier: str, session: str = "") -> Client:
        """Open a connection."""
        url = f"http://x/agents/talker/room?_pk={identifier}"
        if session:
            url += f"&session={quote(session)}"
        request = HttpRequest("GET", url, {"upgrade": "websocket"})
        response = await self.agent.handle_request(request)
        assert response.status == 101
        return Client(self, response.upgrade, identifier)

    async def restart(self) -> Any:
        """Drop the instance in the middle of what it does and start another on the same rows."""
        self.host = self.host.restarted()
        await asyncio.sleep(0)
        return await self.start()

    async def settle(self, seconds: float = 0.0) -> None:
        """Wait until all turns have ended."""
        if seconds:
            await asyncio.sleep(seconds)
        await self.host.background_idle()

    async def until(self, condition: Any) -> None:
        """Wait for something to become true."""
        for _ in range(400):
            if condition():
                return
            await asyncio.sleep(0.005)
        raise AssertionError("this did not come true")

    async def http(
        self, method: str, path: str, body: Any = None, *, session: str = ""
    ) -> tuple[int, Any]:
        """Send a request; the status and the JSON (or text) of the answer."""
        separator = "&" if "?" in path else "?"
        query = f"{separator}session={quote(session)}" if session else ""
        data = (
            b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        )
        request = HttpRequest(method, f"http://x/agents/talker/room/{path}{query}", {}, data)
        response: HttpResponse = await self.agent.handle_request(request)
        text = await read_body(response)
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    async def shown(self, session: str = "") -> list[str]:
        """The conversation as people see it, ``role: text`` a line."""
        _, messages = await self.http("GET", "get-messages", session=session)
        return [f"{message['role']}: {text_of(message).strip()}" for message in messages]


async def read_body(response: HttpResponse) -> str:
    """The whole body as text."""
    body = response.body
    if isinstance(body, str):
        return body
    if isinstance(body, bytes):
        return body.decode()
    return b"".join([part async for part in body]).decode()


async def started(host: Any, kind: type[ChatAgent] = Talker) -> Rig:
    """A started rig."""
    rig = Rig(host, kind)
    await rig.start()
    return rig
