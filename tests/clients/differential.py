"""One script of client frames, played to an agent; what its clients received, in normal form."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any, cast

from websockets.asyncio.client import ClientConnection, connect

Frame = dict[str, Any]
QUIET_SECONDS = 0.6


def user(identifier: str, text: str) -> Frame:
    """A user's message."""
    return {"id": identifier, "role": "user", "parts": [{"type": "text", "text": text}]}


class Tab:
    """One connection and all that it received."""

    def __init__(self, url: str, identifier: str) -> None:
        self._url = f"{url}?_pk={identifier}"
        self.frames: list[Frame] = []
        self._socket: ClientConnection | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect."""
        self._socket = await connect(self._url, max_size=None)
        self._task = asyncio.create_task(self._listen(self._socket))

    async def _listen(self, socket: ClientConnection) -> None:
        async for text in socket:
            self.frames.append(json.loads(text))

    async def send(self, **frame: Any) -> None:
        """Send a frame."""
        assert self._socket is not None
        await self._socket.send(json.dumps(frame))

    async def ask(self, request_id: str, *messages: Frame, trigger: str = "submit-message") -> None:
        """Ask for a turn."""
        body = json.dumps({"messages": list(messages), "trigger": trigger})
        init = {"method": "POST", "body": body}
        await self.send(type="cf_agent_use_chat_request", id=request_id, init=init)

    async def until(self, condition: Callable[[Frame], bool]) -> Frame:
        """The first frame for which the condition holds."""
        for _ in range(1000):
            for frame in self.frames:
                if condition(frame):
                    return frame
            await asyncio.sleep(0.01)
        raise AssertionError(f"the frame did not come; there are {self.frames}")

    async def done(self, request_id: str) -> None:
        """Until the turn has ended."""
        await self.until(lambda frame: frame.get("id") == request_id and frame.get("done") is True)

    async def quiet(self) -> None:
        """Until nothing has come for some time."""
        count = -1
        while count != len(self.frames):
            count = len(self.frames)
            await asyncio.sleep(QUIET_SECONDS)

    async def close(self) -> None:
        """Leave."""
        assert self._socket is not None
        assert self._task is not None
        await self._socket.close()
        await self._task


class Room:
    """A fresh object with two tabs."""

    def __init__(self, address: str, name: str) -> None:
        self.http = f"{address}/agents/chat/{name}"
        self.url = self.http.replace("http", "ws", 1)
        self.one = Tab(self.url, "one")
        self.two = Tab(self.url, "two")

    def stored(self) -> list[Frame]:
        """The conversation as the server has it."""
        with urllib.request.urlopen(f"{self.http}/get-messages", timeout=30) as response:
            return json.load(response)


Script = Callable[[Room], Awaitable[None]]


async def play(address: str, name: str, script: Script) -> dict[str, list[Frame]]:
    """What both tabs received and what was stored."""
    room = Room(address, name)
    await room.one.open()
    await room.two.open()
    await asyncio.sleep(0.3)
    await script(room)
    await room.one.quiet()
    await room.two.quiet()
    stored = await asyncio.to_thread(room.stored)
    await room.one.close()
    await room.two.close()
    return without_known_differences(
        normal_form({"one": room.one.frames, "two": room.two.frames, "stored": stored}, name)
    )


def _joined(frames: list[Frame]) -> list[Frame]:
    """Neighbouring deltas of one part as one, neighbouring equal transcripts once."""
    joined: list[Frame] = []
    for frame in frames:
        last = joined[-1] if joined else {}
        if frame.get("type") == "cf_agent_chat_messages" and frame == last:
            continue
        if _is_delta(frame) and _is_delta(last) and last.get("replay") == frame.get("replay"):
            last["body"]["delta"] += frame["body"]["delta"]
        else:
            joined.append(frame)
    return joined


def _is_delta(frame: Frame) -> bool:
    body: Any = frame.get("body")
    return isinstance(body, dict) and "delta" in body


def without_known_differences(seen: dict[str, list[Frame]]) -> dict[str, list[Frame]]:
    """What is left when the differences that every scenario shows are taken out.

    - npm leaves the outcome of a completed turn out; this agent says it (clients read both alike).
    - npm numbers chunks without gaps; here text that comes at once shares a number.
    - npm sends the same transcript twice when a message comes in; here it comes once.
    - npm's stored answer lacks the metadata that its clients got with ``finish``.
    - npm stores ``toolName`` and ``preliminary: false`` in parts that clients store without.
    - npm leaves an interrupted text in the state ``streaming`` for ever; here it is ``done``.
    - npm names no probe in the offer that follows ``cf_agent_stream_pending``.
    """
    return {
        key: _joined([_without(json.loads(json.dumps(frame))) for frame in frames])
        for key, frames in seen.items()
    }


def _without(frame: Frame) -> Frame:
    if frame.get("outcome") == "completed":
        del frame["outcome"]
    frame.pop("seq", None)
    if frame.get("type") == "cf_agent_stream_resuming":
        frame.pop("probeId", None)
    for message in [*frame.get("messages", []), frame.get("message", {}), frame]:
        metadata: dict[str, Any] = message.get("metadata", {})
        metadata.pop("finishReason", None)
        if not metadata:
            message.pop("metadata", None)
        for part in message.get("parts", []):
            if str(part["type"]).startswith("tool-"):
                part.pop("toolName", None)
                part.pop("preliminary", None)
            elif part.get("state") == "streaming":
                part["state"] = "done"
    return frame


def differences(theirs: dict[str, list[Frame]], ours: dict[str, list[Frame]]) -> list[str]:
    """What one side received and the other did not, a line each: ``- one: …`` is npm's alone."""
    found: list[str] = []
    for key in ("one", "two", "stored"):
        before = [summary(frame) for frame in theirs[key]]
        after = [summary(frame) for frame in ours[key]]
        for line in difflib.unified_diff(before, after, lineterm="", n=0):
            if line[:2] not in ("--", "++", "@@"):
                found.append(f"{line[0]} {key}: {line[1:]}")
    return found


