"""Any order of changes keeps order, acyclicity, overlay truth, totals and the index.

The reference is a dictionary of messages with parent ids, walked in the plainest way.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palimpsest.hosts.local import LocalHost
from palimpsest.messages import Message, dump_json
from palimpsest.session.session import Session
from palimpsest.tokens import count_message_tokens
from tests.support.earlier_form import bring_to_earlier_form

MAX_MESSAGES = 40


@dataclass
class Overlay:
    id: str
    first: str
    last: str
    stale: bool = False


@dataclass
class Reference:
    """A conversation in the plainest form: parents by id, in order of adding."""

    messages: dict[str, Message] = field(default_factory=dict[str, Message])
    parents: dict[str, str | None] = field(default_factory=dict[str, "str | None"])
    overlays: list[Overlay] = field(default_factory=list[Overlay])

    def path(self, leaf: str) -> list[str]:
        ids: list[str] = []
        at: str | None = leaf
        while at is not None:
            assert at not in ids, "a cycle"
            ids.append(at)
            at = self.parents[at]
        return ids[::-1]

    def newest(self) -> str | None:
        return next(reversed(self.messages), None)

    def children(self, parent: str | None) -> list[str]:
        return [one for one in self.messages if self.parents[one] == parent]

    def newest_below(self, top: str) -> str:
        return [one for one in self.messages if top in self.path(one)][-1]

    def rendered(self, leaf: str) -> list[str]:
        path = self.path(leaf)
        shown: list[str] = []
        index = 0
        while index < len(path):
            candidates = [
                one
                for one in self.overlays
                if not one.stale and one.first == path[index] and one.last in path[index:]
            ]
            if candidates:
                shown.append(f"compaction_{candidates[-1].id}")
                index = path.index(candidates[-1].last) + 1
            else:
                shown.append(path[index])
                index += 1
        return shown

    def delete(self, gone: str) -> None:
        for overlay in list(self.overlays):
            inside = self.path(overlay.last)
            inside = inside[inside.index(overlay.first) :]
            if inside == [gone]:
                self.overlays.remove(overlay)
            elif overlay.first == gone:
                overlay.first = inside[1]
            elif overlay.last == gone:
                overlay.last = inside[-2]
        for child in self.children(gone):
            self.parents[child] = self.parents[gone]
        del self.messages[gone], self.parents[gone]

    def forget(self, gone: str) -> None:
        for overlay in self.overlays:
            path = self.path(overlay.last)
            if gone in path[path.index(overlay.first) :]:
                overlay.stale = True


def message(identifier: str, text: str) -> Message:
    return {"id": identifier, "role": "user", "parts": [{"type": "text", "text": text}]}


class Run:
    """One sequence of changes, done to a session and to the reference."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.host = LocalHost(start=1_000_000)
        self.session = Session.create(self.host).for_session("s")
        self.reference = Reference()
        self.added = 0

    def pick(self) -> str | None:
        ids = list(self.reference.messages)
        return self.data.draw(st.sampled_from(ids)) if ids else None

    async def append(self) -> None:
        if len(self.reference.messages) < MAX_MESSAGES:
            await self._add(self.reference.newest())

    async def branch(self) -> None:
        if len(self.reference.messages) < MAX_MESSAGES:
            await self._add(self.pick(), explicit=True)

    async def root(self) -> None:
        await self._add(None, explicit=True)

    async def _add(self, parent: str | None, *, explicit: bool = False) -> None:
        self.added += 1
        new = message(
            f"m{self.added}", "word " * self.data.draw(st.integers(0, 9)) + str(self.added)
        )
        if explicit:
            result = await self.session.append_message(new, parent)
        else:
            result = await self.session.append_message(new)
        assert result.inserted
        self.reference.messages[new["id"]] = new
        self.reference.parents[new["id"]] = parent

    async def append_again(self) -> None:
        if (known := self.pick()) is not None:
            result = await self.session.append_message(message(known, "other"), None)
            assert not result.inserted
            assert result.message == self.reference.messages[known]

    async def update(self) -> None:
        if (known := self.pick()) is not None:
            new = message(known, "changed " * self.data.draw(st.integers(0, 9)))
            assert await self.session.update_message(new) == new
            self.reference.messages[known] = new

    async def delete(self) -> None:
        if (known := self.pick()) is not None:
            assert await self.session.delete_messages([known]) == [known]
            self.reference.delete(known)

    async def overlay(self) -> None:
        if (leaf := self.pick()) is not None:
            path = self.reference.path(leaf)
            first: int = self.data.draw(st.integers(0, len(path) - 1))
            last: int = self.data.draw(st.integers(first, len(path) - 1))
            stored = self.session.compaction_store.add_overlay("sum", path[first], path[last])
            self.reference.overlays.append(Overlay(stored.id, path[first], path[last]))

    async def remove_overlay(self) -> None:
        if self.reference.overlays:
            gone = self.data.draw(st.sampled_from(self.reference.overlays))
            assert await self.session.remove_compaction(gone.id)
            self.reference.overlays.remove(gone)

    async def forget(self) -> None:
        if (known := self.pick()) is not None:
            assert await self.session.forget([known]) == [known]
            self.reference.forget(known)
            stored = await self.session.get_message(known)
            assert stored is not None
            self.reference.messages[known] = stored

    async def annotate(self) -> None:
        """Change a message whose words stay as they are."""
        if (known := self.pick()) is not None:
            new = {**self.reference.messages[known], "note": self.data.draw(st.text(max_size=9))}
            assert await self.session.update_message(new) == new
            self.reference.messages[known] = new

    async def update_to_the_same(self) -> None:
        if (known := self.pick()) is not None:
            revisions = "select sum(revision) from assistant_contents"
            before = self.session.stores.sql.execute(revisions)
            same = self.reference.messages[known]
            forgotten = same.get("metadata", {}).get("forgotten", False)
            assert await self.session.update_message(same) == same
            assert forgotten or self.host.sql.execute(revisions) == before

    async def write_in_earlier_form(self) -> None:
        """Go on as with a database of the earlier form."""
        bring_to_earlier_form(self.session.stores.sql)
        await self.restart()

    async def restart(self) -> None:
        self.host = self.host.restarted()
        self.session = Session.create(self.host).for_session("s")

    async def check(self) -> None:
        reference, session = self.reference, self.session
        assert session.message_count() == len(reference.messages)
        for leaf in [*reference.messages, None]:
            end = leaf or reference.newest()
            if end is None:
                assert await session.get_history(leaf) == []
                continue
            path = reference.path(end)
            expected = [reference.messages[one] for one in path]
            assert await session.get_originals(leaf) == expected
            rendered = await session.get_history(leaf)
            assert [one["id"] for one in rendered] == reference.rendered(end)
            assert await session.get_path_length(leaf) == len(path)
            entries = session.compaction_store.path_entries(leaf)
            assert [one.id for one in entries] == reference.rendered(end)
            backward = [one async for one in session.history(leaf, newest_first=True)]
            assert backward == rendered[::-1]
        for one in reference.messages:
            children = [child["id"] for child in await session.get_branches(one)]
            assert children == reference.children(one)
            assert await session.get_parent_id(one) == reference.parents[one]
            assert await session.get_leaf_of(one) == reference.newest_below(one)
        assert [one["id"] for one in await session.get_roots()] == reference.children(None)
        await self.check_totals()
        self.check_overlays()
        self.check_index()

    async def check_totals(self) -> None:
        newest = self.reference.newest()
        if newest is None:
            assert self.session.context_tokens() == 0
            return
        stored = {one.id: one for one in await self.session.get_compactions()}
        expected = sum(
            stored[one.removeprefix("compaction_")].tokens
            if one.startswith("compaction_")
            else count_message_tokens(self.reference.messages[one])
            for one in self.reference.rendered(newest)
        )
        assert self.session.context_tokens() == expected
        for leaf in self.reference.messages:
            stats = await self.session.get_history_row_stats(leaf)
            assert [one.id for one in stats] == self.reference.path(leaf)
            recent = await self.session.get_recent_history(10**9, leaf_id=leaf)
            assert not recent.truncated
            assert recent.total_content_bytes == sum(one.bytes for one in stats)

    def check_overlays(self) -> None:
        stored = self.session.compaction_store.list_overlays()
        assert [(one.id, one.from_message_id, one.to_message_id, one.stale) for one in stored] == [
            (one.id, one.first, one.last, one.stale) for one in self.reference.overlays
        ]

    def check_index(self) -> None:
        rows = self.host.sql.execute("select message_id from assistant_search order by doc")
        assert [row[0] for row in rows] == list(self.reference.messages)
        stored = self.host.sql.execute(
            "select id, content, bytes, tokens from assistant_contents order by key"
        )
        assert [tuple(row) for row in stored] == [
            (one, text := dump_json(message), len(text.encode()), count_message_tokens(message))
            for one, message in self.reference.messages.items()
        ]
        identified = self.host.sql.execute(
            "select id from assistant_identified_messages order by key"
        )
        assert identified == rows
        assert self.host.sql.execute("select count(*) from assistant_messages") == [[len(rows)]]


ACTIONS = (
    Run.append, Run.append, Run.append, Run.branch, Run.branch, Run.root, Run.append_again,
    Run.update, Run.update, Run.delete, Run.delete, Run.overlay, Run.overlay, Run.remove_overlay,
    Run.annotate, Run.update_to_the_same, Run.forget, Run.restart, Run.write_in_earlier_form,
)  # fmt: skip


@given(st.data())
@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_any_order_of_changes_keeps_the_conversation(data: Any) -> None:
    async def go() -> None:
        run = Run(data)
        for action in data.draw(st.lists(st.sampled_from(ACTIONS), min_size=12, max_size=60)):
            await action(run)
        await run.check()

    asyncio.run(go())
