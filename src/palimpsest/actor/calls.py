"""Calls from clients (``rpc`` frames) and from other Workers and objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palimpsest.abort import contained
from palimpsest.actor.callables import (
    close_stream,
    error_text,
    find_callable,
    invoke,
    is_stream,
    to_json,
)
from palimpsest.actor.connections import Connection
from palimpsest.errors import CallError

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent

OPEN, NEXT, CLOSE, METHODS = "$open", "$next", "$close", "$methods"
"""What another Worker or object may call besides the agent's methods; no method has such a name."""

MAX_OPEN_STREAMS = 100
STREAM_IDLE_MS = 300_000
"""A stream that another object has opened and does not read for this long is closed, in ms."""


async def answer_frame(agent: Agent, connection: Connection, frame: Mapping[str, Any]) -> None:
    """Run the method that an ``rpc`` frame asks for and send what it returns or yields."""
    identifier = frame.get("id")
    if not isinstance(identifier, str):
        return
    method = frame.get("method")

    def reply(**fields: Any) -> None:
        connection.send({"type": "rpc", "id": identifier, **fields})

    try:
        if agent.has_tokens and connection.watches_only:
            check_watcher(type(agent), method)
        result = await invoke(agent, method, frame.get("args", []))
        if is_stream(result):
            await _send_chunks(connection, str(method), result, reply)
            result = None
        # Sending is part of the call: a result that is too large is an error like any other.
        reply(success=True, result=to_json(str(method), result), done=True)
    except Exception as error:
        _note(agent, str(method), error)
        reply(success=False, error=error_text(error))
        return
    agent.events.count("call.done")


def check_watcher(agent_class: type, name: Any) -> None:
    """Refuse a call of a read-only token's holder, unless the method says it changes nothing.

    :raises CallError: it does not, or cannot be called at all.
    """
    method = find_callable(agent_class, name)
    if not method.read_only:
        raise CallError(f"{method.name}() cannot be called with a read-only token")


async def _send_chunks(
    connection: Connection, method: str, chunks: AsyncIterator[Any], reply: Any
) -> None:
    """Send each chunk as it comes; a client that went away ends the method."""
    try:
        with contained(f"{method}()", CallError):
            async for chunk in chunks:
                if not connection.is_open:
                    return
                reply(success=True, result=to_json(method, chunk), done=False)
    finally:
        await close_stream(chunks)


@dataclass(slots=True)
class _OpenStream:
    method: str
    chunks: AsyncIterator[Any]
    used_at: int


class OpenStreams:
    """Streams that other Workers and objects read piece by piece; they end with the instance."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._streams: dict[str, _OpenStream] = {}

    async def open(self, method: str, arguments: Sequence[Any]) -> str:
        """Call a streaming method; the id to read its chunks with.

        :raises CallError: it cannot be called, does not stream, or too many streams are open.
        """
        await self._drop_idle()
        if len(self._streams) >= MAX_OPEN_STREAMS:
            raise CallError(f"at most {MAX_OPEN_STREAMS} streams may be open")
        chunks = await invoke(self._agent, method, arguments)
        if not is_stream(chunks):
            raise CallError(f"{method}() does not stream")
        identifier = self._agent.host.random_id()
        self._streams[identifier] = _OpenStream(method, chunks, self._agent.host.now())
        return identifier

    async def next(self, identifier: str) -> list[Any]:
        """The next chunk in a list; an empty list at the end.

        :raises CallError: there is no such stream, or the method failed.
        """
        stream = self._streams.get(identifier)
        if stream is None:
            raise CallError("this stream is not open (any more)")
        stream.used_at = self._agent.host.now()
        try:
            with contained(f"{stream.method}()", CallError):
                return [to_json(stream.method, await anext(stream.chunks))]
        except StopAsyncIteration:
            del self._streams[identifier]
            return []
        except Exception:
            await self.close(identifier)
            raise

    async def close(self, identifier: str) -> None:
        """End a stream early."""
        stream = self._streams.pop(identifier, None)
        if stream is not None:
            await close_stream(stream.chunks)

    async def _drop_idle(self) -> None:
        oldest = self._agent.host.now() - STREAM_IDLE_MS
        for identifier in [k for k, stream in self._streams.items() if stream.used_at < oldest]:
            await self.close(identifier)


async def answer_call(agent: Agent, method: str, arguments: Sequence[Any]) -> Any:
    """Run a method for another Worker or object; its result as plain JSON.

    What streams is collected into a list, unless it is opened with ``$open``.

    :raises CallError: it is not callable, the arguments do not fit, or it failed.
    """
    try:
        if method.startswith("$"):
            return await _answer_stream_call(agent, method, arguments)
        result = await invoke(agent, method, arguments)
        if is_stream(result):
            try:
                with contained(f"{method}()", CallError):
                    return [to_json(method, chunk) async for chunk in result]
            finally:
                await close_stream(result)
        return to_json(method, result)
    except CallError as error:
        _note(agent, method, error)
        raise
    except Exception as error:
        _note(agent, method, error)
        raise CallError(error_text(error)) from error


async def _answer_stream_call(agent: Agent, method: str, arguments: Sequence[Any]) -> Any:
    if method == METHODS and not arguments:
        return agent.callable_methods()
    if not arguments or not isinstance(arguments[0], str):
        raise CallError(f"{method} needs a name or id")
    if method == OPEN:
        return await agent.open_streams.open(arguments[0], arguments[1:])
    if method == NEXT:
        return await agent.open_streams.next(arguments[0])
    if method == CLOSE:
        return await agent.open_streams.close(arguments[0])
    raise CallError(f"Method {method:.100} does not exist")


def _note(agent: Agent, method: str, error: Exception) -> None:
    if isinstance(error, CallError):
        agent.events.count("call.refused")
    else:
        agent.events.failure("call.failed", error, method=method[:100])
