"""How a conversation looks in a terminal: text as it comes, finished paragraphs as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from palimpsest.cli.plain import shown
from palimpsest.cli.progress import RESTART

_SHOWN_CHARACTERS = 400
"""Of a tool's input or output."""


def shorten(value: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """A value on one line, cut when long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def message_text(message: Mapping[str, Any]) -> str:
    """The text parts of a message."""
    parts = cast("list[dict[str, Any]]", message.get("parts") or [])
    return "\n\n".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")


def block_end(text: str) -> int:
    """Where the finished Markdown blocks of a growing text end; 0 if none is finished.

    A block is finished by an empty line that is not inside a fenced code block.
    """
    end = 0
    fence: str | None = None
    position = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        stripped = line.strip()
        if fence is not None:
            if stripped.startswith(fence) and stripped.strip("`~") == "":
                fence = None
        elif stripped.startswith(("```", "~~~")):
            fence = stripped[:3]
        elif stripped == "" and line.endswith("\n"):
            end = position
    return end


class AnswerView:
    """Draws one answer while it streams.

    On a terminal the block that is being written is redrawn and finished blocks stay; elsewhere
    the text is written as it comes.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._text = ""
        self._live: Live | None = None

    def add(self, delta: str) -> None:
        """More text."""
        if not self._console.is_terminal:
            self._console.out(delta, end="", highlight=False)
            return
        self._text += delta
        end = block_end(self._text)
        if end:
            self._stop_live()
            self._console.print(Markdown(self._text[:end]))
            self._console.print()
            self._text = self._text[end:]
        if self._text.strip():
            if self._live is None:
                self._live = Live(
                    console=self._console,
                    transient=True,
                    refresh_per_second=12,
                    vertical_overflow="visible",
                )
                self._live.start()
            self._live.update(Markdown(self._text))

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def finish(self) -> None:
        """No more text for now: what is left is drawn for good."""
        self._stop_live()
        if not self._console.is_terminal:
            self._console.out("", highlight=False)
        elif self._text.strip():
            self._console.print(Markdown(self._text))
        self._text = ""


class PipeConsole(Console):
    """A console whose closed pipe is an error like any other's, for the command to end with.

    Control characters of what it shows are made visible; only its own reach the terminal.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of something, harmless."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(shown(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Called while the error is handled: it goes on as it is."""
        self.quiet = True
        raise BrokenPipeError


class TerminalView:
    """Shows events of a conversation on a rich console."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._answer: AnswerView | None = None
        self._written = ""

    def note(self, text: str) -> None:
        """A line about what is going on."""
        self._pause()
        self.console.print(Text(text, style="dim"))

    def problem(self, text: str) -> None:
        """A line about something that went wrong."""
        self._pause()
        self.console.print(Text(text, style="bold red"))

    def _pause(self) -> None:
        if self._answer is not None:
            self._answer.finish()
            self._answer = None

    def chunk(self, chunk: Mapping[str, Any]) -> None:
        """One chunk of an answer."""
        kind = chunk.get("type")
        if kind == "text-delta":
            delta = str(chunk.get("delta", ""))
            self._written += delta
            if self._answer is None:
                self._answer = AnswerView(self.console)
            self._answer.add(delta)
        elif kind == RESTART:
            self.note("The answer was interrupted, and is written anew:")
            self._written = ""
        elif kind == "text-end":
            self._pause()
        elif kind == "start" and "messageId" in chunk:
            self._written = ""  # A start without an id continues the message.
        elif kind == "tool-input-available":
            self.note(f"  tool {chunk.get('toolName')} {shorten(chunk.get('input'))}")
        elif kind == "tool-output-available":
            self.note(f"  → {shorten(chunk.get('output'))}")
        elif kind in ("tool-output-error", "tool-input-error"):
            self.problem(f"  → failed: {chunk.get('errorText')}")
        elif kind == "tool-output-denied":
            self.note("  → denied")
        elif kind == "error":
            self.problem(str(chunk.get("errorText")))

    def restored(self, message: Mapping[str, Any]) -> None:
        """The rest of an answer that was completed while the connection was lost."""
        parts = cast("list[dict[str, Any]]", message.get("parts") or [])
        text = "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
        rest = text[len(self._written) :] if text.startswith(self._written) else text
        if rest:
            self.chunk({"type": "text-delta", "delta": rest})
        self._pause()

    def ended(self, outcome: str, error: str | None) -> None:
        """An answer has ended."""
        self._pause()
        if outcome == "error":
            self.problem(error or "The agent could not answer.")
        elif outcome == "aborted":
            self.note("Stopped. What was written is kept.")
        elif outcome == "skipped":
            self.note("The agent did not take the message: an answer is being written.")

    def history(self, messages: list[dict[str, Any]]) -> None:
        """Messages as stored."""
        for message in messages:
            who = "You" if message.get("role") == "user" else "Agent"
            self.console.print(Text(who, style="bold"))
            self.console.print(Markdown(message_text(message) or "*(no text)*"))

    def hits(self, results: list[dict[str, Any]]) -> None:
        """Search results with their hits marked."""
        if not results:
            self.note("Nothing found.")
        for number, hit in enumerate(results, 1):
            snippet = Text(f"{number:>2}. ")
            for index, piece in enumerate(str(hit.get("snippet", "")).split("\ue000")):
                marked, _, rest = piece.rpartition("\ue001") if index else ("", "", piece)
                snippet.append(marked, style="bold reverse")
                snippet.append(rest)
            where = hit.get("sessionName") or hit.get("sessionId") or "first chat"
            snippet.append(f"  ({where}, {hit.get('role')})", style="dim")
            self.console.print(snippet)

    def memory(self, memory: Mapping[str, Any]) -> None:
        """What the session remembers."""
        budget = memory.get("tokenBudget") or memory.get("tokenThreshold")
        of = f" of {budget:,}" if budget else ""
        used = memory.get("tokenEstimate", 0)
        self.console.print(f"Context: {used:,}{of} tokens", highlight=False)
        for overlay in memory.get("overlays", []):
            state = "" if overlay.get("active") else " (covered by a newer one)"
            self.console.print(Text(f"Summary{state}", style="bold"))
            self.console.print(Markdown(str(overlay.get("summary", ""))))
        blocks = memory.get("context", [])
        if blocks:
            table = Table("Context block", "Tokens", "Limit", box=None, pad_edge=False)
            for block in blocks:
                limit = block.get("maxTokens")
                most = f"{limit:,}" if limit else ""
                table.add_row(str(block["label"]), f"{block['tokens']:,}", most)
            self.console.print(table)

    def sessions(self, sessions: list[dict[str, Any]], current: str) -> None:
        """The agent's sessions, numbered for ``/open``."""
        for number, session in enumerate(sessions, 1):
            title = session.get("name") or session.get("preview") or "(no name)"
            when = datetime.fromtimestamp(session["updatedAt"] / 1000).strftime("%Y-%m-%d %H:%M")
            mark = "*" if session["id"] == current else " "
            line = Text(f"{mark} {number:>2}. {shorten(title, 60)}")
            line.append(f"  {when}", style="dim")
            self.console.print(line)