def summary(frame: Frame) -> str:
    """A frame or message in one short line."""
    if "role" in frame:
        texts = [part.get("text", part.get("state", "")) for part in frame["parts"]]
        return f"{frame['role']} {' '.join(filter(None, texts)).strip()}"
    kind = str(frame["type"]).removeprefix("cf_agent_")
    if kind == "chat_messages":
        return f"transcript [{' | '.join(summary(message) for message in frame['messages'])}]"
    if kind == "message_updated":
        return f"updated [{summary(frame['message'])}]"
    body: Any = frame.get("body")
    if kind == "use_chat_response":
        chunk = cast("dict[str, Any]", body if isinstance(body, dict) else {"type": body})
        flags = [name for name in ("error", "done", "replay", "replayComplete") if frame.get(name)]
        text = str(chunk.get("delta", "")).strip()
        ids: list[str] = frame.get("messageIds", [])
        words: list[str] = [str(chunk["type"]), text, *flags, frame.get("outcome", ""), *ids]
        return f"{frame['id']} {' '.join(filter(None, words))}"
    return kind


def normal_form(seen: dict[str, list[Frame]], name: str) -> dict[str, list[Frame]]:
    """Fresh ids by order of appearance, no times, chunk bodies as objects, runs of text joined."""
    opened = {
        key: [_opened(frame) for frame in frames if not _is_own(frame)]
        for key, frames in seen.items()
    }
    text = json.dumps(opened).replace(name, "ROOM")
    ids: dict[str, str] = {}

    def fresh(match: re.Match[str]) -> str:
        return ids.setdefault(match.group(0), f"ID{len(ids) + 1}")

    return json.loads(re.sub(_FRESH_ID, fresh, text))


_FRESH_ID = (
    r"(?:assistant|continue)_[\w-]+"
    r"|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"
    r"|(?<=\"id\": \")[\w-]{21}(?=\")"
)
"""Ids that servers make: named ones, UUIDs, and nanoids of 21 characters."""


def _is_own(frame: Frame) -> bool:
    """Frames of Palimpsest's own, which the npm clients ignore."""
    kind = str(frame.get("type", ""))
    return kind.startswith(("palimpsest_", "cf_agent_session"))


def _opened(value: Any) -> Any:
    if isinstance(value, dict):
        return _opened_object(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_opened(item) for item in cast("list[Any]", value)]
    return value


def _opened_object(value: dict[str, Any]) -> dict[str, Any]:
    opened = {key: _opened(item) for key, item in value.items()}
    body: Any = opened.get("body")
    if isinstance(body, str) and body.startswith("{"):
        opened["body"] = _opened(json.loads(body))
    for field in ("metadata", "messageMetadata"):
        metadata: Any = opened.get(field)
        if isinstance(metadata, dict):
            opened[field] = {
                key: item
                for key, item in cast("dict[str, Any]", metadata).items()
                if key != "createdAt"
            }
            if not opened[field]:
                del opened[field]
    return opened


