"""Write a whole session as JSON Lines: every branch and every overlay."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import TextIO

from palimpsest.cli.source import (
    SOURCE_HELP,
    RemoteAgent,
    add_agent_arguments,
    is_address,
    opened_copy,
)
from palimpsest.hosts.local import LocalHost
from palimpsest.session.exchange import export_lines
from palimpsest.session.manager import SessionManager

SUMMARY = "write a session as JSON Lines"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("source", help=SOURCE_HELP)
    parser.add_argument("--session", default="", help="the session (default: the default session)")
    parser.add_argument("--output", "-o", type=Path, help="the file (default: standard output)")
    add_agent_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Write the export."""
    if options.output is None:
        _export(options, sys.stdout)
        return 0
    partial = options.output.with_name(options.output.name + ".partial")
    with partial.open("w", encoding="utf-8") as file:
        _export(options, file)
    partial.replace(options.output)  # so that a file of this name is always whole
    return 0


def _export(options: argparse.Namespace, file: TextIO) -> None:
    if is_address(options.source):
        agent = RemoteAgent.of(options.source, options)
        file.write(agent.request("GET", "export", {"session": options.session}).decode())
        return
    with opened_copy(Path(options.source)) as host:
        asyncio.run(_write(host, options.session, file))


async def _write(host: LocalHost, session_id: str, file: TextIO) -> None:
    manager = SessionManager.create(host)
    info = await manager.get(session_id)
    async for line in export_lines(manager.get_session(session_id), info):
        file.write(line)
