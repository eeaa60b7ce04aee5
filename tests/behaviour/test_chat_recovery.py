"""Turns that were cut off: taken up again in their own place, or closed with an honest error."""

from __future__ import annotations

import asyncio
from typing import Any

from chat_rig import Rig, Talker, started, user

from palimpsest.chat.recovery import MAX_ATTEMPTS, what_stays


async def cut_off(host: Any, text: str = "slow and long", kind: Any = Talker) -> tuple[Rig, Any]:
    """A rig whose turn was running, with stored chunks, when its instance was dropped."""
    rig = await started(host, kind)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", text)])
    await rig.until(lambda: one.text("r1") == "answer to ")
    rig.agent.lane("").active.live.flush()
    return rig, one


async def test_the_partial_answer_is_shown_at_once_and_then_replaced(host: Any) -> None:
    rig, _ = await cut_off(host)
    await rig.restart()
    assert await rig.shown() == ["user: slow and long", "assistant: answer to"]
    _, partial = await rig.http("GET", "get-messages")
    rig.agent.gate.set()
    await rig.settle()
    assert await rig.shown() == ["user: slow and long", "assistant: answer to slow and long"]
    _, whole = await rig.http("GET", "get-messages")
    assert whole[1]["id"] == partial[1]["id"], "in its own place"
    assert rig.agent.turns.get("", "r1").status == "completed"


async def test_a_client_that_comes_back_gets_the_whole_answer_once(host: Any) -> None:
    rig, _ = await cut_off(host)
    for socket in rig.host.sockets():
        socket.close(1006, "")
    await rig.restart()
    back = await rig.connect("one")
    assert back.frames[0]["type"] in ("cf_agent_stream_resuming", "cf_agent_chat_recovering")
    await rig.until(lambda: back.of("stream_resuming"))
    await back.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    rig.agent.gate.set()
    await rig.settle()
    assert back.text("r1") == "answer to slow and long "
    assert back.done("r1")[0]["outcome"] == "completed"
    assert [frame["recovering"] for frame in back.of("chat_recovering")][-1] is False


async def test_a_client_that_slept_through_it_ends_with_the_same_answer(host: Any) -> None:
    rig, one = await cut_off(host)
    one.forget()
    await rig.restart()
    rig.agent.gate.set()
    await rig.settle()
    kinds = [chunk["type"] for chunk in one.chunks("r1")]
    assert kinds[0] == "reset-step"
    assert one.text("r1") == "answer to slow and long "
    assert one.kinds()[-3:] == ["chat_messages", "use_chat_response", "chat_recovering"]
    assert one.of("chat_messages")[-1]["messages"][1]["parts"][-1]["text"] == (
        "answer to slow and long "
    )


async def test_close_ends_it_with_its_text_and_an_error_for_late_clients(host: Any) -> None:
    class Closing(Talker):
        recovery = "close"

    rig, _ = await cut_off(host, kind=Closing)
    for socket in rig.host.sockets():
        socket.close(1006, "")
    await rig.restart()
    await rig.settle()
    assert await rig.shown() == ["user: slow and long", "assistant: answer to"]
    late = await rig.connect("late")
    assert late.frames == [{"type": "cf_agent_stream_resuming", "id": "r1"}]
    await late.send({"type": "cf_agent_stream_resume_ack", "id": "r1"})
    (end,) = late.done("r1")
    assert end["error"] is True
    assert "interrupted" in end["body"]
    assert late.text("r1") == "answer to "


async def test_a_turn_that_is_cut_off_again_and_again_is_closed(host: Any) -> None:
    rig, _ = await cut_off(host)
    for _ in range(MAX_ATTEMPTS + 1):
        await rig.restart()
        await asyncio.sleep(0.01)
    await rig.settle()
    row = rig.agent.turns.get("", "r1")
    assert (row.status, row.attempts) == ("error", MAX_ATTEMPTS)
    assert (await rig.shown())[1].startswith("assistant: answer to")


