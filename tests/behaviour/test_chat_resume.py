"""Clients that come back, in the middle of an answer or after it; tabs that join."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from chat_rig import Talker, started, user

from palimpsest.errors import LimitError

PROBE = {"type": "cf_agent_stream_resume_request", "probeId": "p"}


async def test_a_tab_that_joins_gets_the_stream_once_and_whole(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow and long")])
    await rig.until(lambda: one.text("r1") == "answer to ")
    two = await rig.connect("two")
    assert two.frames == [{"type": "cf_agent_stream_resuming", "id": "r1"}]
    await two.send(PROBE)
    assert two.frames[1:] == [
        {"type": "cf_agent_stream_resuming", "id": "r1", "probeId": "p"},
    ]
    await two.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    await two.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    assert two.text("r1") == "answer to "
    assert all(frame.get("replay") for frame in two.of("use_chat_response"))
    assert two.of("use_chat_response")[-1]["replayComplete"] is True
    rig.agent.gate.set()
    await rig.settle()
    assert two.text("r1") == one.text("r1") == "answer to slow and long "
    assert len(two.done("r1")) == 1


async def test_nothing_live_goes_to_a_tab_that_has_not_acknowledged(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow one")])
    await rig.until(lambda: one.text("r1") == "answer to ")
    two = await rig.connect("two")
    rig.agent.gate.set()
    await rig.settle()
    assert [kind for kind in two.kinds() if kind != "stream_resuming"] == ["chat_messages"]
    await two.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    assert two.text("r1") == "answer to slow one "
    (end,) = two.done("r1")
    assert (end["replay"], end["outcome"]) == (True, "completed")


async def test_acknowledging_something_unknown_is_answered(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.send({"type": "cf_agent_stream_resume_ack", "id": "never"})
    (end,) = one.done("never")
    assert (end["done"], end["replay"], end["body"]) == (True, True, "")


async def test_a_reconnecting_client_is_shown_what_it_missed(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow one")])
    await rig.until(lambda: one.text("r1") == "answer to ")
    await one.close()
    rig.agent.gate.set()
    await rig.settle()
    back = await rig.connect("one")
    (shown,) = back.of("chat_messages")
    assert shown["connect"] is True
    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]
    await back.send(PROBE)
    assert back.frames[-1]["reason"] == "idle"


async def test_a_reconnecting_client_takes_its_stream_up_again(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow one")])
    await rig.until(lambda: one.text("r1") == "answer to ")
    await one.close()
    back = await rig.connect("one")
    await back.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    rig.agent.gate.set()
    await rig.settle()
    assert back.text("r1") == "answer to slow one "
    assert back.done("r1")[0]["outcome"] == "completed"


async def test_a_probe_while_a_turn_waits_is_told_to_wait_and_then_resumes(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "tool")])
    await rig.settle()
    rig.agent.lane("")._hold(0.05)
    await one.ask("r2", [user("u1", "tool"), user("u2", "next")])
    two = await rig.connect("two")
    await two.send(PROBE)
    assert two.frames == [
        {"type": "cf_agent_stream_pending", "id": "r2"},
        {"type": "cf_agent_stream_pending", "id": "r2", "probeId": "p"},
    ]
    await rig.settle(0.08)
    assert two.of("stream_resuming") == [
        {"type": "cf_agent_stream_resuming", "id": "r2", "probeId": "p"}
    ]
    await two.send({"type": "cf_agent_stream_resume_ack", "id": "r2"})
    assert two.text("r2") == "answer to next "


async def test_parked_clients_are_released_when_nothing_comes(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    rig.agent.lane("")._hold(0.05)
    await one.ask("r1", [user("u1", "hello")])
    two = await rig.connect("two")
    await two.send(PROBE)
    await one.send({"type": "cf_agent_chat_clear"})
    assert two.frames[-2]["type"] == "cf_agent_stream_resume_none"
    assert two.frames[-1] == {"type": "cf_agent_chat_clear"}


async def test_an_error_that_nobody_heard_is_told_to_the_next_client(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "fail now")])
    await one.close()
    await rig.settle()
    late = await rig.connect("late")
    assert late.frames == [{"type": "cf_agent_stream_resuming", "id": "r1"}]
    await late.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    (end,) = late.done("r1")
    assert (end["error"], end["body"], end["replay"]) == (True, "the model is tired", True)
    assert late.text("r1") == "answer to "
    await late.send(PROBE)
    assert late.frames[-1]["type"] == "cf_agent_stream_resume_none", "it is told once"


async def test_a_failure_is_told_to_every_new_view_until_the_next_turn(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "fail now")])
    await rig.settle()
    (end,) = one.done("r1")
    assert end["error"]
    await one.close()
    for name in ("a page", "the page loaded anew"):
        view = await rig.connect(name)
        assert view.frames == [{"type": "cf_agent_stream_resuming", "id": "r1"}]
        await view.send(PROBE)
        assert view.frames[-1]["probeId"] == "p"
        view.forget()
        await view.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
        (end,) = view.frames
        assert (end["error"], end["body"], end["replay"]) == (True, "the model is tired", True)
        await view.send(PROBE)
        assert view.frames[-1] == {
            "type": "cf_agent_stream_resume_none",
            "probeId": "p",
            "reason": "idle",
        }
    back = await rig.connect("a page")
    assert back.kinds() == ["chat_messages"], "a view that comes back knows it"
    await back.ask("r2", [user("u2", "hello")])
    await rig.settle()
    fresh = await rig.connect("later")
    assert fresh.frames == []


async def test_a_failure_before_anything_was_stored_is_told_too(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")

    async def refuse(*_: Any) -> None:
        raise LimitError("no room for it")

    append = rig.agent.lane("").conversation.append
    rig.agent.lane("").conversation.append = refuse
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    rig.agent.lane("").conversation.append = append
    assert await rig.shown() == []
    fresh = await rig.connect("fresh")
    assert fresh.frames == [{"type": "cf_agent_stream_resuming", "id": "r1"}]
    await fresh.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    assert fresh.done("r1")[0]["body"] == one.done("r1")[0]["body"]


async def test_a_failure_on_another_branch_or_cleared_away_is_not_told(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    _, messages = await rig.http("GET", "get-messages")
    await one.ask("r2", [*messages, user("u2", "fail now")])
    await rig.settle()
    rig.agent.lane("").conversation.show(messages[-1]["id"])
    assert (await rig.connect("two")).frames == []
    rig.agent.lane("").conversation.show(None)
    assert (await rig.connect("three")).kinds() == ["stream_resuming"]
    await one.send({"type": "cf_agent_chat_clear"})
    assert (await rig.connect("four")).frames == []


async def test_a_long_stream_is_replayed_exactly(host: Any) -> None:
    class Long(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            for number in range(3000):
                yield {"type": "text-delta", "id": f"part{number // 1000}", "delta": f"{number} "}
                if number == 2500:
                    await self.gate.wait()

    rig = await started(host, Long)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "count")])
    await rig.until(lambda: one.text("r1").endswith("2500 "))
    two = await rig.connect("two")
    await two.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    rig.agent.gate.set()
    await rig.settle()
    expected = "".join(f"{number} " for number in range(3000))
    assert one.text("r1") == two.text("r1") == expected
    # Neighbouring deltas come as one.
    assert len(two.of("use_chat_response")) < 600
    _, events = await rig.http("GET", "chat/r1/stream")
    numbers = [int(line[4:]) for line in events.splitlines() if line.startswith("id: ")]
    assert numbers == list(range(len(numbers)))
    middle = len(numbers) // 2
    _, events = await rig.http("GET", f"chat/r1/stream?after={middle}")
    again = [int(line[4:]) for line in events.splitlines() if line.startswith("id: ")]
    assert again == numbers[middle + 1 :]


async def test_deltas_faster_than_the_event_loop_are_sent_together(host: Any) -> None:
    class Quick(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            for number in range(100):
                yield {"type": "text-delta", "id": "t", "delta": f"{number} "}
            await asyncio.sleep(0.02)
            for number in range(100, 104):
                yield {"type": "text-delta", "id": "t", "delta": f"{number} "}
                await asyncio.sleep(0.02)

    class Plain(Quick):
        gather_deltas = False

    expected = "".join(f"{number} " for number in range(104))
    for kind, fewest, most in ((Quick, 8, 30), (Plain, 104, 104)):
        rig = await started(host, kind)
        one = await rig.connect(f"one-{kind.__name__}", kind.__name__)
        await one.ask("r1", [user("u1", "count")])
        await rig.settle()
        deltas = [chunk["delta"] for chunk in one.chunks("r1") if chunk["type"] == "text-delta"]
        assert "".join(deltas) == expected
        assert deltas[0] == "0 ", "the first is never held back"
        assert deltas[-4:] == ["100 ", "101 ", "102 ", "103 "], "slow ones come one by one"
        assert fewest <= len(deltas) <= most


async def test_streams_are_swept_some_time_after_their_end(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    turn = rig.agent.turns.get("", "r1").turn
    assert list(rig.agent.streams.read(turn))
    await rig.host.advance(601)
    await rig.settle()
    assert not list(rig.agent.streams.read(turn))
    assert rig.agent.turns.get("", "r1") is not None
    await rig.host.advance(24 * 3600 + 120)
    await rig.settle()
    assert rig.agent.turns.get("", "r1") is None
    assert await rig.host.get_alarm() is None, "no alarm stays armed for nothing"
    assert await rig.shown() == ["user: hello", "assistant: answer to hello"]


async def test_get_messages_is_an_array_even_when_empty(host: Any) -> None:
    rig = await started(host)
    assert await rig.http("GET", "get-messages") == (200, [])
    assert await rig.http("GET", "get-messages", session="elsewhere") == (200, [])
    assert json.dumps(await rig.shown()) == "[]"
