"""One answer as it streams: to every client that listens, into the store, and on to those who join.

A chunk is encoded once. It goes to the sockets of the session that are not about to be given a
replay, into a buffer that is written in segments, and wakes the readers of HTTP streams. A client
that joins is first sent what was stored, in order, and becomes a live target in the same step in
which it has caught up; so each chunk reaches it exactly once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from json import loads
from typing import Any

from palimpsest.actor.connections import Connection
from palimpsest.chat.accumulator import Chunk, MessageAccumulator
from palimpsest.chat.frames import ResponseFrames, encode_chunk
from palimpsest.errors import LimitError
from palimpsest.hosts.interface import Host, Socket
from palimpsest.messages import dump_json
from palimpsest.store.streams import StreamStore

SEGMENT_CHUNKS = 64
"""Chunks after which the buffer is written."""

SEGMENT_BYTES = 64_000
"""Characters after which the buffer is written."""

SEGMENT_SECONDS = 0.25
"""The longest time a chunk stays unwritten, in seconds."""

RECENT_CHUNKS = 512
"""Chunks kept in memory for readers that keep up."""

MOST_GATHERED = 64
"""The most deltas of one part that are sent as one chunk."""

REPLAY_BATCH = 128
"""Replayed frames after which other events get their turn."""


DELTAS = ("text-delta", "reasoning-delta")


class LiveStream:
    """The stream of a running turn.

    :param turn: the turn's row number.
    :param first: the number of the next chunk (0, unless the turn was taken up again).
    :param connections: gives the open connections of the session.
    :param first: the number of the first chunk.
    :param gathers: whether deltas that come faster than they can be sent are joined.
    """

    def __init__(
        self,
        host: Host,
        store: StreamStore,
        turn: int,
        frames: ResponseFrames,
        accumulator: MessageAccumulator,
        connections: Callable[[], list[Connection]],
        *,
        first: int = 0,
        gathers: bool = True,
    ) -> None:
        self.turn = turn
        self.frames = frames
        self.accumulator = accumulator
        self.count = first
        """The number of the next chunk."""
        self.ended = False
        self._host = host
        self._store = store
        self._connections = connections
        self._gathers = gathers
        self._gathered: list[str] = []
        self._gathered_key: tuple[str, str] | None = None
        self._targets: list[Socket] | None = None
        # By socket: one that has come back has the id of the one it replaces, which closes later.
        self._joining: set[Socket] = set()
        self._joined: set[Socket] = set()
        self._buffer: list[str] = []
        self._buffer_size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._recent: deque[str] = deque(maxlen=RECENT_CHUNKS)
        self._news = asyncio.Event()

    # --- writing -------------------------------------------------------------------------------

    def emit(self, chunk: Chunk) -> None:
        """Take a chunk from the model: assemble, send, buffer.

        :raises ValueError: the chunk is not one a message can be made of.
        :raises TypeError: the chunk holds something that JSON has no form for.
        """
        if chunk.get("type") not in DELTAS:
            dump_json(chunk)  # what cannot be sent or stored must not get into the message
        for accepted in self.accumulator.accept(chunk):
            if self._gathers and self._gathered_key is not None and len(accepted) == 3:
                key = (accepted["type"], accepted.get("id"))
                if key == self._gathered_key:
                    self._gather(accepted)
                    continue
            self.emit_accepted(accepted)

    def _gather(self, delta: Chunk) -> None:
        """Hold back a delta that continues the one sent last, until the model has to wait.

        A model that is faster than the event loop would otherwise send a frame for each word; what
        clients assemble is the same.
        """
        pieces = self._gathered
        pieces.append(delta["delta"])
        if len(pieces) == 1:
            asyncio.get_running_loop().call_soon(self.release)
        elif len(pieces) >= MOST_GATHERED:
            self.release()

    def release(self) -> None:
        """Send what was held back."""
        if self._gathered and not self.ended:
            kind, identifier = self._gathered_key or ("", "")
            text = "".join(self._gathered)
            self._gathered.clear()
            self.send_chunk(encode_chunk({"type": kind, "id": identifier, "delta": text}))

    def emit_accepted(self, chunk: Chunk) -> None:
        """Send and buffer a chunk that the accumulator made or has accepted."""
        self.release()
        kind = chunk["type"]
        is_delta = len(chunk) == 3 and kind in DELTAS
        self._gathered_key = (kind, chunk["id"]) if is_delta else None
        self.send_chunk(encode_chunk(chunk))

    def send_chunk(self, body: str) -> None:
        """Send and buffer a chunk that is JSON already."""
        sequence = self.count
        self.count = sequence + 1
        self._buffer.append(body)
        self._recent.append(body)
        self._buffer_size += len(body)
        self.send_frame(self.frames.chunk(body, sequence))
        if len(self._buffer) >= SEGMENT_CHUNKS or self._buffer_size >= SEGMENT_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SEGMENT_SECONDS, self._timed_flush)
        if not self._news.is_set():
            self._news.set()

    def send_frame(self, frame: str) -> None:
        """Send a frame to every connection that follows the stream live."""
        targets = self._targets
        if targets is None:
            targets = self._targets = [
                connection.socket
                for connection in self._connections()
                if connection.socket not in self._joining
            ]
        for socket in targets:
            try:
                socket.send(frame)
            except LimitError as error:
                self._host.log({"event": "chat.frame_too_large", "error": str(error)})
                return
            except Exception as error:
                self._host.log({"event": "chat.send_failed", "error": type(error).__name__})
                socket.close(1011, "could not be sent to")
                self._targets = None

    def _timed_flush(self) -> None:
        self._timer = None
        if not self.ended:
            self.flush()

    def flush(self) -> None:
        """Send what is held back and write what is buffered."""
        self.release()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._buffer:
            bodies, self._buffer, self._buffer_size = self._buffer, [], 0
            self._store.append(self.turn, self.count - len(bodies), bodies)

    def end(self) -> None:
        """No further chunk comes; readers are told."""
        self.flush()
        self.ended = True
        self._news.set()

    def abandon(self) -> None:
        """The agent is being dropped: nothing more is written from here."""
        self.ended = True
        self._gathered.clear()
        self._buffer.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._news.set()

    # --- who listens ---------------------------------------------------------------------------

    def targets_changed(self) -> None:
        """A connection opened or closed."""
        self._targets = None

    def offer(self, connection: Connection) -> None:
        """The connection was told of the stream: it gets nothing live until it acknowledges."""
        self._joining.add(connection.socket)
        self._joined.discard(connection.socket)
        self._targets = None

    def forget(self, connection: Connection) -> None:
        """The connection closed."""
        self._joining.discard(connection.socket)
        self._joined.discard(connection.socket)
        self._targets = None

    async def join(self, connection: Connection) -> bool:
        """Replay the stream to a connection and make it a live target; a second time does nothing.

        One that never was offered the stream has received every chunk already.

        :returns: False if the stream ended meanwhile, so that the connection has not been told.
        """
        if connection.socket in self._joined or connection.socket not in self._joining:
            return True
        self._joined.add(connection.socket)
        position = -1
        while True:
            position = await replay(self._bodies(position), connection, self.frames, position)
            if position >= self.count - 1 or not connection.is_open:
                break
        if connection.socket not in self._joined:
            return True  # it was offered the stream anew meanwhile, or has gone
        self._joining.discard(connection.socket)
        self._targets = None
        if self.ended:
            return False
        if connection.is_open:
            connection.send(self.frames.replay_complete())
        return True

    def has_joined(self, connection: Connection) -> bool:
        """Whether the connection follows the stream (it was not offered a replay, or took it)."""
        return connection.socket not in self._joining

    # --- reading -------------------------------------------------------------------------------

    def _bodies(self, after: int) -> Iterator[tuple[int, str]]:
        """The chunks after that number, of those there are now."""
        oldest_recent = self.count - len(self._recent)
        if after + 1 >= oldest_recent:
            recent = list(self._recent)[after + 1 - oldest_recent :]
            return enumerate(recent, after + 1)
        self.flush()
        return self._store.read(self.turn, after)

    async def follow(self, after: int = -1) -> AsyncGenerator[tuple[int, str], None]:
        """The chunks after that number as they come, until the stream ends."""
        position = after
        while True:
            for number, body in self._bodies(position):
                position = number
                yield number, body
            if position >= self.count - 1:
                if self.ended:
                    return
                self._news.clear()
                await self._news.wait()


async def replay(
    bodies: Iterator[tuple[int, str]],
    connection: Connection,
    frames: ResponseFrames,
    position: int = -1,
) -> int:
    """Send stored chunks to one connection; the number of the last one.

    Neighbouring deltas of one part are sent as one chunk. Not in a continuation: there clients
    compare the numbers with what they have applied.
    """
    sent = 0
    merged: tuple[int, Chunk] | None = None
    for number, body in bodies:
        position = number
        if not frames.continuation and body.startswith(('{"type":"text-delta"', '{"type":"reas')):
            chunk: dict[str, Any] = loads(body)
            if merged is not None and _extends(merged[1], chunk):
                merged = (number, {**chunk, "delta": merged[1]["delta"] + chunk["delta"]})
                continue
            if merged is not None:
                connection.send(frames.replayed(encode_chunk(merged[1]), merged[0]))
            merged = (number, chunk) if "delta" in chunk else None
            if merged is None:
                connection.send(frames.replayed(body, number))
        else:
            if merged is not None:
                connection.send(frames.replayed(encode_chunk(merged[1]), merged[0]))
                merged = None
            connection.send(frames.replayed(body, number))
        sent += 1
        if sent % REPLAY_BATCH == 0:
            await asyncio.sleep(0)
            if not connection.is_open:
                return position
    if merged is not None:
        connection.send(frames.replayed(encode_chunk(merged[1]), merged[0]))
    return position


def _extends(first: Chunk, second: Chunk) -> bool:
    return (
        len(first) == len(second) == 3
        and first["type"] == second.get("type")
        and first.get("id") == second.get("id")
        and isinstance(second.get("delta"), str)
    )


def error_chunk(text: str) -> str:
    """The JSON of an ``error`` chunk."""
    return dump_json({"type": "error", "errorText": text})