async def test_what_waited_is_answered_after_the_recovered_turn(host: Any) -> None:
    rig, one = await cut_off(host)
    await one.ask("r2", [user("u1", "slow and long"), user("u2", "second")])
    await rig.restart()
    rig.agent.gate.set()
    await rig.settle()
    assert await rig.shown() == [
        "user: slow and long",
        "assistant: answer to slow and long",
        "user: second",
        "assistant: answer to second",
    ]


async def test_a_turn_that_only_waited_is_answered_after_a_restart(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    rig.agent.lane("")._hold(60)
    await one.ask("r1", [user("u1", "hello")])
    assert await rig.shown() == ["user: hello"]
    await rig.restart()
    await rig.settle()
    assert await rig.shown() == ["user: hello", "assistant: answer to hello"]


async def test_an_accepted_turn_is_run_by_the_alarm_if_nobody_comes_back(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    rig.agent.lane("")._hold(1)
    await one.ask("r1", [user("u1", "hello")])
    for socket in rig.host.sockets():
        socket.close(1006, "")
    await rig.restart()
    assert await rig.host.get_alarm() is not None
    await rig.host.advance(60)
    await rig.settle()
    assert await rig.shown() == ["user: hello", "assistant: answer to hello"]


async def test_a_running_turn_has_an_alarm_that_finds_it(host: Any) -> None:
    rig, _ = await cut_off(host)
    alarm = await rig.host.get_alarm()
    assert alarm is not None
    assert alarm - rig.host.now() <= 30_000
    await rig.restart()
    rig.agent.gate.set()
    await rig.host.advance(60)
    await rig.settle()
    assert (await rig.shown())[1] == "assistant: answer to slow and long"


async def test_finished_steps_and_their_tool_results_are_not_run_again(host: Any) -> None:
    runs: list[str] = []

    class Working(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            if turn.base is None:
                runs.append("tool")
                yield {"type": "start-step"}
                yield {
                    "type": "tool-input-available",
                    "toolCallId": "t1",
                    "toolName": "work",
                    "input": {},
                }
                yield {"type": "tool-output-available", "toolCallId": "t1", "output": "made"}
                yield {"type": "finish-step"}
                yield {"type": "start-step"}
            yield "the work "
            await self.gate.wait()
            yield "is done"
            yield {"type": "finish", "finishReason": "stop"}

    rig = await started(host, Working)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "go")])
    await rig.until(lambda: one.text("r1") == "the work ")
    rig.agent.lane("").active.live.flush()
    await rig.restart()
    rig.agent.gate.set()
    await rig.settle()
    assert runs == ["tool"]
    _, messages = await rig.http("GET", "get-messages")
    parts = [part for part in messages[1]["parts"] if part["type"] != "step-start"]
    assert [(part["type"], part.get("output", part.get("text"))) for part in parts] == [
        ("tool-work", "made"),
        ("text", "the work is done"),
    ]


async def test_an_answer_that_was_whole_is_only_completed(host: Any) -> None:
    rig, one = await cut_off(host)
    live = rig.agent.lane("").active.live
    live.emit({"type": "finish", "finishReason": "stop"})
    live.flush()
    await rig.restart()
    await rig.settle()
    assert rig.agent.turns_seen == []
    assert rig.agent.turns.get("", "r1").status == "completed"
    assert await rig.shown() == ["user: slow and long", "assistant: answer to"]
    assert one.done("r1")[-1]["outcome"] == "completed"


def test_what_stays_of_a_broken_stream() -> None:
    def chunk(kind: str) -> str:
        return f'{{"type":"{kind}"}}'

    def kept(*kinds: str) -> tuple[int, bool, bool]:
        stays = what_stays([chunk(kind) for kind in kinds])
        return len(stays.bodies), stays.finished, stays.resumable

    assert kept() == (0, False, False)
    assert kept("start", "start-step", "text-start", "text-delta") == (1, False, False)
    assert kept("start", "start-step", "tool-input-start", "tool-input-delta") == (4, False, True)
    assert kept("start", "start-step", "finish-step", "start-step", "text-delta") == (
        3,
        False,
        True,
    )
    assert kept("start", "finish") == (2, True, True)
