"""What a ChatAgent does by itself: answer from memory, name sessions, compact on command."""

from __future__ import annotations

from typing import Any

import pytest
from chat_rig import Rig, user

from palimpsest.chat.agent import ChatAgent
from palimpsest.models.offline import OfflineModel
from palimpsest.testing.models import ScriptedModel


class Remembering(ChatAgent):
    """The least there is: the offline model."""

    def model(self) -> Any:
        return OfflineModel()


class Compacting(Remembering):
    def configure_sessions(self, sessions: Any) -> None:
        sessions.compact_after(600)


async def started(host: Any, kind: type[ChatAgent] = Remembering) -> tuple[Rig, Any]:
    rig = Rig(host, kind)
    await rig.start()
    return rig, await rig.connect("one")


async def say(rig: Rig, client: Any, number: int, text: str) -> str:
    _, messages = await rig.http("GET", "get-messages")
    await client.ask(f"r{number}", [*messages, user(f"u{number}", text)])
    await rig.settle()
    return (await rig.shown())[-1]


async def test_it_answers_from_memory_without_a_key_or_a_network(host: Any) -> None:
    rig, one = await started(host)
    await say(rig, one, 1, "My cat is called Bartholomew")
    answer = await say(rig, one, 2, "What is my cat called?")
    assert "Bartholomew" in answer
    _, messages = await rig.http("GET", "get-messages")
    assert messages[-1]["metadata"]["model"] == "offline"
    tools = [part["type"] for part in messages[-1]["parts"] if part["type"].startswith("tool-")]
    assert tools == ["tool-session_search"]


async def test_compact_as_a_message_compacts_and_ends_the_turn(host: Any) -> None:
    rig, one = await started(host, Compacting)
    text = "The harbour lights were counted again last night, and there were forty of them. " * 4
    for number in range(1, 9):
        await say(rig, one, number, f"{text} Note {number}.")
    told = await say(rig, one, 20, "/compact")
    assert "compacted from" in told or "nothing to compact" in told
    assert rig.agent.session("").context_tokens() < 700
    _, memory = await rig.http("GET", "memory")
    assert [overlay["active"] for overlay in memory["overlays"]][-1] is True
    assert len(memory["timeline"]) == len(await rig.shown()) == 18


async def test_compact_needs_no_configuration(host: Any) -> None:
    rig, one = await started(host)
    text = "The harbour lights were counted again last night, and there were forty of them. " * 4
    for number in range(1, 9):
        await say(rig, one, number, f"{text} Note {number}.")
    assert "compacted from" in await say(rig, one, 20, "/compact")
    assert len(await rig.shown()) == 18


async def test_the_alarm_compacts_and_clients_see_it(host: Any) -> None:
    rig, one = await started(host, Compacting)
    text = "The harbour lights were counted again last night, and there were forty of them. " * 4
    for number in range(1, 9):
        await say(rig, one, number, f"{text} Note {number}.")
    await rig.host.advance(5)
    await rig.settle()
    phases = [frame["phase"] for frame in _all_frames(one) if frame["type"] == "cf_agent_session"]
    assert "compacting" in phases
    assert phases[-1] == "idle"
    assert len(await rig.shown()) == 16, "people still see every message"


def _all_frames(client: Any) -> list[dict[str, Any]]:
    import json

    return [json.loads(text) for text in client.socket.sent]


async def test_the_first_message_names_the_session(host: Any) -> None:
    rig, one = await started(host)
    long = "Please remember that the spare key lies under the third flower pot from the left door"
    await say(rig, one, 1, long)
    _, listed = await rig.http("GET", "sessions")
    (session,) = listed["sessions"]
    assert session["name"] == "Please remember that the spare key lies under the third…"
    assert session["messageCount"] == 2


async def test_reported_usage_is_counted(host: Any) -> None:
    from palimpsest.models.interface import Finish, TextDelta, Usage

    class Counting(ChatAgent):
        def model(self) -> Any:
            return ScriptedModel([TextDelta("hi"), Usage(120, 30), Finish("stop")])

    rig, one = await started(host, Counting)
    assert await say(rig, one, 1, "hello") == "assistant: hi"
    _, listed = await rig.http("GET", "sessions")
    assert (listed["sessions"][0]["inputTokens"], listed["sessions"][0]["outputTokens"]) == (
        120,
        30,
    )


async def test_a_turn_over_a_long_backlog_waits_for_it_or_says_so(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An imported conversation is not read as a whole, and the turn is told what is going on."""

    class Small(ChatAgent):
        def model(self) -> Any:
            return OfflineModel(context_window=2_000)

    monkeypatch.setattr("palimpsest.session.compacting.steps.STEP_MESSAGES", 40)
    monkeypatch.setattr("palimpsest.session.compacting.compactor.STEPS_AT_ONCE", 2)
    rig, one = await started(host, Small)
    long = [user(f"m{i}", f"Box {i} has the code BX-{1000 + i}.") for i in range(500)]
    assert (await rig.http("POST", "import", long))[0] == 200
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    (end,) = one.done("r1")
    assert end["outcome"] == "error"
    assert "in a moment" in end["body"]
    _, memory = await rig.http("GET", "memory")
    assert memory["phase"] == "compacting"
    assert memory["tokenEstimate"] > 1_000
    await rig.host.advance(60)
    await rig.settle()
    _, memory = await rig.http("GET", "memory")
    assert memory["phase"] == "idle"
    assert memory["tokenEstimate"] < 1_000
    await one.ask("r2", [user("u2", "hello again")])
    await rig.settle()
    assert one.done("r2")[0]["outcome"] == "completed"


async def test_compact_says_what_follows_in_the_background(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("palimpsest.session.compacting.steps.STEP_MESSAGES", 40)
    rig, one = await started(host)
    long = [user(f"m{i}", f"Box {i} has the code BX-{1000 + i}.") for i in range(500)]
    await rig.http("POST", "import", long)
    told = await say(rig, one, 1, "/compact")
    assert "compacted from" in told
    assert "more are being summarized in the background" in told
    status, answer = await rig.http("POST", "compact", {})
    assert status == 200
    assert answer["tokensRemaining"] > 0
    await rig.host.advance(60)
    await rig.settle()
    _, memory = await rig.http("GET", "memory")
    assert memory["phase"] == "idle"
    assert len(memory["overlays"]) > 8
