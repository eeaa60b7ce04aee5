"""A long backlog is summarized in bounded steps; a compaction that would gain nothing is none."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from compaction_rig import Listening, Summarizer, fact, originals, shown, talk

from palimpsest.compaction.head_tail import create_compact_function
from palimpsest.messages import Message, text_message, text_of
from palimpsest.session.compacting.attempts import STEP_PAUSE_MS
from palimpsest.session.compacting.compactor import STEPS_AT_ONCE, TokenCountInput
from palimpsest.session.compacting.jobs import CompactionJobs
from palimpsest.session.session import Session

STEP = 40
NEXT = STEP_PAUSE_MS / 1000


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 40 messages instead of 2,000."""
    monkeypatch.setattr("palimpsest.session.compacting.steps.STEP_MESSAGES", STEP)
    monkeypatch.setattr("palimpsest.session.compacting.steps.NEIGHBOURS", 8)


def numbered() -> Summarizer:
    """Answers "summary 1", "summary 2" and so on."""
    return Summarizer(*(f"## Topic\nsummary {number}" for number in range(1, 50)))


async def ends(session: Session) -> list[str]:
    return [overlay.to_message_id for overlay in await session.get_compactions()]


async def test_each_step_has_an_alarm_and_an_overlay_of_its_own(host: Any) -> None:
    summarize = numbered()
    heard = Listening(host, summarize)
    await heard.session.append_messages(talk(170))
    await host.advance(0)
    assert await ends(heard.session) == ["m42"]
    assert (await shown(heard.session))[:5] == ["m0", "m1", "m2", "overlay", "m43"]
    assert heard.session.context_tokens() > 400
    for expected in (["m42", "m82"], ["m42", "m82", "m122"], ["m42", "m82", "m122", "m164"]):
        await host.advance(NEXT)
        assert await ends(heard.session) == expected
    assert heard.session.context_tokens() <= 400
    assert await host.get_alarm() is None
    assert await originals(heard.session) == [f"m{i}" for i in range(170)]
    # Each step brought the summary before up to date and saw only what is new.
    for number, prompt in enumerate(summarize.prompts[1:], start=1):
        assert f"summary {number}" in prompt
        assert fact(3) not in prompt
    assert all(fact(i) in "".join(summarize.prompts) for i in range(3, 165))
    left = [
        frame["compacted"].get("tokensRemaining")
        for frame in heard.frames
        if frame["phase"] == "idle"
    ]
    assert left[-1] is None
    assert all(more > less for more, less in itertools.pairwise(left[:-1]))


async def test_a_kill_between_steps_loses_nothing_and_repeats_nothing(host: Any) -> None:
    current, seen = host, 0
    heard = Listening(current, numbered())
    await heard.session.append_messages(talk(170))
    for done in range(1, 5):
        current = current.restarted()
        summarize = Summarizer(f"## Topic\nsummary {done}")
        heard = Listening(current, summarize)
        await current.advance(NEXT if done > 1 else 0)
        seen += len(summarize.prompts)
        assert len(await ends(heard.session)) == done
    assert seen == 4
    assert heard.session.context_tokens() <= 400


async def test_a_kill_within_a_step_repeats_that_step_alone(host: Any) -> None:
    async def hang(prompt: str) -> str:
        await asyncio.Event().wait()
        return "never"

    summarize = Summarizer("## Topic\nsummary 1", hang)
    heard = Listening(host, summarize)
    await heard.session.append_messages(talk(110))
    work = asyncio.ensure_future(host.advance(1))
    while len(summarize.prompts) < 2:
        await asyncio.sleep(0)
    again = host.restarted()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    summarize = Summarizer("## Topic\nsummary 2")
    heard = Listening(again, summarize)
    assert await ends(heard.session) == ["m42"]
    await again.advance(31)
    assert "summary 1" in summarize.prompts[0]
    assert (await ends(heard.session))[0] == "m42"
    assert heard.session.context_tokens() <= 400
    assert await originals(heard.session) == [f"m{i}" for i in range(110)]


async def test_who_asks_waits_for_a_few_steps_and_is_told_of_the_rest(host: Any) -> None:
    heard = Listening(host, numbered(), threshold=None)
    await heard.session.append_messages(talk(300))
    before = heard.session.context_tokens()
    outcome = await heard.session.compactor.request_compaction(request_id="r")
    assert outcome.status == "compacted"
    assert outcome.tokens_before == before
    assert outcome.tokens_after == heard.session.context_tokens()
    assert outcome.remaining > 0
    assert len(await ends(heard.session)) == STEPS_AT_ONCE
    assert heard.phases() == ["compacting"] * STEPS_AT_ONCE + ["idle"]
    estimates = [frame["tokenEstimate"] for frame in heard.frames]
    assert all(more > less for more, less in itertools.pairwise(estimates[:-1]))
    # The same request again does nothing again; the rest is done without any threshold.
    repeated = await heard.session.compactor.request_compaction(request_id="r")
    assert repeated.remaining == outcome.remaining
    assert len(await ends(heard.session)) == STEPS_AT_ONCE
    await host.advance(10)
    assert len(await ends(heard.session)) > STEPS_AT_ONCE
    assert heard.session.context_tokens() < 300
    assert await host.get_alarm() is None
    last = await heard.session.compactor.request_compaction()
    assert last.status == "nothing"


