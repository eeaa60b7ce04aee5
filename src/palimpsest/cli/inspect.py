"""Show what an agent holds: its sessions, a conversation's tree, overlays, tokens, schedules."""

from __future__ import annotations

import argparse
import asyncio
import json
from datetime import UTC, datetime
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
from palimpsest.jobs import Jobs
from palimpsest.messages import text_of, tool_name, tool_parts
from palimpsest.session.exchange import tree_entries
from palimpsest.session.manager import SessionManager

SUMMARY = "show sessions, a conversation's tree, overlays, tokens and schedules"

PREVIEW_CHARACTERS = 72


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("source", help=SOURCE_HELP)
    parser.add_argument("--session", default="", help="the session (default: the default session)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_agent_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    if is_address(options.source):
        agent = RemoteAgent.of(options.source, options)
        report = {
            "sessions": agent.json("GET", "sessions")["sessions"],
            "memory": agent.json("GET", "memory", {"session": options.session}),
            "status": agent.json("GET", "status"),
        }
        print(json.dumps(report, ensure_ascii=False, indent=2))
        return 0
    with opened_copy(Path(options.source)) as host:
        report = asyncio.run(inspect(host, options.session))
    if options.json:
        print(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        print(shown("\n".join(_lines(report))))
    return 0


async def inspect(host: LocalHost, session_id: str) -> dict[str, Any]:
    """What a database holds, as a JSON object. Times are ms since 1970."""
    manager = SessionManager.create(host)
    session = manager.get_session(session_id)
    leaf = await session.get_latest_leaf()
    messages: list[dict[str, Any]] = []
    stats = {stat.id: stat for stat in await session.get_history_row_stats()}
    async for entry in tree_entries(session):
        stat = stats.get(entry.message["id"])
        messages.append(
            {
                "id": entry.message["id"],
                "parentId": entry.parent_id,
                "role": entry.message["role"],
                "createdAt": entry.created_at,
                "active": stat is not None,
                "tokens": stat.tokens if stat else None,
                "preview": _preview(entry.message),
            }
        )
    return {
        "session": session_id,
        "sessions": [
            {"id": info.id, "name": info.name, "updatedAt": info.updated_at}
            for info in await manager.list()
        ],
        "leafId": leaf["id"] if leaf else None,
        "contextTokens": session.context_tokens(),
        "messages": messages,
        "overlays": [
            {
                "id": overlay.id,
                "fromMessageId": overlay.from_message_id,
                "toMessageId": overlay.to_message_id,
                "summary": overlay.summary,
                "createdAt": overlay.created_at,
                "stale": overlay.stale,
            }
            for overlay in await session.get_compactions()
        ],
        "jobs": [
            {"id": job.id, "kind": job.kind, "at": job.at, "status": job.status}
            for job in Jobs.of(host).list()
        ],
    }


def _preview(message: dict[str, Any]) -> str:
    tools = [f"[{tool_name(part)}]" for part in tool_parts(message)]
    text = " ".join([*tools, *text_of(message).split()])
    return text if len(text) <= PREVIEW_CHARACTERS else text[: PREVIEW_CHARACTERS - 1] + "…"


def _lines(report: dict[str, Any]) -> list[str]:
    lines = [f"{len(report['sessions'])} named sessions"]
    lines += [f"  {item['name']}  ({item['id']})" for item in report["sessions"]]
    name = repr(report["session"]) if report["session"] else "the default session"
    active = sum(1 for message in report["messages"] if message["active"])
    lines.append(
        f"{name}: {len(report['messages'])} messages, {active} on the active path, "
        f"{report['contextTokens']} tokens in the next turn's context"
    )
    lines += _tree(report["messages"], {item["fromMessageId"]: item for item in report["overlays"]})
    lines.append(f"{len(report['overlays'])} overlays")
    for overlay in report["overlays"]:
        state = ", stale" if overlay["stale"] else ""
        lines.append(f"  {overlay['fromMessageId']} … {overlay['toMessageId']}{state}")
        lines += [f"    {line}" for line in overlay["summary"].splitlines()]
    lines.append(f"{len(report['jobs'])} jobs")
    lines += [
        f"  {_time(job['at'])}  {job['kind']}  {job['id']}  {job['status']}"
        for job in report["jobs"]
    ]
    return lines


def _tree(messages: list[dict[str, Any]], overlays: dict[str, dict[str, Any]]) -> list[str]:
    """One line a message; a branch is indented below the message that it leaves."""
    depth: dict[str | None, int] = {None: 0}
    children: dict[str | None, int] = {}
    lines: list[str] = []
    for message in messages:
        parent = message["parentId"]
        level = depth.get(parent, 0) + (1 if children.get(parent) else 0)
        children[parent] = children.get(parent, 0) + 1
        depth[message["id"]] = level
        mark = "*" if message["active"] else " "
        if message["id"] in overlays:
            last = overlays[message["id"]]["toMessageId"]
            lines.append(f"  {'  ' * level}≡ summarized up to {last}")
        lines.append(
            f"{mark} {'  ' * level}{message['role']:>9}  {message['id']}  {message['preview']}"
        )
    return lines


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
