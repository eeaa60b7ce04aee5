"""Add a conversation to an agent's session.

Reads the library's own export, databases of npm ``agents`` up to 0.22, message lists of OpenAI's
chat completions, and messages of the AI SDK. Messages that are there already are left as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

from palimpsest.cli.source import (
    RemoteAgent,
    add_agent_arguments,
    is_address,
    is_database,
    opened_copy,
    read_named,
)
from palimpsest.errors import InvalidImportError
from palimpsest.hosts.local import LocalHost
from palimpsest.interchange import Conversation
from palimpsest.messages import dump_json
from palimpsest.session.exchange import ImportResult, export_lines, import_conversation
from palimpsest.session.manager import SessionManager

SUMMARY = "add a conversation to an agent's session"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", type=Path, help="what to import")
    parser.add_argument(
        "target", help="a Worker's or an agent's address (http://...), or a database file"
    )
    parser.add_argument("--session", default="", help="the session to add to")
    parser.add_argument(
        "--from-session", default="", help="the session to read, where the file is a database"
    )
    add_agent_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Import and print how many messages were added."""
    conversation = _read(options.file, options.from_session)
    if is_address(options.target):
        agent = RemoteAgent.of(options.target, options)
        body = "".join(_lines(conversation)).encode()
        answer = agent.request("POST", "import", {"session": options.session}, body)
        counts = json.loads(answer)
        print(f"{counts['imported']} messages imported, {counts['skipped']} were there before")
        return 0
    host = LocalHost(options.target)
    try:
        result = asyncio.run(_store(host, options.session, conversation))
    finally:
        host.close()
    print(
        f"{result.imported} messages imported, {result.skipped} were there before, "
        f"{result.compactions} overlays laid"
    )
    return 0


def _read(path: Path, session_id: str) -> Conversation:
    if not path.is_file():
        raise InvalidImportError(f"{path} is no file")
    if is_database(path):
        with opened_copy(path) as host:
            text = asyncio.run(_export(host, session_id))
    else:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    return read_named(path, text, ids_of(text))


def ids_of(text: str) -> Callable[[], str]:
    """Ids for messages that have none: the same for the same file, so that none comes in twice."""
    digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
    numbers = count(1)
    return lambda: f"imported-{digest}-{next(numbers)}"


async def _export(host: LocalHost, session_id: str) -> str:
    session = SessionManager.create(host).get_session(session_id)
    return "".join([line async for line in export_lines(session)])


async def _store(host: LocalHost, session_id: str, conversation: Conversation) -> ImportResult:
    return await import_conversation(
        SessionManager.create(host).get_session(session_id), conversation
    )


def _lines(conversation: Conversation) -> list[str]:
    lines = [dump_json({"type": "session", **conversation.session}) + "\n"]
    previous: str | None = None
    for entry in conversation.messages:
        line: dict[str, object] = {"type": "message", "message": entry.message}
        if entry.parent_known or previous is not None:
            line["parentId"] = entry.parent_id if entry.parent_known else previous
        if entry.created_at is not None:
            line["createdAt"] = entry.created_at
        previous = str(entry.message["id"])
        lines.append(dump_json(line) + "\n")
    lines += [
        dump_json({**overlay, "type": "compaction"}) + "\n" for overlay in conversation.compactions
    ]
    return lines
