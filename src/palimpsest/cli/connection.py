"""A connection to a chat agent that outlives its socket (wire protocol document, 2.4 to 2.7).

A lost socket is opened again with back-off. Then the client asks for the running stream; the agent
replays it from the first chunk, and what was handed on before is left out. A message whose request
was lost on the way is sent again under its own id, which the agent stores once.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from palimpsest.cli.address import AgentAddress
from palimpsest.cli.endpoints import EndpointError, Endpoints
from palimpsest.cli.events import (
    AnswerRestored,
    ChunkReceived,
    Compaction,
    CompactionFailed,
    Connected,
    Disconnected,
    Event,
    Refused,
    TurnEnded,
)
from palimpsest.cli.progress import Progress

FIRST_RETRY_SECONDS = 0.25
LAST_RETRY_SECONDS = 10.0
_MAX_FRAME_BYTES = 64 * 1024 * 1024
_REMEMBERED_ENDS = 1000
"""Ended answers whose repeated frames are recognised: a resumed stream may be told to end twice."""


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        value: Any = json.loads(text)
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def new_id(prefix: str) -> str:
    """An id that no other client makes."""
    return f"{prefix}-{uuid.uuid4().hex}"


@dataclass(slots=True)
class _Turn:
    """An answer this client waits for or watches."""

    request_id: str
    own: bool
    request: str | None = None
    """The frame that asked, kept until the agent shows that it has it."""
    message_id: str | None = None
    """The user message that was sent."""
    answer_id: str | None = None
    error: str | None = None
    progress: Progress = field(default_factory=Progress)
    received: int = 0
    orphaned: bool = False
    """Whether the socket was lost meanwhile, so that the end may have been missed."""


class ChatConnection:
    """Talks to one session of an agent.

    ``events()`` yields what happens; ``send``, ``stop`` and ``approve`` may be called meanwhile.
    """

    def __init__(self, address: AgentAddress) -> None:
        self.address = address
        self.endpoints = Endpoints(address)
        self._id = str(uuid.uuid4())
        self._socket: ClientConnection | None = None
        self._turns: dict[str, _Turn] = {}
        self._ended: deque[str] = deque(maxlen=_REMEMBERED_ENDS)
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._last_message: dict[str, Any] | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ChatConnection:
        self._task = asyncio.create_task(self._keep_open(), name="chat connection")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._socket is not None:
            await self._socket.close()

    async def events(self) -> AsyncIterator[Event]:
        """Everything that happens, until the agent refuses the connection."""
        while (event := await self._queue.get()) is not None:
            yield event

    @property
    def answering(self) -> bool:
        """Whether an answer to a message of this client is still to come."""
        return any(turn.own for turn in self._turns.values())

    async def send(self, text: str) -> str:
        """Send a message; returns the id of the request. It is kept while there is no socket.

        :raises EndpointError: the conversation's end could not be read before the first message.
        """
        if self._last_message is None:
            tail = await self.endpoints.latest_messages()
            self._last_message = tail[-1] if tail else None
        message: dict[str, Any] = {
            "id": new_id("message"),
            "role": "user",
            "parts": [{"type": "text", "text": text}],
            "metadata": {"createdAt": int(time.time() * 1000)},
        }
        request_id = new_id("request")
        # The agent has the conversation: it needs only to know where this client stands.
        known = [self._last_message] if self._last_message else []
        body = json.dumps({"messages": [*known, message], "trigger": "submit-message"})
        frame = json.dumps(
            {
                "type": "cf_agent_use_chat_request",
                "id": request_id,
                "init": {"method": "POST", "body": body},
            }
        )
        self._turns[request_id] = _Turn(
            request_id, own=True, request=frame, message_id=str(message["id"])
        )
        self._last_message = message
        await self._send_text(frame)
        return request_id

    async def stop(self) -> None:
        """Ask the agent to end every answer this client waits for; the partial text is kept."""
        for turn in [turn for turn in self._turns.values() if turn.own]:
            await self._send_frame(type="cf_agent_chat_request_cancel", id=turn.request_id)

    async def approve(self, tool_call_id: str, approved: bool) -> None:
        """Answer a tool call that waits for approval; the agent then continues."""
        await self._send_frame(
            type="cf_agent_tool_approval",
            toolCallId=tool_call_id,
            approved=approved,
            autoContinue=True,
        )
        await self._ask_for_stream()

    # --- the socket ----------------------------------------------------------------------------

    async def _keep_open(self) -> None:
        delay = FIRST_RETRY_SECONDS
        again = False
        while True:
            reason = "the connection was closed"
            try:
                async with self._connect() as socket:
                    self._socket = socket
                    await self._opened(again)
                    again, delay = True, FIRST_RETRY_SECONDS
                    async for data in socket:
                        if isinstance(data, str):
                            await self._received(data)
                    closed = socket.close_code or 1006
                    if closed == 1008 or 4000 <= closed <= 4999:
                        await self._refuse(closed, socket.close_reason or "")
                        return
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd else 1006
                if code == 1008 or 4000 <= code <= 4999:
                    await self._refuse(code, error.rcvd.reason if error.rcvd else "")
                    return
                reason = str(error)
            except (OSError, InvalidHandshake, TimeoutError) as error:
                reason = str(error) or type(error).__name__
            finally:
                self._socket = None
            await self._queue.put(Disconnected(reason, delay))
            await asyncio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY_SECONDS)

    def _connect(self) -> connect:
        return connect(
            self.address.websocket(self._id),
            additional_headers=self.address.headers,
            max_size=_MAX_FRAME_BYTES,
            open_timeout=10,
        )

    async def _refuse(self, code: int, reason: str) -> None:
        await self._queue.put(Refused(code, reason))
        await self._queue.put(None)

    async def _opened(self, again: bool) -> None:
        await self._queue.put(Connected(again))
        for turn in self._turns.values():
            turn.orphaned = again
        # What the agent does not know goes out again; it knows requests by their ids.
        for turn in list(self._turns.values()):
            if turn.request is not None and (not again or await self._is_lost(turn)):
                await self._send_text(turn.request)
        await self._ask_for_stream()

    async def _is_lost(self, turn: _Turn) -> bool:
        """Whether the message of a request never reached the agent."""
        try:
            lost = await self.endpoints.message(str(turn.message_id)) is None
        except EndpointError:
            return False  # The next reconnect or the resumed stream settles it.
        turn.orphaned = not lost
        return lost

    async def _ask_for_stream(self) -> None:
        await self._send_frame(type="cf_agent_stream_resume_request", probeId=new_id("probe"))

    async def _send_frame(self, **frame: object) -> None:
        await self._send_text(json.dumps(frame))

    async def _send_text(self, text: str) -> None:
        socket = self._socket
        if socket is None:
            return  # Requests are sent again, and streams asked for, when the socket is back.
        try:
            await socket.send(text)
        except ConnectionClosed:
            return

    # --- frames --------------------------------------------------------------------------------

    async def _received(self, data: str) -> None:
        frame = _json_object(data)
        if frame is not None:
            await self._handle(frame)

    async def _handle(self, frame: dict[str, Any]) -> None:
        match frame.get("type"):
            case "cf_agent_use_chat_response":
                await self._response(frame)
            case "cf_agent_stream_resuming":
                request_id = str(frame.get("id"))
                if request_id not in self._ended:
                    self._turns.setdefault(request_id, _Turn(request_id, own=False))
                await self._send_frame(type="cf_agent_stream_resume_ack", id=request_id)
            case "cf_agent_stream_resume_none" if frame.get("reason") != "continuation-owned":
                await self._nothing_runs()
            case "cf_agent_chat_messages":
                messages = frame.get("messages")
                if isinstance(messages, list) and messages:
                    self._last_message = cast("dict[str, Any]", messages[-1])
            case "cf_agent_chat_clear":
                self._last_message = None
            case "cf_agent_session":
                await self._queue.put(
                    Compaction(
                        str(frame.get("phase", "idle")),
                        frame.get("tokenEstimate"),
                        frame.get("tokenThreshold"),
                    )
                )
            case "cf_agent_session_error":
                await self._queue.put(CompactionFailed(str(frame.get("error", "unknown reason"))))
            case _:
                return

    async def _nothing_runs(self) -> None:
        """No stream is running: answers whose end may have been missed are looked up."""
        for turn in [turn for turn in self._turns.values() if turn.own and turn.orphaned]:
            try:
                message = await self._stored_answer(turn)
            except EndpointError:
                continue  # The next reconnect looks again.
            if message is not None:
                self._last_message = message
                await self._queue.put(AnswerRestored(turn.request_id, message))
            await self._end(turn, "completed" if message is not None else "aborted", None)

    async def _stored_answer(self, turn: _Turn) -> dict[str, Any] | None:
        if turn.answer_id is not None:
            return await self.endpoints.message(turn.answer_id)
        tail = await self.endpoints.latest_messages()
        after = False
        for message in tail:
            if after and message.get("role") == "assistant":
                return message
            after = after or message.get("id") == turn.message_id
        return None

    async def _response(self, frame: dict[str, Any]) -> None:
        request_id = str(frame.get("id"))
        if request_id in self._ended:
            return
        turn = self._turns.setdefault(request_id, _Turn(request_id, own=False))
        turn.request = None  # The agent has it.
        body = frame.get("body")
        text = body if isinstance(body, str) else ""
        failed = frame.get("error") is True
        chunk = None if failed else _json_object(text)
        if chunk is not None:
            await self._chunk(turn, chunk)
        if failed and text:
            turn.error = text
        if frame.get("done"):
            outcome = str(frame.get("outcome") or ("error" if turn.error else "completed"))
            await self._end(turn, outcome, turn.error)

    async def _chunk(self, turn: _Turn, chunk: dict[str, Any]) -> None:
        if chunk.get("type") == "start" and isinstance(chunk.get("messageId"), str):
            turn.answer_id = str(chunk["messageId"])
            self._last_message = {"id": turn.answer_id, "role": "assistant", "parts": []}
        for new in turn.progress.unseen(chunk):
            turn.received += 1
            await self._queue.put(ChunkReceived(turn.request_id, new, turn.own))

    async def _end(self, turn: _Turn, outcome: str, error: str | None) -> None:
        if self._turns.pop(turn.request_id, None) is not None:
            self._ended.append(turn.request_id)
            last = self._last_message
            if turn.received == 0 and outcome == "completed" and last is not None:
                # A continuation that was over before it could be followed is told by the
                # transcript that comes before its end.
                await self._queue.put(AnswerRestored(turn.request_id, last))
            await self._queue.put(TurnEnded(turn.request_id, outcome, error, turn.own))
