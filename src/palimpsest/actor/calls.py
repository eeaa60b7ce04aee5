"""Calls from clients (``rpc`` frames) and from other Workers and objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from palimpsest.actor.callables import error_text, invoke, is_stream, to_json
from palimpsest.actor.connections import Connection
from palimpsest.errors import CallError

if TYPE_CHECKING:
    from palimpsest.actor.agent import Agent


async def answer_frame(agent: Agent, connection: Connection, frame: Mapping[str, Any]) -> None:
    """Run the method that an ``rpc`` frame asks for and send the result, piece by piece if it
    streams."""
    identifier = frame.get("id")
    if not isinstance(identifier, str):
        return
    method = frame.get("method")

    def reply(**fields: Any) -> None:
        connection.send({"type": "rpc", "id": identifier, **fields})

    try:
        result = await invoke(agent, method, frame.get("args", []))
        if is_stream(result):
            await _stream(connection, str(method), result, reply)
            return
        plain = to_json(str(method), result)
    except Exception as error:
        _note(agent, str(method), error)
        reply(success=False, error=error_text(error))
        return
    agent.events.count("call.done")
    reply(success=True, result=plain, done=True)


async def _stream(
    connection: Connection, method: str, chunks: AsyncIterator[Any], reply: Any
) -> None:
    try:
        async for chunk in chunks:
            if not connection.is_open:
                return
            reply(success=True, result=to_json(method, chunk), done=False)
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
    reply(success=True, result=None, done=True)


async def answer_call(agent: Agent, method: str, arguments: Any) -> Any:
    """Run a method for another Worker or object; its result as plain JSON.

    :raises CallError: it is not callable, the arguments do not fit, or it failed.
    """
    try:
        result = await invoke(agent, method, arguments)
        if is_stream(result):
            return [to_json(method, chunk) async for chunk in result]
        return to_json(method, result)
    except CallError as error:
        _note(agent, method, error)
        raise
    except Exception as error:
        _note(agent, method, error)
        raise CallError(error_text(error)) from error


def _note(agent: Agent, method: str, error: Exception) -> None:
    if isinstance(error, CallError):
        agent.events.count("call.refused")
    else:
        agent.events.failure("call.failed", error, method=method[:100])
