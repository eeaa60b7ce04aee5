"""Turns over the socket: asking, streaming, storing, stopping, failing, queueing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from chat_rig import Talker, started, user

from palimpsest.chat.turns import Concurrency


async def test_a_turn_streams_is_stored_and_then_done(host: Any) -> None:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    assert one.text("r1") == two.text("r1") == "answer to hello "
    assert one.chunks("r1")[0]["type"] == "start"
    answer_id = one.chunks("r1")[0]["messageId"]
    assert one.done("r1") == two.done("r1")
    assert one.done("r1")[0]["outcome"] == "completed"
    assert one.done("r1")[0]["messageIds"] == ["u1"]
    sequence = [frame["seq"] for frame in one.of("use_chat_response") if not frame["done"]]
    assert sequence == list(range(len(sequence)))
    # The other tab sees the conversation before and after; the one who asked needs neither.
    assert one.of("chat_messages") == []
    before, after = two.of("chat_messages")
    assert [message["id"] for message in before["messages"]] == ["u1"]
    assert [message["id"] for message in after["messages"]] == ["u1", answer_id]
    assert two.kinds()[-2:] == ["chat_messages", "use_chat_response"]
    _, stored = await rig.http("GET", "get-messages")
    assert stored == after["messages"]


async def test_finish_carries_its_reason_in_the_metadata(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    assert one.chunks("r1")[-1] == {
        "type": "finish",
        "messageMetadata": {"finishReason": "stop"},
    }


async def test_an_idle_session_says_so_to_a_probe(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.send({"type": "cf_agent_stream_resume_request", "probeId": "p"})
    await one.send({"type": "cf_agent_stream_resume_request"})
    assert one.frames == [
        {"type": "cf_agent_stream_resume_none", "reason": "idle", "probeId": "p"},
        {"type": "cf_agent_stream_resume_none", "reason": "idle"},
    ]


async def test_stop_keeps_the_partial_text_in_one_message(host: Any) -> None:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    await one.ask("r1", [user("u1", "slow one")])
    await rig.until(lambda: one.text("r1") == "answer to ")
    await two.send({"type": "cf_agent_chat_request_cancel", "id": "r1"})
    await rig.settle()
    assert [frame["outcome"] for frame in one.done("r1")] == ["aborted"]
    assert one.of("use_chat_response")[-1]["done"]
    assert await rig.shown() == ["user: slow one", "assistant: answer to"]
    await two.send({"type": "cf_agent_chat_request_cancel", "id": "r1"})
    await one.ask("r2", [user("u1", "slow one"), user("u2", "next")])
    await rig.settle()
    assert (await rig.shown())[2:] == ["user: next", "assistant: answer to next"]


async def _fails(host: Any, word: str, told: str) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", f"{word} now")])
    await rig.settle()
    (end,) = one.done("r1")
    assert end["error"] is True
    assert end["body"] == told
    assert await rig.shown() == [f"user: {word} now", "assistant: answer to"]
    assert "secret" not in json.dumps(one.frames)


async def test_a_model_error_keeps_the_partial_text_and_tells(host: Any) -> None:
    await _fails(host, "fail", "the model is tired")


async def test_a_bug_in_the_hook_tells_nothing_of_the_inside(host: Any) -> None:
    told = "Something went wrong while answering. What was written before has been kept."
    await _fails(host, "crash", told)


async def test_an_error_chunk_ends_the_turn_as_an_error(host: Any) -> None:
    class Failing(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            yield "half an "
            yield {"type": "error", "errorText": "the provider said no"}

    rig = await started(host, Failing)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    (end,) = one.done("r1")
    assert (end["error"], end["body"]) == (True, "the provider said no")
    assert await rig.shown() == ["user: hello", "assistant: half an"]


async def test_a_hook_may_return_text_or_nothing(host: Any) -> None:
    class Plain(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            return None if turn.message["id"] == "u2" else "plain text"

    rig = await started(host, Plain)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "a")])
    await rig.settle()
    await one.ask("r2", [user("u1", "a"), user("u2", "b")])
    await rig.settle()
    assert await rig.shown() == ["user: a", "assistant: plain text", "user: b"]
    assert [chunk["type"] for chunk in one.chunks("r1")] == [
        "start",
        "text-start",
        "text-delta",
        "text-end",
    ]
    (end,) = one.done("r2")
    assert end["body"] == "No response was generated by the agent."
    assert end["outcome"] == "completed"


async def test_a_stalled_model_is_cut_off(host: Any) -> None:
    class Stalling(Talker):
        stall_seconds = 0.05

    rig = await started(host, Stalling)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow one")])
    await rig.settle()
    (end,) = one.done("r1")
    assert end["body"] == "The model sent nothing for 0.05 seconds."
    assert await rig.shown() == ["user: slow one", "assistant: answer to"]


async def test_queued_messages_each_get_their_own_answer_in_order(host: Any) -> None:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    first = user("u1", "slow first")
    await one.ask("r1", [first])
    await rig.until(lambda: one.text("r1") == "answer to ")
    await one.ask("r2", [first, user("u2", "second")])
    await two.ask("r3", [first, user("u3", "third")])
    # What was accepted is shown at once, behind what is being answered.
    assert await rig.shown() == ["user: slow first", "user: second", "user: third"]
    rig.agent.gate.set()
    await rig.settle()
    assert await rig.shown() == [
        "user: slow first",
        "assistant: answer to slow first",
        "user: second",
        "assistant: answer to second",
        "user: third",
        "assistant: answer to third",
    ]
    history = [turn.leaf_id for turn in rig.agent.turns_seen]
    assert history == ["u1", "u2", "u3"]


async def test_messages_that_come_at_once_are_shown_to_others_at_once(host: Any) -> None:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    messages = [user("u0", "slow first")]
    await one.ask("r0", messages)
    await rig.until(lambda: one.text("r0") == "answer to ")
    for client in (one, two):
        client.forget()
    for number in range(1, 9):
        messages = [*messages, user(f"u{number}", f"message {number}")]
        await one.ask(f"r{number}", messages)
    await rig.until(lambda: bool(two.of("chat_messages")))
    (shown,) = two.of("chat_messages")
    assert [message["id"] for message in shown["messages"]] == [f"u{i}" for i in range(9)]
    assert one.of("chat_messages") == [], "the one who sent them has them"
    rig.agent.gate.set()
    await rig.settle()
    _, stored = await rig.http("GET", "get-messages")
    assert one.of("chat_messages")[-1]["messages"] == stored
    assert two.of("chat_messages")[-1]["messages"] == stored


async def test_the_same_request_is_not_run_twice(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow one")])
    await one.ask("r1", [user("u1", "slow one")])
    rig.agent.gate.set()
    await rig.settle()
    await one.ask("r1", [user("u1", "slow one")])
    await rig.settle()
    assert len(rig.agent.turns_seen) == 1
    assert [end["outcome"] for end in one.done("r1")] == ["completed", "completed"]
    assert await rig.shown() == ["user: slow one", "assistant: answer to slow one"]


async def test_a_waiting_turn_that_is_cancelled_keeps_only_its_message(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    first = user("u1", "slow first")
    await one.ask("r1", [first])
    await one.ask("r2", [first, user("u2", "second")])
    await one.ask("r3", [first, user("u2", "second"), user("u3", "third")])
    await one.send({"type": "cf_agent_chat_request_cancel", "id": "r2"})
    rig.agent.gate.set()
    await rig.settle()
    assert one.done("r2")[0]["outcome"] == "aborted"
    assert await rig.shown() == [
        "user: slow first",
        "assistant: answer to slow first",
        "user: second",
        "user: third",
        "assistant: answer to third",
    ]


async def _busy_then(host: Any, policy: Any, seconds: float = 0.0) -> Any:
    class Busy(Talker):
        concurrency = policy

    rig = await started(host, Busy)
    one = await rig.connect("one")
    first = user("u1", "slow first")
    await one.ask("r1", [first])
    if policy != "debounce" and not isinstance(policy, Concurrency):
        await rig.until(lambda: one.text("r1") == "answer to ")
    await one.ask("r2", [first, user("u2", "second")])
    await one.ask("r3", [first, user("u2", "second"), user("u3", "third")])
    rig.agent.gate.set()
    await rig.settle(seconds)
    return rig, one


async def test_latest_answers_the_newest_and_keeps_the_others(host: Any) -> None:
    rig, one = await _busy_then(host, "latest")
    assert [one.done(name)[0]["outcome"] for name in ("r1", "r2", "r3")] == [
        "completed",
        "skipped",
        "completed",
    ]
    assert (await rig.shown())[2:] == ["user: second", "user: third", "assistant: answer to third"]


async def test_merge_makes_one_message_of_those_that_wait(host: Any) -> None:
    rig, one = await _busy_then(host, "merge")
    assert one.done("r2")[0]["outcome"] == "skipped"
    shown = await rig.shown()
    assert shown[2] == "user: second\nthird"
    assert shown[3].startswith("assistant: answer to second")
    assert len(shown) == 4
    assert one.of("chat_messages"), "the one who asked is shown what became of its messages"


async def test_drop_refuses_and_sets_the_transcript_back(host: Any) -> None:
    rig, one = await _busy_then(host, "drop")
    assert [one.done(name)[0]["outcome"] for name in ("r2", "r3")] == ["skipped", "skipped"]
    assert [message["id"] for message in one.of("chat_messages")[0]["messages"]] == ["u1"]
    assert await rig.shown() == ["user: slow first", "assistant: answer to slow first"]


async def test_debounce_waits_for_quiet_and_answers_once(host: Any) -> None:
    rig, one = await _busy_then(host, Concurrency("debounce", 60), 0.12)
    assert [one.done(name)[0]["outcome"] for name in ("r1", "r2", "r3")] == [
        "skipped",
        "skipped",
        "completed",
    ]
    assert await rig.shown() == [
        "user: slow first",
        "user: second",
        "user: third",
        "assistant: answer to third",
    ]


async def test_sessions_do_not_hear_each_other(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    other = await rig.connect("other", session="work")
    await one.ask("r1", [user("u1", "slow one")])
    await other.ask("r1", [user("u1", "quick")])
    await rig.until(lambda: other.done("r1"))
    assert one.text("r1") == "answer to "
    rig.agent.gate.set()
    await rig.settle()
    assert other.text("r1") == "answer to quick "
    assert await rig.shown("work") == ["user: quick", "assistant: answer to quick"]
    assert await rig.shown() == ["user: slow one", "assistant: answer to slow one"]
    _, listed = await rig.http("GET", "sessions")
    names = {session["id"]: session["name"] for session in listed["sessions"]}
    assert names == {"work": "quick", "": "slow one"}


async def test_messages_from_the_server_wait_their_turn(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow one")])
    await rig.until(lambda: one.text("r1") == "answer to ")
    told = await rig.agent.save_messages(["a reminder"], request_id="reminder")
    await rig.agent.save_messages(["a reminder"], request_id="reminder")
    note = {"id": "n1", "role": "assistant", "parts": [{"type": "text", "text": "noted"}]}
    kept = await rig.agent.save_messages([note], answer=False)
    rig.agent.gate.set()
    assert (await rig.agent.turn_result(told)).status == "completed"
    assert (await rig.agent.turn_result(kept)).status == "completed"
    assert await rig.agent.turn_result("never") is None
    expected = [
        "user: slow one",
        "assistant: answer to slow one",
        "user: a reminder",
        "assistant: answer to a reminder",
        "assistant: noted",
    ]
    assert await rig.shown() == expected
    assert len(one.of("chat_messages")[-1]["messages"]) == 5


async def test_any_text_comes_back_as_it_was_sent(host: Any) -> None:
    class Quoting(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            yield turn.message["parts"][0]["text"]

    texts = ["a\0b", "line\r\nend\u2028", "e\u0301 \u1e9e", "half \ud83d", "x" * 300_000, '{}"\\']
    rig = await started(host, Quoting)
    one = await rig.connect("one")
    messages: list[Any] = []
    for number, text in enumerate(texts):
        messages = [*messages, user(f"u{number}", text)]
        await one.ask(f"r{number}", messages)
        await rig.settle()
        _, messages = await rig.http("GET", "get-messages")
        assert one.text(f"r{number}") == text
    found = [message["parts"][0]["text"] for message in messages]
    assert found == [text for text in texts for _ in range(2)]


async def test_a_chunk_that_is_no_json_fails_the_turn_and_keeps_what_was_before(host: Any) -> None:
    class Broken(Talker):
        async def on_chat_message(self, turn: Any) -> Any:
            yield "before it"
            yield {"type": "data-figure", "data": float("nan")}

    rig = await started(host, Broken)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    assert one.done("r1")[0]["error"] is True
    assert await rig.shown() == ["user: hello", "assistant: before it"]


async def test_what_is_sent_while_a_clear_waits_for_the_running_turn_comes_after_it(
    host: Any,
) -> None:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    await one.ask("r1", [user("u1", "slow to be cleared")])
    await rig.until(lambda: one.text("r1"))
    clearing = asyncio.create_task(one.send({"type": "cf_agent_chat_clear"}))
    await asyncio.sleep(0.01)
    await two.ask("r2", [user("u2", "hello")])
    await clearing
    await rig.until(lambda: two.done("r2"))
    assert two.done("r2")[0]["outcome"] == "completed"
    assert await rig.shown() == ["user: hello", "assistant: answer to hello"]


async def test_what_is_sent_while_a_session_is_deleted_brings_it_back(host: Any) -> None:
    rig = await started(host)
    one, two = await rig.connect("one", "s"), await rig.connect("two", "s")
    await one.ask("r1", [user("u1", "slow to be deleted")])
    await rig.until(lambda: one.text("r1"))
    deleting = asyncio.create_task(rig.http("POST", "sessions/delete", {"id": "s"}))
    await asyncio.sleep(0.01)
    await two.ask("r2", [user("u2", "stay")])
    assert (await deleting)[0] == 200
    await rig.until(lambda: two.done("r2"))
    await host.advance(31)
    shown = await rig.shown("s")
    assert shown[-2:] == ["user: stay", "assistant: answer to stay"]


async def test_any_text_may_begin_a_conversation(host: Any) -> None:
    rig = await started(host)
    for number, text in enumerate(("\ud800 broken", "\x00 nul", "\u202eleft", "👩‍👩‍👧‍👦" * 50)):
        one = await rig.connect("one", f"s{number}")
        await one.ask("r1", [user("u1", text)])
        await rig.settle()
        assert one.done("r1")[0]["outcome"] == "completed"
        _, messages = await rig.http("GET", "get-messages", session=f"s{number}")
        assert messages[0]["parts"][0]["text"] == text
        await one.close()


async def test_an_edit_of_a_message_that_is_being_answered_is_answered_too(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow first words")])
    await rig.until(lambda: one.text("r1"))
    await one.send({"type": "cf_agent_chat_request_cancel", "id": "r1"})
    await one.ask("r2", [user("u1", "edited words")])
    await rig.until(lambda: one.done("r2"))
    assert await rig.shown() == ["user: edited words", "assistant: answer to edited words"]
    _, siblings = await rig.http("GET", "branches?message=u1")
    assert len(siblings["siblings"]) == 2, "the first form stays reachable"


async def test_an_edit_of_a_message_that_waits_replaces_it(host: Any) -> None:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    await one.ask("r1", [user("u1", "slow going")])
    await rig.until(lambda: one.text("r1"))
    await two.ask("r2", [user("u2", "first form")])
    await two.ask("r3", [user("u2", "second form")])
    await two.ask("r4", [user("u1", "slow going"), user("u2", "second form")])
    rig.agent.gate.set()
    await rig.until(lambda: two.done("r4"))
    assert two.done("r2")[0]["outcome"] == "skipped"
    assert await rig.shown() == [
        "user: slow going",
        "assistant: answer to slow going",
        "user: second form",
        "assistant: answer to second form",
    ]