async def test_steps_on_a_branch_go_on_there(host: Any) -> None:
    heard = Listening(host, numbered(), threshold=None)
    await heard.session.append_messages(talk(260))
    await heard.session.append_message(text_message("other", "user", "elsewhere"), parent_id="m2")
    outcome = await heard.session.compactor.request_compaction("m259")
    assert outcome.remaining > 0
    await host.advance(10)
    assert CompactionJobs.of(host).remaining("") == 0
    history = [message["id"] for message in await heard.session.get_history("m259")]
    assert len(history) < 20
    assert [one["id"] for one in await heard.session.get_history("other")] == [
        "m0",
        "m1",
        "m2",
        "other",
    ]


async def test_a_summarizer_that_fails_midway_goes_on_later(host: Any) -> None:
    summarize = Summarizer("## Topic\nfirst", RuntimeError("500"), "## Topic\nlater")
    heard = Listening(host, summarize)
    await heard.session.append_messages(talk(170))
    await host.advance(1)
    assert await ends(heard.session) == ["m42"]
    assert len(heard.errors) == 1
    assert heard.session.compactor.status().failures == 1
    await host.advance(11)
    assert heard.session.context_tokens() <= 400
    assert len(heard.errors) == 1


async def test_who_asks_is_told_that_a_further_step_failed(host: Any) -> None:
    summarize = Summarizer("## Topic\nfirst", RuntimeError("500"))
    heard = Listening(host, summarize, threshold=None)
    await heard.session.append_messages(talk(170))
    outcome = await heard.session.compactor.request_compaction()
    assert outcome.status == "compacted"
    assert outcome.reason is not None
    assert "500" in outcome.reason
    assert isinstance(outcome.error, RuntimeError)
    assert outcome.remaining > 0
    # The job tries on, and ends without a model.
    await host.advance(3_600)
    assert heard.session.context_tokens() < 1_500
    assert await host.get_alarm() is None
    assert heard.session.compactor.status().failures >= 3


async def test_what_can_never_be_summarized_ends(host: Any) -> None:
    """The fallback, too, may be refused: the steps end instead of being tried for ever."""
    heard = Listening(host, Summarizer("## Topic\nfirst", RuntimeError("500")), threshold=None)
    await heard.session.append_messages(talk(170))
    await host.advance(1)
    outcome = await heard.session.compactor.request_compaction()
    assert outcome.remaining > 0

    def refuse(*_: Any) -> str:
        return "Internal Server Error"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "palimpsest.compaction.extractive.ExtractiveSummarizer.summarize_messages", refuse
        )
        await host.advance(3_600)
    assert await host.get_alarm() is None
    assert await ends(heard.session) == ["m42"]


async def test_a_turn_that_must_fit_takes_as_many_steps_as_it_needs(host: Any) -> None:
    heard = Listening(host, numbered(), threshold=None)
    await heard.session.append_messages(talk(170))
    room = await heard.session.compactor.ensure_room(2_500)
    assert (room.fits, room.compacted) == (True, True)
    assert len(await ends(heard.session)) < 4
    far = Listening(host.restarted(), numbered(), threshold=None)
    await far.session.append_messages(talk(400, 170))
    room = await far.session.compactor.ensure_room(400)
    assert not room.fits
    assert room.compacted
    assert room.reason is not None
    assert "in a moment" in room.reason


def turn_of_tools(number: int) -> list[Message]:
    """A person's message, a call and its result in a message of its own."""
    part = {"toolCallId": f"c{number}", "toolName": "look"}
    return [
        text_message(f"u{number}", "user", f"Look at box {number}."),
        {
            "id": f"a{number}",
            "role": "assistant",
            "parts": [{"type": "tool-look", "input": {"box": number}, **part}],
        },
        {
            "id": f"r{number}",
            "role": "tool",
            "parts": [{"type": "tool-result", "output": {"code": 1000 + number}, **part}],
        },
    ]


@pytest.mark.parametrize("before", [0, 1, 2])
async def test_no_step_parts_a_call_from_its_result(host: Any, before: int) -> None:
    heard = Listening(host, numbered())
    await heard.session.append_messages(talk(3 + before))
    turns = [turn_of_tools(number) for number in range(50)]
    await heard.session.append_messages([message for turn in turns for message in turn])
    for _ in range(6):
        await host.advance(NEXT)
        assert not [one for one in await ends(heard.session) if one.startswith("a")]
    assert len(await ends(heard.session)) >= 3
    assert heard.session.context_tokens() <= 400