PROBE = {"type": "cf_agent_stream_resume_request", "probeId": "probe"}


async def plain(room: Room) -> None:
    """A probe, one message."""
    await room.one.send(**PROBE)
    await room.one.ask("r1", user("u1", "hello"))
    await room.one.done("r1")


async def two_turns(room: Room) -> None:
    """A second message after the first."""
    await plain(room)
    await room.two.ask("r2", *room.stored(), user("u2", "more"))
    await room.two.done("r2")


async def stop(room: Room) -> None:
    """Stop in the middle."""
    await room.one.ask("r1", user("u1", "slow a b c d e f g h"))
    await room.one.until(lambda frame: '"c "' in str(frame.get("body")))
    await room.one.send(type="cf_agent_chat_request_cancel", id="r1")
    await room.one.done("r1")


async def model_error(room: Room) -> None:
    """The model's stream ends with an error."""
    await room.one.ask("r1", user("u1", "fail now"))
    await room.one.done("r1")


async def exception(room: Room) -> None:
    """The hook raises."""
    await room.one.ask("r1", user("u1", "throw it"))


async def clear(room: Room) -> None:
    """Clear the conversation."""
    await plain(room)
    await room.two.send(type="cf_agent_chat_clear")


async def replace(room: Room) -> None:
    """A client replaces the transcript by its beginning."""
    await plain(room)
    await room.one.send(type="cf_agent_chat_messages", messages=[user("u1", "hello")])


async def regenerate(room: Room) -> None:
    """The last answer is asked for again."""
    await plain(room)
    await room.one.ask("r2", user("u1", "hello"), trigger="regenerate-message")
    await room.one.done("r2")


async def client_tool(room: Room) -> None:
    """A client's tool, its result, the continuation."""
    await room.one.ask("r1", user("u1", "call locate"))
    await room.one.done("r1")
    await room.one.send(
        type="cf_agent_tool_result",
        toolCallId="call-locate",
        toolName="locate",
        output="home",
        autoContinue=True,
    )
    await _follow(room)


async def approval(room: Room) -> None:
    """A call that is approved."""
    await _decide(room, True)


async def denial(room: Room) -> None:
    """A call that is refused."""
    await _decide(room, False)


async def _decide(room: Room, approved: bool) -> None:
    await room.one.ask("r1", user("u1", "call remove"))
    await room.one.done("r1")
    await room.one.send(
        type="cf_agent_tool_approval",
        toolCallId="call-remove",
        approved=approved,
        autoContinue=True,
    )
    await _follow(room)


async def _follow(room: Room) -> None:
    """Probe and acknowledge, as the one who sent a result does; what it sees then depends on how
    fast it is, so that only the other tab and the store are compared."""
    await room.one.send(**PROBE)
    offer = await room.one.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
    await room.one.send(type="cf_agent_stream_resume_ack", id=offer["id"])
    await room.one.done(offer["id"])
    await room.one.quiet()
    room.one.frames.clear()


async def join(room: Room) -> None:
    """The second tab comes back in the middle of the answer."""
    await room.two.close()
    await room.one.ask("r1", user("u1", "slow a b c d e f"))
    await room.one.until(lambda frame: '"b "' in str(frame.get("body")))
    room.two.frames.clear()
    await room.two.open()
    await room.two.send(**PROBE)
    await room.two.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
    await room.two.send(type="cf_agent_stream_resume_ack", id="r1")
    await room.one.done("r1")


async def queue(room: Room) -> None:
    """Two messages while the first is answered."""
    first = user("u1", "slow a b c")
    await room.one.ask("r1", first)
    await room.one.until(lambda frame: '"a "' in str(frame.get("body")))
    await room.one.ask("r2", first, user("u2", "two"))
    await room.one.ask("r3", first, user("u2", "two"), user("u3", "three"))
    await room.one.done("r3")


async def unknown(room: Room) -> None:
    """Frames that make no sense."""
    await room.one.send(type="cf_agent_stream_resume_ack", id="never")
    await room.one.send(type="cf_agent_chat_request_cancel", id="never")
    await room.one.send(type="cf_agent_nothing")
    await room.one.send(type="cf_agent_tool_result", toolCallId="never", toolName="x", output=1)


SCRIPTS: list[Script] = [
    plain,
    two_turns,
    stop,
    model_error,
    exception,
    clear,
    replace,
    regenerate,
    client_tool,
    approval,
    denial,
    join,
    queue,
    unknown,
]
