"""Sessions over a storage provider: what only they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dictionary_provider import AwaitedProvider, DictionaryProvider

from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.compaction.policy import BudgetRatioPolicy
from palimpsest.errors import (
    CompactionError,
    CompactionOptionError,
    ContextBlockError,
    InvalidMessageError,
    SessionProviderError,
)
from palimpsest.hosts.interface import Host
from palimpsest.messages import Message, text_message
from palimpsest.session.changes import ChangeEvent
from palimpsest.session.compacting.outcomes import TokenCountInput
from palimpsest.session.provided.agent import AgentSessionProvider
from palimpsest.session.provided.interface import UNSET
from palimpsest.session.provided.session import ProviderSession
from palimpsest.session.session import Session


def said(number: int, words: str = "some words " * 20) -> Message:
    return text_message(f"m{number}", "user", f"Fact {number}: {words}")


async def fill(session: Session, start: int, end: int) -> None:
    for number in range(start, end):
        await session.append_message(said(number))


def summaries(history: list[Message]) -> list[str]:
    return [one["parts"][0]["text"] for one in history if one["id"].startswith("compaction_")]


# -- what is a provider -------------------------------------------------------------------------


def test_a_provider_makes_a_session_of_its_own() -> None:
    for provider in (DictionaryProvider(), AwaitedProvider(DictionaryProvider())):
        assert isinstance(Session.create(provider), ProviderSession)
        assert isinstance(Session(provider), ProviderSession)


def test_a_provider_that_lacks_methods_is_refused_with_a_list() -> None:
    partial = SimpleNamespace(
        get_message=print, get_history=print, append_message=print, get_branches=5
    )
    with pytest.raises(SessionProviderError) as refused:
        Session.create(partial)
    assert "get_branches, get_path_length, update_message" in str(refused.value)
    assert "get_history" not in str(refused.value)
    for neither in (object(), None, "text"):
        with pytest.raises(TypeError):
            Session.create(neither)
        with pytest.raises(TypeError):
            ProviderSession(neither)


def test_an_agent_is_no_provider_whatever_methods_it_has(host: Host) -> None:
    agent = SimpleNamespace(host=host, get_history=print, get_message=print)
    assert type(Session.create(agent)) is Session


async def test_all_options_of_the_constructor(host: Host) -> None:
    counted: list[TokenCountInput] = []
    errors: list[Exception] = []

    def count(given: TokenCountInput) -> int:
        counted.append(given)
        return 1_000

    def fail(messages: list[Message]) -> None:
        raise RuntimeError(f"{len(messages)} messages")

    for owner in (DictionaryProvider(), host):
        session = Session(
            owner,
            "a",
            context=[{"label": "soul", "provider": "Be kind.", "description": "who you are"}],
            prompt_store=AgentPrompt(),
            token_counter=count,
            on_compaction_error=errors.append,
        )
        assert session.id == "a"
        assert "SOUL (who you are)" in await session.freeze_system_prompt()
        session.on_compaction(fail).compact_after(900)
        await session.append_message(said(0))
        await cast("Any", host).advance(1)
        assert counted[-1].system_prompt == await session.freeze_system_prompt()
        assert [block.label for block in counted[-1].context_blocks] == ["soul"]
    assert [str(error) for error in errors] == ["1 messages", "1 messages"]
    with pytest.raises(CompactionOptionError):
        Session(DictionaryProvider(), token_counter=5)


class AgentPrompt:
    """A prompt store."""

    prompt: str | None = None

    def get(self) -> str | None:
        return self.prompt

    def set(self, prompt: str) -> None:
        self.prompt = prompt


def test_blocks_and_prompts_need_a_provider() -> None:
    session = Session.create(DictionaryProvider())
    with pytest.raises(ContextBlockError, match='"memory" requires an explicit provider'):
        session.with_context("memory")
    with pytest.raises(ContextBlockError, match="requires an explicit provider"):
        session.with_cached_prompt()


async def test_blocks_added_at_run_time_need_a_provider() -> None:
    session = Session.create(DictionaryProvider()).with_context("soul", provider="Be kind.")
    with pytest.raises(ContextBlockError, match="requires an explicit provider"):
        await session.add_context("memory")
    added = await session.add_context("news", provider=lambda: "Rain.")
    assert added is not None
    assert not added.writable
    assert "Rain." in await session.refresh_system_prompt()
    assert session.remove_context("news")
    assert "Rain." not in await session.refresh_system_prompt()


async def test_a_provider_for_each_session(host: Host) -> None:
    one = Session.create(AgentSessionProvider(host)).for_session("one")
    two = Session(AgentSessionProvider(host), "two")
    await one.append_message(said(1))
    await two.append_message(said(2))
    assert [m["id"] for m in await one.get_history()] == ["m1"]
    assert [m["id"] for m in await Session(host, "two").get_history()] == ["m2"]
    named = Session.create(DictionaryProvider()).for_session("named")
    events: list[ChangeEvent] = []
    named.subscribe(events.append)
    await named.append_message(said(1))
    assert [event.session_id for event in events] == ["named"]
    with pytest.raises(InvalidMessageError):
        Session.create(DictionaryProvider()).for_session(cast("str", 5))


def test_what_needs_the_agents_database_says_so() -> None:
    session = Session.create(DictionaryProvider())
    calls: list[Callable[[], object]] = [
        session.message_count,
        session.context_tokens,
        lambda: session.search_index_of_all("x"),
        session.delete_everything,
        lambda: session.copy_path_to("other", "m0"),
        lambda: session.stores,
        lambda: session.compactor,
    ]
    for call in calls:
        with pytest.raises(SessionProviderError, match="no database"):
            call()


async def test_what_a_provider_cannot_do_says_so() -> None:
    session = Session.create(DictionaryProvider())
    with pytest.raises(SessionProviderError, match="does not support listing roots"):
        await session.get_roots()
    with pytest.raises(SessionProviderError, match="importing with a time"):
        await session.import_message(said(0), created_at=5)
    with pytest.raises(SessionProviderError, match="by role, time or branch"):
        await session.search("x", role="user")


# -- what a provider gives ----------------------------------------------------------------------


async def test_the_three_states_of_a_parent_reach_the_provider() -> None:
    provider = DictionaryProvider()
    parents: list[object] = []
    append = provider.append_message

    def record(message: Message, parent_id: Any) -> None:
        parents.append(parent_id)
        append(message, parent_id)

    provider.append_message = record
    session = Session.create(provider)
    await session.append_message(said(0))
    await session.append_message(said(1), None)
    await session.append_message(said(2), "m0")
    await session.append_messages([said(3), said(4)])
    assert parents == [UNSET, None, "m0", UNSET, UNSET]


async def test_a_provider_that_tells_what_it_inserted_is_not_asked_before() -> None:
    provider = DictionaryProvider()
    session = Session.create(provider)
    await session.append_message(said(0))
    await session.append_message(said(1))
    assert provider.calls == ["get_message", "append_message"] * 2
    append = provider.append_message

    def tell(message: Message, parent_id: Any) -> bool:
        there = message["id"] in provider.messages
        append(message, parent_id)
        return not there

    cast("Any", provider).append_message = tell
    telling = Session.create(provider)
    await telling.append_message(said(2))
    provider.calls.clear()
    assert (await telling.append_message(said(3))).inserted
    assert provider.calls == ["append_message"]
    assert not (await telling.append_message(said(0, "other"))).inserted
    assert provider.calls == ["append_message", "append_message", "get_message"]


BROKEN: list[tuple[str, Any]] = [
    ("get_message", "text"),
    ("get_message", {"id": "m0", "role": "user"}),
    ("get_history", None),
    ("get_history", [{"id": 5, "role": "user", "parts": []}]),
    ("get_latest_leaf", []),
    ("get_branches", "m0"),
    ("get_compactions", [{"id": "o1", "summary": "text"}]),
    ("get_recent_history", {"messages": [], "truncated": "no", "totalContentBytes": 5}),
    ("get_history_row_stats", [{"id": "m0"}]),
    ("search_messages", [{"id": "m0", "role": "user"}]),
]


@pytest.mark.parametrize(("method", "given"), BROKEN)
async def test_what_breaks_the_contract_is_told_with_the_method(method: str, given: Any) -> None:
    provider = DictionaryProvider()

    def give(*arguments: object) -> Any:
        del arguments
        return given

    setattr(provider, method, give)
    session = Session.create(provider)
    calls: dict[str, Callable[[], Any]] = {
        "get_message": lambda: session.get_message("m0"),
        "get_history": session.get_history,
        "get_latest_leaf": session.get_latest_leaf,
        "get_branches": lambda: session.get_branches("m0"),
        "get_compactions": session.get_compactions,
        "get_recent_history": lambda: session.get_recent_history(100),
        "get_history_row_stats": session.get_history_row_stats,
        "search_messages": lambda: session.search("words"),
    }
    with pytest.raises(SessionProviderError, match=rf"{method}\(\) gave no"):
        await calls[method]()


class ForeignProvider(DictionaryProvider):
    """Gives what it gives as mappings, as a database or a JSON interface would."""

    def get_compactions(self) -> list[Any]:
        return [
            {
                "id": "a",
                "summary": "s",
                "fromMessageId": "m0",
                "toMessageId": "m1",
                "createdAt": "2026-01-02T03:04:05.678Z",
            },
            {
                "id": "b",
                "summary": "s",
                "from_message_id": "m0",
                "to_message_id": "m1",
                "created_at": 5,
            },
        ]

    def get_recent_history(self, leaf_id: str | None, size: int, least: int) -> dict[str, Any]:
        return {"messages": [said(0)], "truncated": True, "totalContentBytes": size + least}

    def get_history_row_stats(self, leaf_id: str | None) -> list[dict[str, Any]]:
        return [{"id": "m0", "role": "user", "bytes": 40}]

    def search_messages(self, query: str, limit: int) -> tuple[dict[str, Any], ...]:
        found = {"id": "m0", "role": "user", "content": "the cat", "createdAt": ""}
        return ({**found, "sessionId": "s1"}, {"id": "m1", "role": "user", "content": "a cat"})


async def test_either_spelling_and_any_time_is_read() -> None:
    provider = ForeignProvider()
    session = Session.create(provider)
    first, second = await session.get_compactions()
    assert (first.created_at, second.created_at) == (1767323045678, 5)
    assert (first.from_message_id, second.to_message_id) == ("m0", "m1")
    recent = await session.get_recent_history(100, 3)
    assert (recent.truncated, recent.total_content_bytes) == (True, 103)
    (stat,) = await session.get_history_row_stats()
    assert (stat.id, stat.bytes, stat.tokens) == ("m0", 40, 10)
    found = await session.search("cat", 2)
    assert [(one.id, one.session_id, one.snippet) for one in found] == [
        ("m0", "s1", "the cat"),
        ("m1", "", "a cat"),
    ]
    assert found[0].score > found[1].score
    assert found[0].highlights == ((4, 7),)


async def test_recent_history_without_such_a_read_is_everything() -> None:
    session = Session.create(DictionaryProvider())
    await fill(session, 0, 20)
    recent = await session.get_recent_history(10)
    assert (len(recent.messages), recent.truncated) == (20, False)
    assert recent.total_content_bytes > 20 * 200


async def test_an_error_of_the_storage_reaches_the_caller_and_loses_nothing() -> None:
    provider = DictionaryProvider()
    session = Session.create(provider)
    events: list[ChangeEvent] = []
    session.subscribe(events.append)
    append = provider.append_message

    def fail_at_two(message: Message, parent_id: Any) -> None:
        if message["id"] == "m2" and len(events) < 2:
            raise ConnectionError("the storage is away")
        append(message, parent_id)

    provider.append_message = fail_at_two
    batch = [said(number) for number in range(4)]
    with pytest.raises(ConnectionError):
        await session.append_messages(batch)
    assert [m["id"] for m in await session.get_history()] == ["m0", "m1"]
    assert [event.message_ids for event in events] == [("m0",), ("m1",)]
    await session.append_messages(batch)
    assert [m["id"] for m in await session.get_history()] == ["m0", "m1", "m2", "m3"]


# -- compaction ---------------------------------------------------------------------------------


async def test_an_append_above_the_threshold_compacts_before_it_returns() -> None:
    prompts: list[str] = []

    async def summarize(prompt: str) -> str:
        await asyncio.sleep(0)
        prompts.append(prompt)
        return f"summary {len(prompts)}"

    provider = DictionaryProvider()
    compact = create_compact_function(summarize, protect_head=1, tail_token_budget=300)
    session = Session.create(provider).on_compaction(compact).compact_after(1_000)
    events: list[str] = []
    session.subscribe(lambda event: events.append(event.kind))
    number = 0
    while not prompts:
        await session.append_message(said(number))
        number += 1
    assert events == ["append"] * number + ["compact"]
    history = await session.get_history()
    assert summaries(history) == ["summary 1"]
    assert history[0]["id"] == "m0"
    assert history[-1]["id"] == f"m{number - 1}"
    assert len(provider.messages) == number
    while len(prompts) < 2:
        await session.append_message(said(number))
        number += 1
    assert "summary 1" in prompts[1]
    assert summaries(await session.get_history()) == ["summary 2"]
    assert len(provider.overlays) == 2


async def test_below_the_threshold_the_history_is_not_read_at_each_append() -> None:
    provider = DictionaryProvider()
    session = Session.create(provider).compact_after(1_000_000)
    await fill(session, 0, 40)
    assert provider.calls.count("get_history") == 1


async def test_a_threshold_counts_what_others_wrote_too() -> None:
    provider = DictionaryProvider()
    one = Session.create(provider).compact_after(3_000)
    other = Session.create(provider)
    await one.append_message(said(0))
    await fill(other, 1, 100)
    number = 100
    while not provider.overlays:
        await one.append_message(said(number))
        number += 1
    assert number <= 151


async def test_a_failing_summarizer_never_fails_an_append() -> None:
    errors: list[Exception] = []

    def summarize(prompt: str) -> str:
        raise RuntimeError("no model")

    provider = DictionaryProvider()
    session = Session.create(provider).compact_after(500).on_compaction_error(errors.append)
    session.on_compaction(create_compact_function(summarize, tail_token_budget=100))
    number = 0
    while not provider.overlays:
        assert (await session.append_message(said(number))).inserted
        number += 1
    # Reported each time; after the third the summary is made without a model.
    assert [str(error) for error in errors] == ["no model"] * 3
    assert [m["id"] for m in await session.get_originals()] == [f"m{one}" for one in range(number)]
    assert "Fact" in summaries(await session.get_history())[0]


async def test_a_counter_decides_instead_of_the_estimate() -> None:
    seen: list[int] = []

    async def count(given: TokenCountInput) -> float:
        seen.append(len(given.messages))
        if len(given.messages) == 3:
            raise ValueError("cannot count three")
        return 100.0 * len(given.messages)

    errors: list[Exception] = []
    provider = DictionaryProvider()
    session = (
        Session.create(provider).compact_after(1_150, count).on_compaction_error(errors.append)
    )
    await fill(session, 0, 11)
    assert seen == list(range(1, 12))
    assert [type(error) for error in errors] == [ValueError]
    assert not provider.overlays
    await session.append_message(said(11))
    assert len(provider.overlays) == 1
    assert len(await session.get_history()) < 12


async def test_a_range_that_changes_meanwhile_is_summarized_again() -> None:
    prompts: list[str] = []
    provider = DictionaryProvider()

    async def summarize(prompt: str) -> str:
        prompts.append(prompt)
        if len(prompts) == 1:
            provider.update_message(said(4, "Corrected! " * 20))
        return f"summary {len(prompts)}"

    session = Session.create(provider)
    session.on_compaction(create_compact_function(summarize, tail_token_budget=100))
    await fill(session, 0, 12)
    result = await session.compact()
    assert result is not None
    assert result.summary == "summary 2"
    assert "Corrected!" in prompts[1]
    assert len(provider.overlays) == 1


async def test_appends_do_not_wait_for_a_compaction_that_runs() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    asked: list[str] = []

    async def summarize(prompt: str) -> str:
        asked.append(prompt)
        begun.set()
        await go_on.wait()
        return "summary"

    provider = DictionaryProvider()
    session = Session.create(provider).compact_after(600)
    session.on_compaction(create_compact_function(summarize, tail_token_budget=100))
    first = asyncio.ensure_future(session.append_messages([said(number) for number in range(12)]))
    await begun.wait()
    results = await session.append_messages([said(number) for number in range(12, 24)])
    assert [result.inserted for result in results] == [True] * 12
    assert not first.done()
    go_on.set()
    await first
    assert len(asked) == 1
    assert summaries(await session.get_history()) == ["summary"]
    assert len(provider.messages) == 24


async def test_a_policy_brings_its_own_trigger() -> None:
    provider = DictionaryProvider()
    session = Session.create(provider).on_compaction(BudgetRatioPolicy(lambda _: "short", 1_000))
    await fill(session, 0, 30)
    assert provider.overlays
    assert {one.summary for one in provider.overlays} == {"short"}


async def test_a_function_of_ones_own_may_compact() -> None:
    provider = DictionaryProvider()
    session = Session.create(provider)
    with pytest.raises(CompactionError):
        await session.compact()

    def compact(messages: list[Message]) -> dict[str, str]:
        return {"fromMessageId": "m1", "toMessageId": messages[3]["id"], "summary": "mine"}

    session.on_compaction(compact)
    await fill(session, 0, 8)
    result = await session.compact()
    assert result is not None
    assert (result.from_message_id, result.to_message_id) == ("m1", "m3")
    assert [m["id"] for m in await session.get_history()][:3] == ["m0", "compaction_o1", "m4"]


async def test_a_long_backlog_is_compacted_in_steps() -> None:
    prompts: list[str] = []

    def summarize(prompt: str) -> str:
        prompts.append(prompt)
        return f"summary {len(prompts)}"

    provider = DictionaryProvider()
    long = "ordinary words " * 400
    await Session.create(provider).append_messages([said(number, long) for number in range(120)])
    compact = create_compact_function(summarize, tail_token_budget=2_000, summarizer_window=8_000)
    session = Session.create(provider).on_compaction(compact).compact_after(10_000)
    await session.append_message(said(120))
    ends = [overlay.to_message_id for overlay in provider.overlays]
    assert len(ends) == 4
    number = 121
    while (length := len(await session.get_history())) > 20:
        await session.append_message(said(number))
        number += 1
    assert length > 4
    assert number < 130
    assert {overlay.from_message_id for overlay in provider.overlays} == {"m3"}
    assert len(await session.get_originals()) == number


async def test_a_lost_overlay_is_told() -> None:
    provider = DictionaryProvider()
    session = Session.create(provider)
    await fill(session, 0, 4)
    provider.get_compactions = list[Any]
    with pytest.raises(SessionProviderError, match="just added"):
        await session.add_compaction("text", "m0", "m1")


class Skills:
    """A collection of one skill."""

    def get(self) -> str:
        return "- kept"

    def load(self, key: str) -> str:
        return f"text of {key}"


async def test_skills_are_known_again_from_the_history() -> None:
    def call(tool: str, key: str, output: str) -> dict[str, Any]:
        return {
            "type": f"tool-{tool}",
            "toolCallId": f"{tool}-{key}",
            "state": "output-available",
            "input": {"label": "skills", "key": key},
            "output": output,
        }

    provider = DictionaryProvider()
    writer = Session.create(provider)
    parts = [
        call("load_context", "kept", "text of kept"),
        call("load_context", "gone", "text of gone"),
        call("load_context", "missing", "Not found: missing"),
        call("unload_context", "gone", 'Unloaded "gone" from skills.'),
    ]
    await writer.append_message({"id": "m0", "role": "assistant", "parts": parts})
    session = Session.create(provider).with_context("skills", provider=Skills())
    tools = await session.tools()
    assert session.get_loaded_skill_keys() == {"skills:kept"}
    assert "skills:kept" in tools["unload_context"].description
    await session.freeze_system_prompt()
    message = await session.get_message("m0")
    assert message is not None
    assert message["parts"][0]["output"] == "text of kept"
    assert message["parts"][1]["output"] == "[skill unloaded: gone]"
    # Known once: what this session does from then on counts, not the history.
    assert await session.unload_skill("skills", "kept")
    assert session.get_loaded_skill_keys() == set()
