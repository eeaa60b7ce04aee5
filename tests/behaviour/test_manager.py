"""Many sessions in one object, on every host."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.abort import Abort
from palimpsest.errors import (
    LimitError,
    UniqueViolationError,
    UnknownMessageError,
    UnknownSessionError,
)
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, text_message, text_of
from palimpsest.session.manager import SPLIT_PREFIX, SessionManager
from palimpsest.session.providers import AgentSearchProvider
from palimpsest.session.session import UNSET
from palimpsest.tools import Tool, ToolContext


def say(identifier: str, text: str | None = None, role: str = "user") -> Message:
    return text_message(identifier, role, text or f"text of {identifier}")


def chain(count: int, prefix: str = "m") -> list[Message]:
    return [
        say(f"{prefix}{n}", f"message number {n}", "user" if n % 2 == 0 else "assistant")
        for n in range(count)
    ]


async def ids(manager: SessionManager, session_id: str) -> list[str]:
    return [message["id"] for message in await manager.get_history(session_id)]


async def run(tool: Tool, **arguments: Any) -> Any:
    assert tool.execute is not None
    return await tool.execute(arguments, ToolContext(tool_call_id="call-1", abort=Abort()))


async def test_sessions_are_created_listed_renamed_and_used(host: Host) -> None:
    manager = SessionManager.create(host)
    first = await manager.create("First", model="some-model", source="web")
    second = await manager.create("Second", parent_session_id=first.id)
    assert [info.name for info in await manager.list()] == ["Second", "First"]
    assert (first.model, first.source, first.parent_session_id) == ("some-model", "web", None)
    assert second.parent_session_id == first.id
    await manager.rename(first.id, "Renamed")
    assert [info.name for info in await manager.list()] == ["Renamed", "Second"]
    await manager.append(second.id, say("a"))
    assert [info.name for info in await manager.list()] == ["Second", "Renamed"]
    assert (await manager.get(first.id)) is not None
    assert await manager.get("absent") is None


async def test_listing_comes_in_pages_without_gaps_or_repeats(host: Host) -> None:
    manager = SessionManager.create(host)
    created = [(await manager.create(f"S{n}")).id for n in range(7)]
    seen: list[str] = []
    after: str | None = None
    while page := await manager.list(limit=3, after=after):
        seen += [info.id for info in page]
        after = page[-1].cursor
    assert seen == created[::-1]
    for limit in (0, -1, 1001):
        with pytest.raises(ValueError, match="limit must be"):
            await manager.list(limit=limit)
    with pytest.raises(ValueError, match="not a cursor"):
        await manager.list(after="nonsense")


@pytest.mark.parametrize("name", ["", "   ", "x" * 501])
async def test_bad_names_are_refused(host: Host, name: str) -> None:
    manager = SessionManager.create(host)
    with pytest.raises(LimitError, match="name"):
        await manager.create(name)
    info = await manager.create("good")
    with pytest.raises(LimitError, match="name"):
        await manager.rename(info.id, name)


async def test_unknown_sessions_and_taken_ids_are_refused(host: Host) -> None:
    manager = SessionManager.create(host)
    await manager.create("one", session_id="taken")
    with pytest.raises(UniqueViolationError):
        await manager.create("two", session_id="taken")
    for attempt in (
        manager.rename("absent", "x"),
        manager.add_usage("absent", 1, 1),
        manager.compact_and_split("absent", "summary"),
        manager.create("x", parent_session_id="absent"),
    ):
        with pytest.raises(UnknownSessionError, match="absent"):
            await attempt
    for bad in ("x" * 1025, "nul\0", "\ud800"):
        with pytest.raises(LimitError):
            manager.get_session(bad)
    assert not await manager.delete("absent")


async def test_append_all_continues_the_history_and_chains(host: Host) -> None:
    manager = SessionManager.create(host)
    info = await manager.create("chat")
    await manager.append(info.id, say("first"))
    assert await manager.append_all(info.id, chain(3)) == "m2"
    assert await ids(manager, info.id) == ["first", "m0", "m1", "m2"]
    assert await manager.append_all(info.id, [say("b0"), say("b1")], "m0") == "b1"
    assert await ids(manager, info.id) == ["first", "m0", "b0", "b1"]
    assert await manager.append_all(info.id, [say("root")], None) == "root"
    assert await ids(manager, info.id) == ["root"]
    assert await manager.append_all(info.id, []) is None
    assert [message["id"] for message in await manager.get_branches(info.id, "m0")] == ["m1", "b0"]


async def test_append_all_with_one_bad_message_writes_nothing(host: Host) -> None:
    manager = SessionManager.create(host)
    info = await manager.create("chat")
    with pytest.raises(ValueError, match="parts"):
        await manager.append_all(info.id, [say("a"), {"id": "b", "role": "user"}])
    assert await manager.get_message_count(info.id) == 0


async def test_upsert_appends_then_updates(host: Host) -> None:
    manager = SessionManager.create(host)
    info = await manager.create("chat")
    assert await manager.upsert(info.id, say("a", "one"), UNSET) == "a"
    assert await manager.upsert(info.id, say("a", "two")) == "a"
    assert [text_of(message) for message in await manager.get_history(info.id)] == ["two"]


async def test_same_message_id_in_two_sessions(host: Host) -> None:
    manager = SessionManager.create(host)
    for name in ("one", "two"):
        await manager.create(name, session_id=name)
        await manager.append(name, say("same", f"in {name}"))
    for name in ("one", "two"):
        assert [text_of(message) for message in await manager.get_history(name)] == [f"in {name}"]


async def test_fork_keeps_ids_overlays_blocks_and_lineage_without_a_model(host: Host) -> None:
    calls: list[int] = []

    def never(*_: Any) -> None:
        calls.append(1)

    manager = SessionManager.create(host).with_context("memory").on_compaction(never)
    manager.with_context("docs", provider=AgentSearchProvider(host)).compact_after(1)
    info = await manager.create("origin", model="m", source="s")
    await manager.append_all(info.id, chain(8))
    await manager.add_compaction(info.id, "what was said", "m1", "m3")
    await manager.add_compaction(info.id, "later", "m5", "m6")
    await manager.get_session(info.id).replace_context_block("memory", "likes tea")
    forked = await manager.fork(info.id, "m5", "copy")
    assert (forked.parent_session_id, forked.parent_message_id) == (info.id, "m5")
    assert (forked.model, forked.source, forked.input_tokens) == ("m", "s", 0)
    history = await manager.get_history(forked.id)
    assert history[0]["id"] == "m0"
    assert [message["id"] for message in history][2:] == ["m4", "m5"]
    assert text_of(history[1]) == "what was said"
    assert await manager.get_message_count(forked.id) == 6
    block = await manager.get_session(forked.id).get_context_block("memory")
    assert block is not None
    assert block.content == "likes tea"
    assert not calls
    await manager.append(forked.id, say("new"))
    assert await manager.get_message_count(info.id) == 8
    found = await manager.search("message number 2", session_id=forked.id)
    assert found[0].id == "m2"


async def test_fork_at_unknown_message_makes_nothing(host: Host) -> None:
    manager = SessionManager.create(host)
    info = await manager.create("origin")
    await manager.append(info.id, say("a"))
    with pytest.raises(UnknownMessageError):
        await manager.fork(info.id, "absent", "copy")
    assert len(await manager.list()) == 1


async def test_compact_and_split_ends_one_session_and_begins_another(host: Host) -> None:
    manager = SessionManager.create(host)
    info = await manager.create("Long chat", model="m")
    await manager.append_all(info.id, chain(4))
    continued = await manager.compact_and_split(info.id, "All that matters.")
    ended = await manager.get(info.id)
    assert ended is not None
    assert ended.end_reason == "compaction"
    assert (continued.name, continued.parent_session_id, continued.model) == (
        "Long chat",
        info.id,
        "m",
    )
    (message,) = await manager.get_history(continued.id)
    assert text_of(message) == f"{SPLIT_PREFIX}\n\nAll that matters."
    assert await manager.get_message_count(info.id) == 4
    named = await manager.compact_and_split(info.id, "Again.", "Another name")
    assert named.name == "Another name"
    with pytest.raises(ValueError, match="blank"):
        await manager.compact_and_split(info.id, "  ")


async def test_usage_adds_up(host: Host) -> None:
    manager = SessionManager.create(host)
    info = await manager.create("chat")
    await manager.add_usage(info.id, 100, 20, 0.25)
    await manager.add_usage(info.id, 1, 2, 0.5)
    used = await manager.get(info.id)
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.estimated_cost) == (101, 22, 0.75)
    for bad in ((-1, 0, 0.0), (0, -1, 0.0), (0, 0, -0.1), (0, 0, float("nan"))):
        with pytest.raises(ValueError, match="usage"):
            await manager.add_usage(info.id, *bad)


async def test_search_over_all_sessions_tells_session_and_snippet(host: Host) -> None:
    manager = SessionManager.create(host)
    for name in ("work", "home"):
        await manager.create(name, session_id=name)
    await manager.append("work", say("w", "The deployment is on Friday at noon."))
    await manager.append("home", say("h", "Friday we bake bread."))
    results = await manager.search("when is the deployment on Friday")
    assert (results[0].session_id, results[0].id) == ("work", "w")
    assert {result.session_id for result in results} == {"work", "home"}
    assert "Friday" in results[0].snippet
    assert results[0].created_at > 0
    only = await manager.search("Friday", session_id="home")
    assert [result.session_id for result in only] == ["home"]


async def test_session_search_tool_renders_what_it_finds(host: Host) -> None:
    manager = SessionManager.create(host)
    await manager.create("Trip plans", session_id="trip")
    await manager.append("trip", say("t", "We fly to Oslo on Tuesday."))
    await manager.append("", say("d", "Oslo is cold.", "assistant"))
    tool = (await manager.tools())["session_search"]
    text = await run(tool, query="Oslo flight Tuesday")
    assert '[user in "Trip plans", ' in text
    assert "We fly to Oslo on Tuesday." in text
    assert "\n---\n[assistant, " in text
    assert await run(tool, query="zebra") == "No results found."
    assert await run(tool, query=None) == "Error: query must be text"


async def test_searchable_history_is_a_block_of_every_session(host: Host) -> None:
    manager = SessionManager.create(host).with_searchable_history("history")
    session = manager.get_session("x")
    block = await session.get_context_block("history")
    assert block is not None
    assert (block.tag, block.content) == ("[searchable]", "")
    await manager.create("one", session_id="one")
    await manager.append("one", say("a", "The code word is periwinkle."))
    block = await session.get_context_block("history")
    assert block is not None
    assert block.content == "1 session(s) available for search."
    tool = (await session.tools())["search_context"]
    assert "periwinkle" in await run(tool, label="history", query="what is the code word?")


async def test_builder_reaches_sessions_already_made_and_new_ones(host: Host) -> None:
    manager = SessionManager.create(host)
    early = manager.get_session("early")
    manager.with_context("soul", provider="You are kind.").with_cached_prompt()
    assert manager.get_session("early") is early
    assert "You are kind." in await early.freeze_system_prompt()
    assert "You are kind." in await manager.get_session("late").freeze_system_prompt()


async def test_deleting_a_session_leaves_nothing_of_it(host: Host) -> None:
    def build() -> SessionManager:
        manager = SessionManager.create(host).with_context("memory").with_cached_prompt()
        return manager.with_context("docs", provider=AgentSearchProvider(host))

    deleted: list[str] = []
    manager = build()
    manager.on_session_deleted(deleted.append)
    await manager.create("secret", session_id="gone")
    await manager.create("other", session_id="kept")
    for name in ("gone", "kept"):
        await manager.append_all(name, chain(4))
        await manager.add_compaction(name, f"summary {name}", "m0", "m1")
        session = manager.get_session(name)
        await session.replace_context_block("memory", f"memory of {name}")
        await session.context.set_entry("docs", "k", f"entry of {name}")
        await session.freeze_system_prompt()
    assert await manager.delete("gone")
    assert deleted == ["gone"]
    manager = build()
    assert await manager.get("gone") is None
    assert await manager.get_message_count("gone") == 0
    assert list(await manager.get_compactions("gone")) == []
    assert {result.session_id for result in await manager.search("message number")} == {"kept"}
    block = await manager.get_session("gone").get_context_block("memory")
    assert block is not None
    assert block.content == ""
    assert await manager.get_session("gone").context.search("docs", "entry") is None
    assert "memory of gone" not in await manager.get_session("gone").freeze_system_prompt()
    assert await manager.get_message_count("kept") == 4
    assert len(await manager.get_compactions("kept")) == 1
    assert await manager.get_session("kept").context.search("docs", "entry") is not None


async def test_clearing_messages_keeps_context_blocks(host: Host) -> None:
    manager = SessionManager.create(host).with_context("memory")
    await manager.create("chat", session_id="chat")
    await manager.append_all("chat", chain(3))
    await manager.get_session("chat").replace_context_block("memory", "kept")
    await manager.clear_messages("chat")
    assert await manager.get_message_count("chat") == 0
    block = await manager.get_session("chat").get_context_block("memory")
    assert block is not None
    assert block.content == "kept"


async def test_export_gives_originals_under_overlays(host: Host) -> None:
    manager = SessionManager.create(host)
    await manager.create("chat", session_id="chat")
    await manager.append_all("chat", chain(5))
    await manager.add_compaction("chat", "summary", "m1", "m3")
    exported = [message["id"] async for message in manager.export("chat")]
    assert exported == ["m0", "m1", "m2", "m3", "m4"]


async def test_ensure_registers_once(host: Host) -> None:
    manager = SessionManager.create(host)
    first = await manager.ensure("x", "Name")
    assert await manager.ensure("x", "Other") == first
    assert len(await manager.list()) == 1
