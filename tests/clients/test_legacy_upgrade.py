"""A database that npm ``agents`` 0.22 wrote opens, is upgraded once, and keeps everything."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.paths import NODE_MODULES, ROOT

from palimpsest.errors import MigrationError
from palimpsest.hosts.local import LocalHost
from palimpsest.messages import Message
from palimpsest.session.manager import SessionManager
from palimpsest.session.session import Session
from palimpsest.store import legacy
from palimpsest.store.encoding import Encoded
from palimpsest.store.reads import UNREADABLE


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The database, and what the package that wrote it reads from it."""
    path = tmp_path_factory.mktemp("legacy") / "agents.db"
    script = ROOT / "tests" / "clients" / "write_legacy_database.mjs"
    node = NODE_MODULES / ".bin" / "node"
    done = subprocess.run(
        [str(node), "--no-warnings", str(script), str(path)],
        capture_output=True, text=True, check=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    return path, json.loads(done.stdout)


@pytest.fixture
def open_copy(written: tuple[Path, dict[str, Any]], tmp_path: Path) -> Callable[[], LocalHost]:
    """Opens a copy of the database, again the same one at each call."""
    copy = tmp_path / "copy.db"
    shutil.copy(written[0], copy)
    return lambda: LocalHost(copy)


def comparable(history: Sequence[Message]) -> list[Any]:
    """A history without the ``createdAt`` that the old package gave overlays at each read."""
    return [
        {key: value for key, value in message.items() if key != "createdAt"} for message in history
    ]


OpenCopy = Callable[[], LocalHost]


async def test_histories_overlays_and_search_are_kept(
    written: tuple[Path, dict[str, Any]], open_copy: OpenCopy
) -> None:
    expected = written[1]
    session = Session.create(open_copy())
    assert comparable(await session.get_history()) == comparable(expected["default"])
    assert comparable(await session.get_history("branch")) == comparable(expected["branch"])
    assert [one["id"] for one in await session.get_originals()] == [
        "m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "tool",
    ]  # fmt: skip
    assert (await session.search("another answer"))[0].id == "branch"
    assert (await session.search("Porto"))[0].id == "tool"
    assert await session.get_created_at("m0")
    overlays = await session.get_compactions()
    assert [one.summary for one in overlays] == ["notes two to four"]


async def test_sessions_lineage_usage_and_context_are_kept(
    written: tuple[Path, dict[str, Any]], open_copy: OpenCopy
) -> None:
    expected = written[1]
    host = open_copy()
    manager = SessionManager.create(host).with_context("memory").with_cached_prompt()
    for name in ("first", "second"):
        old = expected[name]["info"]
        info = await manager.get(old["id"])
        assert info is not None
        for field in ("name", "parent_session_id", "model", "source", "input_tokens"):
            assert getattr(info, field) == old[field]
        history = await manager.get_history(old["id"])
        assert comparable(history) == comparable(expected[name]["history"])
        block = await manager.get_session(old["id"]).get_context_block("memory")
        assert block is not None
        assert block.content == f"memory of {old['name']}"
    block = await Session.create(host).with_context("memory").get_context_block("memory")
    assert block is not None
    assert block.content == "The cat is called Miso."


async def test_what_was_broken_is_kept_and_harms_nothing(open_copy: OpenCopy) -> None:
    session = Session.create(open_copy())
    broken = (await session.get_history("broken"))[-1]
    assert broken["parts"][0]["type"] == UNREADABLE
    assert [one["id"] for one in await session.get_history("orphan")] == ["orphan"]
    for leaf in ("x1", "x2"):
        assert (await session.get_history(leaf))[-1]["id"] == leaf
    everything = session.message_count()
    assert everything == 10 + 4
    assert not any(one["id"].startswith("compaction_") for one in await session.get_originals())


async def test_the_upgrade_happens_once(open_copy: OpenCopy) -> None:
    host = open_copy()
    session = Session.create(host)
    await session.append_message({"id": "new", "role": "user", "parts": []})
    before = await session.get_history()
    tables = {row[0] for row in host.sql.execute("select name from sqlite_master")}
    assert legacy.OLD_MESSAGES not in tables
    # The overlay whose end never existed applies nowhere; its text is still there.
    assert host.sql.execute(f"select summary from {legacy.OLD_COMPACTIONS}") == [["goes nowhere"]]
    host.close()
    assert await Session.create(open_copy()).get_history() == before


async def test_an_upgrade_that_loses_something_is_undone(
    open_copy: OpenCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = open_copy()
    before = host.sql.execute("select id, content from assistant_messages order by id")
    whole = legacy.encode_message

    def lossy(message: Message) -> Encoded:
        return whole({**message, "parts": []})

    monkeypatch.setattr(legacy, "encode_message", lossy)
    with pytest.raises(MigrationError):
        await Session.create(host).get_history()
    monkeypatch.undo()
    assert host.sql.execute("select id, content from assistant_messages order by id") == before
    assert (await Session.create(host).get_history())[0]["id"] == "m0"
