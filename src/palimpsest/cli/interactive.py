"""Talking to an agent at a terminal: a prompt, answers as they stream, and commands."""

from __future__ import annotations

import asyncio
from typing import Any

from palimpsest.cli.address import AgentAddress
from palimpsest.cli.connection import ChatConnection
from palimpsest.cli.endpoints import EndpointError
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
from palimpsest.cli.lines import in_daemon_thread
from palimpsest.cli.terminal import TerminalView, shorten

HELP = """\
/compact          summarize older messages now
/search WORDS     search all chats
/memory           tokens, summaries and context blocks
/history          the latest messages
/sessions         the agent's chats; /open NUMBER changes to one
/new [NAME]       begin a new chat
/quit             leave (so does Ctrl+D)
Ctrl+C stops an answer that is coming."""


class InteractiveChat:
    """One session at a terminal; :attr:`next_address` is set when another one was chosen.

    :param approve: ``ask``, ``always`` or ``never``, for tool calls that need approval.
    """

    def __init__(self, connection: ChatConnection, view: TerminalView, approve: str) -> None:
        self._connection = connection
        self._view = view
        self._approve = approve
        self._idle = asyncio.Event()
        self._idle.set()
        self._refused = False
        self._waiting: list[dict[str, Any]] = []
        self._sessions: list[dict[str, Any]] = []
        self._compacting = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.next_address: AgentAddress | None = None

    def interrupt(self) -> None:
        """Ctrl+C: stop the answer, or leave."""
        if not self._connection.answering:
            raise KeyboardInterrupt
        task = asyncio.get_running_loop().create_task(self._connection.stop())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self) -> int:
        """Read and answer until the person leaves; returns the exit status."""
        watcher = asyncio.create_task(self._watch())
        self._view.note(f"{self._connection.address.base} — /help for commands")
        try:
            while not self._refused:
                await self._idle.wait()
                if self._waiting:
                    await self._decide()
                    continue
                try:
                    line = (await self._read("› ")).strip()
                except EOFError:
                    return 0
                if line and not await self._take(line):
                    return 0
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
        return 1

    async def _read(self, prompt: str) -> str:
        return await in_daemon_thread(lambda: self._view.console.input(prompt, markup=False))

    async def _take(self, line: str) -> bool:
        """Act on a line; returns whether to go on."""
        try:
            if line.startswith("/"):
                return await self._command(line)
            self._idle.clear()
            await self._connection.send(line)
        except EndpointError as error:
            self._idle.set()
            self._view.problem(str(error))
        return True

    async def _command(self, line: str) -> bool:
        name, _, rest = line[1:].partition(" ")
        endpoints = self._connection.endpoints
        match name:
            case "quit" | "exit":
                return False
            case "compact":
                result = await endpoints.compact()
                if not result.get("compacted"):
                    reason = result.get("reason") or "There is nothing to summarize yet."
                    self._view.note(str(reason))
            case "search":
                self._view.hits(await endpoints.search(rest))
            case "memory":
                self._view.memory(await endpoints.memory())
            case "history":
                self._view.history(await endpoints.latest_messages())
            case "sessions":
                self._sessions = await endpoints.sessions()
                self._view.sessions(self._sessions, self._connection.address.session)
            case "open":
                return await self._open(rest)
            case "new":
                made = await endpoints.create_session(rest or None)
                self.next_address = self._connection.address.in_session(str(made["id"]))
                return False
            case "help":
                self._view.note(HELP)
            case _:
                self._view.note(f"There is no command /{name}; /help lists them.")
        return True

    async def _open(self, which: str) -> bool:
        if not self._sessions:
            self._sessions = await self._connection.endpoints.sessions()
        if which.isdecimal() and 1 <= int(which) <= len(self._sessions):
            chosen = str(self._sessions[int(which) - 1]["id"])
            self.next_address = self._connection.address.in_session(chosen)
            return False
        self._view.note("Give a number from /sessions.")
        return True

    async def _decide(self) -> None:
        for call in self._waiting:
            if self._approve == "ask":
                try:
                    question = f"Run {call.get('toolName')} {shorten(call.get('input'))}? [y/N] "
                    approved = (await self._read(question)).strip().lower() in ("y", "yes")
                except EOFError:
                    approved = False
            else:
                approved = self._approve == "always"
            self._idle.clear()
            await self._connection.approve(str(call.get("toolCallId")), approved)
        self._waiting = []

    async def _watch(self) -> None:
        calls: dict[str, dict[str, Any]] = {}
        async for event in self._connection.events():
            self._show(event)
            match event:
                case ChunkReceived(_, {"type": "tool-input-available"} as chunk, _):
                    calls[str(chunk.get("toolCallId"))] = chunk
                case ChunkReceived(_, {"type": "tool-approval-request"} as chunk, _):
                    call_id = str(chunk.get("toolCallId"))
                    self._waiting.append(calls.get(call_id, chunk))
                case TurnEnded(_, outcome, _, _) if (
                    outcome != "recovering" and not self._connection.answering
                ):
                    self._idle.set()
                case Refused():
                    self._refused = True
                    self._idle.set()
                case _:
                    continue

    def _show(self, event: Event) -> None:
        match event:
            case ChunkReceived(_, chunk, _):
                self._view.chunk(chunk)
            case AnswerRestored(_, message):
                self._view.restored(message)
            case TurnEnded(_, outcome, error, _):
                self._view.ended(outcome, error)
            case Compaction(phase, estimate, _):
                self._show_compaction(phase, estimate)
            case CompactionFailed(error):
                self._view.problem(f"Summarizing failed, nothing was changed: {error}")
            case Connected(True):
                self._view.note("Connected again.")
            case Disconnected(reason, seconds):
                self._view.note(f"Connection lost ({reason}); trying again in {seconds:g} s.")
            case Refused(code, reason):
                self._view.problem(f"The agent refused the connection ({code}): {reason}")
            case _:
                return

    def _show_compaction(self, phase: str, estimate: int | None) -> None:
        # The state is also told at every append; only its beginning and end are news.
        if phase == "compacting" and not self._compacting:
            self._view.note("Summarizing older messages…")
        elif phase == "idle" and self._compacting:
            self._view.note(f"Summarized; the context now holds {estimate} tokens.")
        self._compacting = phase == "compacting"
