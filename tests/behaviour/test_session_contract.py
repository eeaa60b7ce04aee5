"""What a session promises whatever it stores in: its own database, or a provider."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from dictionary_provider import DictionaryProvider, RemovingProvider
from random_operations import everything, operate
from storages import STORAGES, Storage

from palimpsest.abort import Abort
from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.errors import (
    CompactionRangeError,
    InvalidMessageError,
    InvalidSearchError,
    LimitError,
    ReservedIdError,
    SessionProviderError,
    UnknownMessageError,
    UnknownParentError,
)
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, text_message, text_of
from palimpsest.session.session import ChangeEvent, Session
from palimpsest.tools import Tool, ToolContext


@pytest.fixture(params=list(STORAGES))
def storage(request: pytest.FixtureRequest, host: Host) -> Storage:
    """An empty storage of each kind."""
    return STORAGES[request.param](host)


def said(identifier: str, words: str = "hello", role: str = "user") -> Message:
    return text_message(identifier, role, words)


def ids(messages: list[Message]) -> list[str]:
    return [message["id"] for message in messages]


async def filled(storage: Storage, count: int) -> Session:
    session = storage.session()
    for number in range(count):
        await session.append_message(said(f"m{number}", f"message number {number}"))
    return session


async def called(tool: Tool, **arguments: Any) -> Any:
    assert tool.execute is not None
    return await tool.execute(arguments, ToolContext(tool_call_id="c1", abort=Abort()))


async def shown(session: Session, leaf_id: str | None = None) -> list[str]:
    """The ids of a history; the text of each summary."""
    return [
        text_of(message) if message["id"].startswith("compaction_") else message["id"]
        for message in await session.get_history(leaf_id)
    ]


# -- the tree -----------------------------------------------------------------------------------


async def test_messages_follow_the_newest_one(storage: Storage) -> None:
    await filled(storage, 4)
    again = storage.session()
    assert ids(await again.get_history()) == ["m0", "m1", "m2", "m3"]
    leaf = await again.get_latest_leaf()
    assert leaf is not None
    assert leaf["id"] == "m3"
    assert await again.get_path_length() == 4
    assert await again.get_message("m2") == said("m2", "message number 2")
    assert await again.get_message("m9") is None


async def test_an_empty_session_answers_everything(storage: Storage) -> None:
    session = storage.session()
    assert await session.get_history() == []
    assert await session.get_originals() == []
    assert await session.get_latest_leaf() is None
    assert await session.get_path_length() == 0
    assert await session.get_history_row_stats() == []
    assert (await session.get_recent_history(1000)).messages == []
    assert (await session.get_page()).messages == []
    assert await session.get_message("m0") is None
    assert await session.get_branches("m0") == []
    assert await session.get_siblings() == {}
    assert await session.get_compactions() == []
    assert await session.update_message(said("m0")) is None
    assert await session.delete_messages(["m0"]) == []
    assert await session.forget(["m0"]) == []
    await session.clear_messages()
    assert await session.get_history() == []


async def test_a_parent_is_the_newest_a_named_one_or_none(storage: Storage) -> None:
    session = await filled(storage, 3)
    await session.append_message(said("branch"), "m0")
    await session.append_message(said("behind the branch"))
    assert ids(await session.get_history()) == ["m0", "branch", "behind the branch"]
    assert ids(await session.get_history("m2")) == ["m0", "m1", "m2"]
    assert ids(await session.get_history("m1")) == ["m0", "m1"]
    assert await session.get_history("nowhere") == []
    assert await session.get_path_length("nowhere") == 0
    assert ids(await session.get_branches("m0")) == ["m1", "branch"]
    assert await session.get_branches("nowhere") == []
    await session.append_message(said("root"), None)
    assert ids(await session.get_history()) == ["root"]
    assert await session.get_path_length("m2") == 3


async def test_an_unknown_parent_is_refused(storage: Storage) -> None:
    session = await filled(storage, 1)
    with pytest.raises(UnknownParentError):
        await session.append_message(said("lost"), "nowhere")
    assert ids(await session.get_history()) == ["m0"]
    assert await session.get_message("lost") is None


async def test_adding_a_message_again_changes_nothing(storage: Storage) -> None:
    session = await filled(storage, 2)
    first = await session.append_message(said("new", "first"))
    second = await session.append_message(said("new", "second"), "m0")
    assert (first.inserted, second.inserted) == (True, False)
    assert second.message == said("new", "first")
    assert ids(await session.get_history()) == ["m0", "m1", "new"]
    fresh = await storage.session().append_message(said("m0", "other words"))
    assert not fresh.inserted
    assert fresh.message == said("m0", "message number 0")


async def test_several_messages_form_a_chain(storage: Storage) -> None:
    session = await filled(storage, 2)
    results = await session.append_messages([said("a"), said("b"), said("c")], "m0")
    assert [result.inserted for result in results] == [True, True, True]
    assert ids(await session.get_history()) == ["m0", "a", "b", "c"]
    # Adding a list again, longer, adds the rest behind it.
    again = await session.append_messages([said("b"), said("c"), said("d")])
    assert [result.inserted for result in again] == [False, False, True]
    assert ids(await session.get_history()) == ["m0", "a", "b", "c", "d"]


async def test_what_is_no_message_is_refused_before_anything_is_stored(storage: Storage) -> None:
    session = await filled(storage, 1)
    bad: list[tuple[Any, type[Exception]]] = [
        ({"id": "x", "role": "user"}, InvalidMessageError),
        ({"role": "user", "parts": []}, InvalidMessageError),
        ({"id": "x", "role": "user", "parts": [{"type": "text", "n": float("nan")}]}, ValueError),
        (said("compaction_x"), ReservedIdError),
        (said("x", "a" * (8 * 1024 * 1024)), LimitError),
        ("text", InvalidMessageError),
    ]
    for message, error in bad:
        with pytest.raises(error):
            await session.append_message(message)
        with pytest.raises(error):
            await session.append_messages([said("fine"), message])
        with pytest.raises(error):
            await session.update_message(message)
    assert ids(await session.get_history()) == ["m0"]


async def test_concurrent_appends_each_find_a_place(storage: Storage) -> None:
    session = storage.session()
    await asyncio.gather(*(session.append_message(said(f"m{number}")) for number in range(20)))
    assert sorted(ids(await session.get_history())) == sorted(f"m{number}" for number in range(20))


async def test_an_update_keeps_the_place(storage: Storage) -> None:
    session = await filled(storage, 3)
    changed = said("m1", "other words", "assistant")
    assert await session.update_message(changed) == changed
    assert (await session.get_history())[1] == changed
    assert await session.update_message(said("nowhere")) is None
    assert await session.get_message("nowhere") is None
    assert not (await session.upsert_message(said("m2", "third"))).inserted
    assert (await session.upsert_message(said("m3", "fourth"), "m1")).inserted
    assert ids(await session.get_history()) == ["m0", "m1", "m3"]
    assert await session.get_message("m2") == said("m2", "third")


async def test_children_of_a_deleted_message_move_up(storage: Storage) -> None:
    session = await filled(storage, 5)
    await session.append_message(said("branch"), "m2")
    assert await session.delete_messages(["m1", "m2", "nowhere", "m1"]) == ["m1", "m2"]
    assert ids(await session.get_history("m4")) == ["m0", "m3", "m4"]
    assert ids(await session.get_history("branch")) == ["m0", "branch"]
    assert ids(await session.get_branches("m0")) == ["m3", "branch"]
    assert await session.delete_messages(["m0"]) == ["m0"]
    assert ids(await session.get_history("m4")) == ["m3", "m4"]
    # A deleted id is a new message when it is added again.
    assert (await session.append_message(said("m1", "again"), "m4")).inserted
    assert ids(await session.get_history()) == ["m3", "m4", "m1"]


async def test_a_cleared_session_is_empty_and_usable(storage: Storage) -> None:
    session = await filled(storage, 4)
    await session.add_compaction("summary", "m0", "m1")
    await session.clear_messages()
    assert await session.get_history() == []
    assert await session.get_compactions() == []
    await session.append_message(said("m0", "new"))
    assert await storage.session().get_history() == [said("m0", "new")]


async def test_any_json_comes_back_as_it_was(storage: Storage) -> None:
    session = storage.session()
    messages: list[Message] = [
        {
            "id": "ключ 🗝 'quoted\" ?",
            "role": "assistant",
            "parts": [
                {"type": "text", "text": "zero \x00, half \ud83d, whole 🗝, 猫の名前 ' \\ ? $1 %s"},
                {
                    "type": "tool-weather",
                    "toolCallId": "c1",
                    "state": "output-available",
                    "input": {"place": "Oslo"},
                    "output": [1, 2.5, None, True, {"a": []}],
                },
            ],
            "metadata": {"großes": 2**53, "\x00": ""},
        },
        said("long", "word " * 400_000),
    ]
    for message in messages:
        await session.append_message(message)
    assert await storage.session().get_history() == messages
    assert await storage.session().get_originals() == messages


# -- overlays -----------------------------------------------------------------------------------


async def test_a_summary_is_shown_in_place_of_its_range(storage: Storage) -> None:
    session = await filled(storage, 6)
    stored = await session.add_compaction("one to three", "m1", "m3")
    assert (stored.from_message_id, stored.to_message_id) == ("m1", "m3")
    again = storage.session()
    history = await again.get_history()
    assert history[1]["id"] == f"compaction_{stored.id}"
    assert history[1]["role"] == "assistant"
    assert await shown(again) == ["m0", "one to three", "m4", "m5"]
    assert await shown(again, "m2") == ["m0", "m1", "m2"]
    assert ids(await again.get_originals()) == [f"m{number}" for number in range(6)]
    assert await again.get_path_length() == 6
    listed = await again.get_compactions()
    assert [(one.id, one.summary) for one in listed] == [(stored.id, "one to three")]


async def test_the_newest_summary_of_a_beginning_counts(storage: Storage) -> None:
    session = await filled(storage, 8)
    await session.add_compaction("long", "m1", "m5")
    await session.add_compaction("inside", "m2", "m6")
    assert await shown(session) == ["m0", "long", "m6", "m7"]
    await session.add_compaction("short", "m1", "m2")
    assert await shown(session) == ["m0", "short", "m3", "m4", "m5", "m6", "m7"]
    assert [one.summary for one in await session.get_compactions()] == ["long", "inside", "short"]
    assert ids(await session.get_originals()) == [f"m{number}" for number in range(8)]


async def test_a_summary_of_another_branch_is_not_shown(storage: Storage) -> None:
    session = await filled(storage, 4)
    await session.append_message(said("b1"), "m1")
    await session.append_message(said("b2"))
    await session.add_compaction("main", "m1", "m3")
    assert await shown(session) == ["m0", "m1", "b1", "b2"]
    assert await shown(session, "m3") == ["m0", "main"]
    await session.add_compaction("branch", "m1", "b1")
    assert await shown(session) == ["m0", "branch", "b2"]
    assert ids(await session.get_originals()) == ["m0", "m1", "b1", "b2"]
    assert ids(await session.get_originals("m3")) == ["m0", "m1", "m2", "m3"]


async def test_an_overlay_that_makes_no_sense_is_refused(storage: Storage) -> None:
    session = await filled(storage, 4)
    await session.append_message(said("branch"), "m1")
    with pytest.raises(UnknownMessageError):
        await session.add_compaction("text", "m0", "nowhere")
    with pytest.raises(CompactionRangeError):
        await session.add_compaction("text", "m2", "m1")
    with pytest.raises(CompactionRangeError):
        await session.add_compaction("text", "m2", "branch")
    with pytest.raises(CompactionRangeError):
        await session.add_compaction(" \n", "m1", "m2")
    assert await session.get_compactions() == []


async def test_deleting_leaves_summaries_true(storage: Storage) -> None:
    session = await filled(storage, 8)
    await session.add_compaction("two to five", "m2", "m5")
    await session.delete_messages(["m2"])
    assert await shown(session) == ["m0", "m1", "two to five", "m6", "m7"]
    await session.delete_messages(["m5", "m4"])
    assert await shown(session) == ["m0", "m1", "two to five", "m6", "m7"]
    assert ids(await session.get_originals()) == ["m0", "m1", "m3", "m6", "m7"]
    await session.delete_messages(["m3"])
    assert await shown(session) == ["m0", "m1", "m6", "m7"]


@pytest.mark.parametrize("seed", range(5))
async def test_random_operations_come_to_the_same_everywhere(storage: Storage, seed: int) -> None:
    reference = RemovingProvider() if storage.removes_overlays else DictionaryProvider()
    session, other = storage.session(), Session.create(reference)
    chance, again = random.Random(seed), random.Random(seed)
    for _ in range(60):
        assert await operate(session, chance) == await operate(other, again)
    assert await everything(session) == await everything(other)


async def test_an_overlay_can_be_removed_where_the_storage_can(storage: Storage) -> None:
    session = await filled(storage, 4)
    stored = await session.add_compaction("summary", "m1", "m2")
    if storage.removes_overlays:
        assert await session.remove_compaction(stored.id)
        assert not await session.remove_compaction(stored.id)
        assert await shown(session) == ["m0", "m1", "m2", "m3"]
    else:
        with pytest.raises(SessionProviderError):
            await session.remove_compaction(stored.id)
        assert await shown(session) == ["m0", "summary", "m3"]


async def test_what_is_forgotten_is_in_no_summary(storage: Storage) -> None:
    session = await filled(storage, 5)
    assert await session.forget(["m4", "nowhere"], reason="asked to") == ["m4"]
    marker = await session.get_message("m4")
    assert marker is not None
    assert "number 4" not in str(marker)
    assert marker["metadata"]["forgottenReason"] == "asked to"
    await session.add_compaction("tells of number 2", "m1", "m2")
    await session.add_compaction("tells of number 3", "m3", "m3")
    if storage.removes_overlays:
        assert await session.forget(["m2"]) == ["m2"]
        assert await shown(session) == ["m0", "m1", "m2", "tells of number 3", "m4"]
        assert "number 2" not in str(await session.get_originals())
        assert "number 2" not in str(await session.get_compactions())
    else:
        with pytest.raises(SessionProviderError):
            await session.forget(["m2"])
        assert await shown(session) == ["m0", "tells of number 2", "tells of number 3", "m4"]


# -- reads --------------------------------------------------------------------------------------


async def test_recent_history_ends_with_the_newest(storage: Storage) -> None:
    session = await filled(storage, 10)
    await session.add_compaction("early", "m0", "m5")
    everything = await session.get_recent_history(1_000_000)
    assert ids(everything.messages)[1:] == ["m6", "m7", "m8", "m9"]
    assert not everything.truncated
    recent = await session.get_recent_history(200)
    assert ids(recent.messages)[-2:] == ["m8", "m9"]
    if recent.truncated:
        assert len(recent.messages) == 2
    least = await session.get_recent_history(0, 3)
    assert ids(least.messages)[-3:] == ["m7", "m8", "m9"]
    part = await session.get_recent_history(200, 1, "m3")
    assert ids(part.messages)[-2:] == ["m2", "m3"]


async def test_sizes_are_told_without_content(storage: Storage) -> None:
    session = await filled(storage, 4)
    await session.add_compaction("summary", "m1", "m2")
    stats = await session.get_history_row_stats()
    assert [(one.id, one.role) for one in stats] == [(f"m{number}", "user") for number in range(4)]
    assert all(60 < one.bytes < 100 and 4 < one.tokens < 40 for one in stats)
    assert [one.id for one in await session.get_history_row_stats("m1")] == ["m0", "m1"]


async def test_pages_go_back_to_the_beginning(storage: Storage) -> None:
    session = await filled(storage, 7)
    await session.add_compaction("summary", "m1", "m4")
    page = await session.get_page(limit=3)
    assert (ids(page.messages), page.has_more) == (["m4", "m5", "m6"], True)
    page = await session.get_page("m4", limit=4)
    assert (ids(page.messages), page.has_more) == (["m0", "m1", "m2", "m3"], False)
    assert (await session.get_page("m0")).messages == []
    with pytest.raises(UnknownMessageError):
        await session.get_page("nowhere")
    with pytest.raises(InvalidMessageError):
        await session.get_page(limit=0)


async def test_a_history_can_be_walked_either_way(storage: Storage) -> None:
    session = await filled(storage, 4)
    await session.add_compaction("summary", "m1", "m2")
    there = [message["id"] async for message in session.originals()]
    back = [message["id"] async for message in session.history(newest_first=True, overlays=False)]
    assert there == list(reversed(back)) == ["m0", "m1", "m2", "m3"]
    assert len([message async for message in session.history()]) == 3


async def test_the_tree_can_be_asked_about_places(storage: Storage) -> None:
    session = await filled(storage, 4)
    await session.append_message(said("b1"), "m1")
    await session.append_message(said("b2"))
    await session.add_compaction("summary", "m0", "m1")
    assert await session.get_parent_id("m0") is None
    assert await session.get_parent_id("b1") == "m1"
    assert await session.is_on_path("m0", "b2")
    assert not await session.is_on_path("m2", "b2")
    assert await session.get_siblings() == {"b1": ["m2", "b1"]}
    assert await session.get_leaf_of("m2") == "m3"
    assert await session.get_leaf_of("m1") == "b2"
    for ask in (session.get_parent_id, session.get_leaf_of):
        with pytest.raises(UnknownMessageError):
            await ask("nowhere")
    with pytest.raises(UnknownMessageError):
        await session.is_on_path("nowhere", "b2")


async def test_search_finds_compacted_messages_too(storage: Storage) -> None:
    session = storage.session()
    await session.append_message(said("m0", "The deployment is on Friday at noon."))
    await session.append_message(said("m1", "My cat is called Minka.", "assistant"))
    await session.append_message(said("m2", "猫の名前はミンカです"))
    await session.add_compaction("cats and plans", "m0", "m1")
    if not storage.searches:
        with pytest.raises(SessionProviderError, match="Session provider does not support search"):
            await session.search("cat")
        return
    found = await session.search("deployment Friday")
    assert (found[0].id, found[0].role, found[0].content) == (
        "m0",
        "user",
        "The deployment is on Friday at noon.",
    )
    assert "deployment" in found[0].snippet
    assert "<mark>Friday</mark>" in found[0].marked()
    assert (await session.search("What is the cat's name?"))[0].id == "m1"
    assert (await session.search("名前"))[0].id == "m2"
    assert await session.search("zebra") == []
    assert await session.search("\"'); drop table assistant_messages; --") == []
    assert len(await session.search("the is on my", 1)) <= 1
    with pytest.raises(InvalidSearchError):
        await session.search("cat", 0)
    await session.update_message(said("m1", "My dog is called Rex."))
    await session.delete_messages(["m0"])
    assert await session.search("Minka") == []
    assert await session.search("Friday") == []
    assert (await session.search("dog"))[0].id == "m1"


# -- events, context, compaction ----------------------------------------------------------------


async def test_every_change_is_told(storage: Storage) -> None:
    session = storage.session()
    heard: list[ChangeEvent] = []

    async def listen(event: ChangeEvent) -> None:
        await asyncio.sleep(0)
        heard.append(event)

    stop = session.subscribe(listen)
    await session.append_message(said("m0"))
    await session.append_message(said("m0"))
    await session.append_messages([said("m1"), said("m2")])
    await session.update_message(said("m1", "changed"))
    await session.update_message(said("m1", "changed"))
    await session.import_message(said("m3"))
    await session.add_compaction("summary", "m0", "m1")
    await session.delete_messages(["m2"])
    await session.clear_messages()
    stop()
    await session.append_message(said("m4"))
    assert [(event.kind, event.message_ids, event.inserted) for event in heard] == [
        ("append", ("m0",), True),
        ("append", ("m0",), False),
        ("append", ("m1",), True),
        ("append", ("m2",), True),
        ("update", ("m1",), False),
        ("import", ("m3",), True),
        ("compaction", ("m0", "m1"), False),
        ("delete", ("m2",), False),
        ("clear", (), False),
    ]


async def test_a_listener_that_fails_harms_nobody(storage: Storage) -> None:
    session = storage.session()

    def fail(event: ChangeEvent) -> None:
        raise RuntimeError(event.kind)

    session.subscribe(fail)
    assert (await session.append_message(said("m0"))).inserted
    assert ids(await session.get_history()) == ["m0"]


async def test_blocks_and_the_frozen_prompt_outlive_a_restart(storage: Storage) -> None:
    def opened() -> Session:
        return (
            storage.session()
            .with_context("soul", provider="You are helpful.")
            .with_context("memory", max_tokens=100, provider=storage.block("memory"))
            .with_cached_prompt(storage.block("prompt"))
        )

    session = opened()
    frozen = await session.freeze_system_prompt()
    assert "SOUL" in frozen
    tools = await session.tools()
    assert list(tools) == ["set_context"]
    written = await called(tools["set_context"], label="memory", content="Has a cat.")
    assert written.startswith("Written to memory.")
    again = opened()
    assert await again.freeze_system_prompt() == frozen
    block = await again.get_context_block("memory")
    assert block is not None
    assert (block.content, block.writable) == ("Has a cat.", True)
    assert "Has a cat." in await again.refresh_system_prompt()
    assert "Has a cat." in await opened().freeze_system_prompt()


async def test_compact_lays_a_summary_over_the_middle(storage: Storage) -> None:
    prompts: list[str] = []

    def summarize(prompt: str) -> str:
        prompts.append(prompt)
        return f"## Topic\nsummary number {len(prompts)}"

    session = storage.session().with_context("facts", provider=lambda: f"{len(prompts)} so far")
    session.on_compaction(create_compact_function(summarize, protect_head=2, tail_token_budget=100))
    heard: list[ChangeEvent] = []
    session.subscribe(heard.append)
    assert "0 so far" in await session.freeze_system_prompt()
    for number in range(30):
        await session.append_message(said(f"m{number}", f"Fact {number}: " + "some words " * 20))
    result = await session.compact()
    assert result is not None
    assert (result.from_message_id, result.summary) == ("m2", "## Topic\nsummary number 1")
    last = int(result.to_message_id.removeprefix("m"))
    kept = [f"m{number}" for number in range(last + 1, 30)]
    assert await shown(storage.session()) == ["m0", "m1", "## Topic\nsummary number 1", *kept]
    assert heard[-1].kind == "compact"
    assert heard[-1].message_ids == (result.from_message_id, result.to_message_id)
    assert "1 so far" in await session.freeze_system_prompt()
    # The next one brings the summary up to date and covers what it covered.
    for number in range(30, 60):
        await session.append_message(said(f"m{number}", f"Fact {number}: " + "some words " * 20))
    again = await session.compact()
    assert again is not None
    assert again.from_message_id == "m2"
    assert "summary number 1" in prompts[1]
    assert "Fact 5:" not in prompts[1]
    assert len(await session.get_originals()) == 60
    assert await session.get_path_length() == 60


async def test_a_failed_compaction_changes_nothing(storage: Storage) -> None:
    errors: list[Exception] = []

    def summarize(prompt: str) -> str:
        raise RuntimeError(f"no model for {len(prompt)} characters")

    session = storage.session().on_compaction_error(errors.append)
    session.on_compaction(create_compact_function(summarize, tail_token_budget=100))
    for number in range(20):
        await session.append_message(said(f"m{number}", "some words " * 20))
    assert await session.compact() is None
    assert [type(error) for error in errors] == [RuntimeError]
    assert await session.get_compactions() == []
    assert len(await session.get_history()) == 20


async def test_an_unloaded_skill_leaves_the_history(storage: Storage) -> None:
    class Skills:
        def get(self) -> str:
            return "- baking: how to bake"

        def load(self, key: str) -> str | None:
            return "Knead the dough." if key == "baking" else None

    session = storage.session().with_context("skills", provider=Skills())
    tools = await session.tools()
    given = {"label": "skills", "key": "baking"}
    output = await called(tools["load_context"], **given)
    assert output == "Knead the dough."
    part = {
        "type": "tool-load_context",
        "toolCallId": "c1",
        "state": "output-available",
        "input": given,
        "output": output,
    }
    await session.append_message({"id": "m0", "role": "assistant", "parts": [part]})
    again = storage.session().with_context("skills", provider=Skills())
    await again.freeze_system_prompt()
    assert again.get_loaded_skill_keys() == {"skills:baking"}
    assert await again.unload_skill("skills", "baking")
    assert not await again.unload_skill("skills", "baking")
    await again.freeze_system_prompt()
    message = await again.get_message("m0")
    assert message is not None
    assert message["parts"][0]["output"] == "[skill unloaded: baking]"
    assert again.get_loaded_skill_keys() == set()
