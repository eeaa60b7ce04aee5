"""A Worker with everything going on at once: chats, compaction, schedules, imports."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.chat.agent import ChatAgent
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.session.exchange import tree_entries
from palimpsest.session.manager import SessionManager

THRESHOLD = 400


@durable_object
class Busy(ChatAgent):
    """Compacts early, ticks every second, and can tell whether its database is sound."""

    def configure_sessions(self, sessions: SessionManager) -> None:
        """Compact early."""
        sessions.compact_after(THRESHOLD)

    def on_start(self) -> None:
        """Declare the same schedule at every wake."""
        self.host.sql.execute("create table if not exists ticks (at integer)")
        self.schedule_every(1, "tick")

    def tick(self, payload: Any = None) -> None:
        """One tick."""
        self.host.sql.execute("insert into ticks values (?)", self.host.now())

    async def on_request(self, request: HttpRequest) -> HttpResponse | None:
        """``?op=check``: what is wrong, and figures."""
        if parse_qs(urlsplit(request.url).query).get("op") != ["check"]:
            return None
        report = json.dumps(await self.check())
        return HttpResponse(200, {"content-type": "application/json"}, report)

    async def check(self) -> dict[str, Any]:
        """The faults of the database, and what else a test compares."""
        sql = self.host.sql
        faults = [str(row[0]) for row in sql.execute("pragma quick_check") if row[0] != "ok"]
        sql.execute("insert into assistant_fts (assistant_fts) values ('integrity-check')")
        for session_id in ("", "imported"):
            faults += await self._faults_of(session_id)
        return {
            "faults": faults,
            "ticks": sql.execute("select count(*) from ticks")[0][0],
            "schedules": len(self.list_schedules()),
            "alarm": await self.host.get_alarm(),
            "now": self.host.now(),
            "overlays": len(await self.session().get_compactions()),
        }

    async def _faults_of(self, session_id: str) -> list[str]:
        session = self.session(session_id)
        faults: list[str] = []
        seen: set[str] = set()
        async for entry in tree_entries(session):
            identifier = entry.message["id"]
            if identifier in seen:
                faults.append(f"{session_id}: {identifier} twice")
            if entry.parent_id is not None and entry.parent_id not in seen:
                faults.append(f"{session_id}: {identifier} stands before its parent")
            seen.add(identifier)
        originals = [message["id"] for message in await session.get_originals()]
        for overlay in await session.get_compactions():
            ends = [overlay.from_message_id, overlay.to_message_id]
            if any(end not in seen for end in ends):
                faults.append(f"{session_id}: overlay {overlay.id} has lost an end")
            if not overlay.summary.strip():
                faults.append(f"{session_id}: overlay {overlay.id} is blank")
        indexed = {
            str(row[0])
            for row in self.host.sql.execute(
                "select message_id from assistant_search join assistant_search_sessions"
                " on doc between number * 4294967296 and number * 4294967296 + 4294967295"
                " where session_id = ?",
                session_id,
            )
        }
        if indexed != seen:
            faults.append(f"{session_id}: index and messages differ by {len(indexed ^ seen)}")
        if len(originals) != len(set(originals)):
            faults.append(f"{session_id}: the path repeats a message")
        return faults


Default = worker_entrypoint()
