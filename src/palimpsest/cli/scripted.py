"""Talking to an agent without a person: one message or lines of input, text or JSON out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from palimpsest.cli.connection import ChatConnection
from palimpsest.cli.endpoints import EndpointError
from palimpsest.cli.events import (
    AnswerRestored,
    ChunkReceived,
    CompactionFailed,
    Disconnected,
    Event,
    Refused,
    TurnEnded,
)
from palimpsest.cli.output import JsonOutput
from palimpsest.cli.terminal import PipeConsole, TerminalView


class ScriptedChat:
    """Sends each message after the answer to the one before, and writes what comes.

    :param as_json: write every event as a JSON line instead of the answers' text.
    :param approve: ``always`` or ``never``: what to answer to tool calls that need approval.
    """

    def __init__(self, connection: ChatConnection, *, as_json: bool, approve: str) -> None:
        self._connection = connection
        self._output = JsonOutput() if as_json else None
        self._view = TerminalView(PipeConsole())
        self._errors = TerminalView(PipeConsole(stderr=True))
        self._approve = approve
        self._ended: asyncio.Queue[bool] = asyncio.Queue()
        self._refused = asyncio.Event()
        self._waiting: list[str] = []
        self._continues = False
        """Whether calls were approved, so that a turn follows which nobody asked for by name."""
        self._stopping: set[asyncio.Task[None]] = set()

    def interrupt(self) -> None:
        """Ctrl+C: stop the answer."""
        task = asyncio.get_running_loop().create_task(self._connection.stop())
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def run(self, messages: AsyncIterator[str]) -> bool:
        """Send the messages; returns whether every answer was completed."""
        watcher = asyncio.create_task(self._watch())
        # Who waits for an answer must not wait for a watcher that has failed.
        watcher.add_done_callback(lambda _: self._ended.put_nowait(False))
        completed = True
        try:
            async for message in messages:
                completed = await self._exchange(message) and completed
                if watcher.done():
                    watcher.result()
                    return False
                if self._refused.is_set():
                    return False
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        return completed

    async def _exchange(self, message: str) -> bool:
        try:
            if message == "/compact":
                return self._report(await self._connection.endpoints.compact(), "compacted")
            if message.startswith("/search "):
                hits = await self._connection.endpoints.search(message.removeprefix("/search "))
                return self._report_hits(hits)
            await self._connection.send(message)
        except EndpointError as error:
            self._fail(str(error))
            return False
        return await self._answered()

    async def _answered(self) -> bool:
        completed = await self._ended.get()
        # An approval ends the stream; the agent continues in another one.
        while completed and self._waiting:
            self._continues = True
            for call in self._waiting:
                await self._connection.approve(call, self._approve == "always")
            self._waiting = []
            completed = await self._ended.get()
        self._continues = False
        return completed

    def _report(self, record: dict[str, Any], event: str) -> bool:
        if self._output is not None:
            self._output.write({"event": event, **record})
        elif record.get("compacted"):
            before, after = record.get("tokensBefore"), record.get("tokensAfter")
            self._view.note(f"Summarized: {before} → {after} tokens.")
        else:
            self._view.note(str(record.get("reason") or "Nothing to summarize."))
        return True

    def _report_hits(self, hits: list[dict[str, Any]]) -> bool:
        if self._output is not None:
            self._output.write({"event": "found", "results": hits})
        else:
            self._view.hits(hits)
        return True

    def _fail(self, text: str) -> None:
        if self._output is not None:
            self._output.write({"event": "failed", "error": text})
        else:
            self._errors.problem(text)

    async def _watch(self) -> None:
        async for event in self._connection.events():
            if self._output is not None:
                self._output.event(event)
            else:
                self._show(event)
            match event:
                case ChunkReceived(_, chunk, _) if chunk.get("type") == "tool-approval-request":
                    self._waiting.append(str(chunk.get("toolCallId")))
                case TurnEnded(_, "recovering", _, _):
                    continue  # The agent goes on under another request.
                case TurnEnded(_, outcome, _, own) if own or self._continues:
                    await self._ended.put(outcome == "completed")
                case Refused():
                    self._refused.set()
                    await self._ended.put(False)
                case _:
                    continue

    def _show(self, event: Event) -> None:
        match event:
            case ChunkReceived(_, chunk, _):
                self._view.chunk(chunk)
            case AnswerRestored(_, message):
                self._view.restored(message)
            case TurnEnded(_, _, _, own) if not own and not self._continues:
                return  # how an earlier turn ended is told to every new view
            case TurnEnded(_, "error", error, _):
                self._errors.problem(error or "The agent could not answer.")
            case TurnEnded(_, outcome, _, _) if outcome != "completed":
                self._errors.note(f"The answer ended: {outcome}.")
            case CompactionFailed(error):
                self._errors.note(f"Summarizing failed, nothing was changed: {error}")
            case Disconnected(reason, seconds):
                self._errors.note(f"Connection lost ({reason}); trying again in {seconds:g} s.")
            case Refused(code, reason):
                self._errors.problem(f"The agent refused the connection ({code}): {reason}")
            case _:
                return
