"""Talk to an agent, from a terminal or a script.

At a terminal: a prompt, with /help for commands; Ctrl+C stops an answer, or leaves when none is
coming. With a message, or input from a pipe: sends it, line by line, and leaves with status 0 if
every answer was completed, else 1.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator

from palimpsest.cli.address import AddressError, AgentAddress, parse_address
from palimpsest.cli.connection import ChatConnection
from palimpsest.cli.interactive import InteractiveChat
from palimpsest.cli.lines import read_lines
from palimpsest.cli.scripted import ScriptedChat
from palimpsest.cli.source import add_agent_arguments
from palimpsest.cli.terminal import PipeConsole, TerminalView

FAILED = 1
MISUSED = 2


SUMMARY = "talk to an agent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command's arguments."""
    parser.add_argument(
        "url", help="a Worker (http://127.0.0.1:8787) or an agent (…/agents/assistant/default)"
    )
    parser.add_argument(
        "message",
        nargs="?",
        help="send this, print the answer and leave",
    )
    parser.add_argument("--session", default="", help="session id (the agent's first session)")
    parser.add_argument(
        "--approve",
        choices=("ask", "always", "never"),
        help="tool calls that need approval: ask (at a terminal), always or never (elsewhere)",
    )
    add_agent_arguments(parser)
    parser.add_argument("--json", action="store_true", help="write every event as a JSON line")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit status."""
    try:
        address = parse_address(
            options.url,
            agent=options.agent,
            name=options.name,
            session=options.session,
            token=options.token,
        )
    except AddressError as error:
        print(f"palimpsest chat: {error}", file=sys.stderr)
        return MISUSED
    interactive = options.message is None and not options.json and sys.stdin.isatty()
    with contextlib.suppress(KeyboardInterrupt):
        if interactive:
            return asyncio.run(_talk(address, options.approve or "ask"))
        return asyncio.run(_script(address, options, options.approve or "never"))
    return 130


async def _talk(address: AgentAddress, approve: str) -> int:
    view = TerminalView(PipeConsole())
    current: AgentAddress | None = address
    status = 0
    while current is not None:
        async with ChatConnection(current) as connection:
            chat = InteractiveChat(connection, view, approve)
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.interrupt)
            status = await chat.run()
            current = chat.next_address
    return status


async def _script(address: AgentAddress, options: argparse.Namespace, approve: str) -> int:
    async with ChatConnection(address) as connection:
        chat = ScriptedChat(connection, as_json=options.json, approve=approve)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, chat.interrupt)
        messages = _only(options.message) if options.message is not None else read_lines()
        return 0 if await chat.run(messages) else FAILED


async def _only(message: str) -> AsyncIterator[str]:
    yield message