async def test_a_group_larger_than_a_step_is_taken_whole(host: Any) -> None:
    heard = Listening(host, numbered())
    calls = [{"type": "tool-look", "toolCallId": f"c{i}", "input": {"box": i}} for i in range(150)]
    answers = [
        {
            "id": f"r{i}",
            "role": "tool",
            "parts": [
                {"type": "tool-result", "toolCallId": f"c{i}", "toolName": "look", "output": i}
            ],
        }
        for i in range(150)
    ]
    group: list[Message] = [{"id": "calls", "role": "assistant", "parts": calls}, *answers]
    await heard.session.append_messages([*talk(4), *group, *talk(40, 4)])
    await host.advance(5)
    assert heard.session.context_tokens() <= 400
    assert not [one for one in await ends(heard.session) if one == "calls"]
    assert not [message for message in await shown(heard.session) if message.startswith("r")]


async def test_one_turn_of_many_messages(host: Any) -> None:
    """Long runs of an agent have one message of a person and hundreds of its own."""
    heard = Listening(host, numbered())
    work = [text_message(f"w{i}", "assistant", fact(i)) for i in range(200)]
    await heard.session.append_messages([*talk(4), text_message("ask", "user", "Go."), *work])
    await host.advance(5)
    assert heard.session.context_tokens() <= 400
    assert "ask" in await shown(heard.session)


async def test_standing_instructions_pass_from_step_to_step(host: Any) -> None:
    heard = Listening(host, numbered())
    rule = text_message("rule", "system", "Always answer in French.")
    await heard.session.append_messages([*talk(10), rule, *talk(160, 10)])
    await host.advance(5)
    assert len(await ends(heard.session)) >= 4
    assert "> Always answer in French." in text_of((await heard.session.get_history())[3])


async def test_a_clear_between_steps_ends_them(host: Any) -> None:
    heard = Listening(host, numbered())
    await heard.session.append_messages(talk(170))
    await host.advance(0)
    await heard.session.clear_messages()
    await host.advance(5)
    assert await ends(heard.session) == []
    assert await host.get_alarm() is None


async def test_a_counter_is_not_asked_about_more_than_a_step(host: Any) -> None:
    asked: list[int] = []

    def count(given: TokenCountInput) -> int:
        asked.append(len(given.messages))
        return 30 * len(given.messages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palimpsest.session.compacting.compactor.STEP_TOKENS", 1_000)
        session = Session.create(host).compact_after(600, count)
        session.on_compaction(create_compact_function(numbered(), tail_token_budget=100))
        await session.append_messages(talk(400))
        await host.advance(5)
    assert len(await session.get_history()) < 20
    assert max(asked) <= 2 * STEP


# -- gain -------------------------------------------------------------------------------------


def around(middle: list[Message]) -> list[Message]:
    """A conversation of about 4,600 tokens of which only ``middle`` can be summarized."""
    tail = text_message("long", "user", "word " * 3_500)
    return [*talk(3), *middle, tail, text_message("last", "assistant", "Thank you.")]


def words(identifier: str, count: int) -> Message:
    return text_message(identifier, "assistant", "word " * count)


async def test_a_compaction_that_could_save_too_little_is_not_begun(host: Any) -> None:
    summarize = Summarizer()
    heard = Listening(host, summarize, threshold=4_000)
    await heard.session.append_messages(around([words("w1", 20), words("w2", 20)]))
    await host.advance(1)
    outcome = await heard.session.compactor.request_compaction()
    assert outcome.status == "nothing"
    assert outcome.reason == "only 60 tokens could be summarized, 80 are worth it"
    assert summarize.prompts == []
    assert heard.errors == []
    # A turn that has to fit takes what it can get.
    room = await heard.session.compactor.ensure_room(heard.session.context_tokens() - 30)
    assert room.fits
    assert len(summarize.prompts) == 1


async def test_a_summary_that_saves_too_little_is_not_laid_and_not_made_again_at_once(
    host: Any,
) -> None:
    summarize = Summarizer("## Topic\n" + "word " * 120)
    heard = Listening(host, summarize, threshold=4_000)
    await heard.session.append_messages(around([words(f"w{i}", 40) for i in range(4)]))
    await host.advance(1)
    assert len(summarize.prompts) == 1
    assert await ends(heard.session) == []
    assert heard.errors == []
    status = heard.session.compactor.status()
    assert status.failures == 0
    tokens = heard.session.context_tokens()
    assert status.next_tokens == tokens + tokens // 10
    await heard.session.append_message(words("w4", 40))
    await host.advance(60)
    assert len(summarize.prompts) == 1, "not before the context has grown by a tenth"
    await heard.session.append_messages([words(f"v{i}", 40) for i in range(12)])
    await host.advance(1)
    assert len(summarize.prompts) == 2
