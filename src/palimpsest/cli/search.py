"""Search an agent's conversations in plain words."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from palimpsest.cli.plain import shown
from palimpsest.cli.source import (
    SOURCE_HELP,
    RemoteAgent,
    add_agent_arguments,
    is_address,
    opened_copy,
)
from palimpsest.hosts.local import LocalHost
from palimpsest.session.manager import SessionManager

SUMMARY = "search an agent's conversations"

_START, _END = "\ue000", "\ue001"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("source", help=SOURCE_HELP)
    parser.add_argument("query", help="a question or words, in any language")
    parser.add_argument("--session", help="search this session only")
    parser.add_argument("--limit", type=int, default=10, help="results at most (default 10)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    add_agent_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the results, best first; returns 1 where nothing was found."""
    if is_address(options.source):
        results = _remote(options)
    else:
        with opened_copy(Path(options.source)) as host:
            results = asyncio.run(_local(host, options))
    for result in results:
        if options.json:
            print(json.dumps(result, ensure_ascii=False))
        else:
            where = f" in {result['sessionId']}" if result["sessionId"] else ""
            snippet = result["snippet"].replace(_START, "«").replace(_END, "»")
            print(shown(f"[{result['role']}{where}] {result['messageId']}\n    {snippet}"))
    return 0 if results else 1


def _remote(options: argparse.Namespace) -> list[dict[str, Any]]:
    query: dict[str, Any] = {"q": options.query, "limit": options.limit}
    if options.session is not None:
        query |= {"scope": "session", "session": options.session}
    return RemoteAgent.of(options.source, options).json("GET", "search", query)["results"]


async def _local(host: LocalHost, options: argparse.Namespace) -> list[dict[str, Any]]:
    manager = SessionManager.create(host)
    found = await manager.search(options.query, limit=options.limit, session_id=options.session)
    return [
        {
            "sessionId": result.session_id,
            "messageId": result.id,
            "role": result.role,
            "createdAt": result.created_at,
            "score": result.score,
            "snippet": _marked(result.snippet, result.highlights),
        }
        for result in found
    ]


def _marked(snippet: str, highlights: tuple[tuple[int, int], ...]) -> str:
    for start, end in reversed(highlights):
        snippet = snippet[:start] + _START + snippet[start:end] + _END + snippet[end:]
    return snippet
