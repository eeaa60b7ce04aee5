"""Tools that the client runs, approvals, and the continuation of the answer."""

from __future__ import annotations

from typing import Any

from chat_rig import Client, Rig, started, user

PROBE = {"type": "cf_agent_stream_resume_request", "probeId": "p"}


def result(call: str, output: Any, **fields: Any) -> dict[str, Any]:
    return {
        "type": "cf_agent_tool_result",
        "toolCallId": call,
        "toolName": "locate",
        "output": output,
        "autoContinue": True,
        **fields,
    }


def approval(approved: bool) -> dict[str, Any]:
    return {
        "type": "cf_agent_tool_approval",
        "toolCallId": "a1",
        "approved": approved,
        "autoContinue": True,
    }


async def asked(host: Any, text: str) -> tuple[Rig, Client, Client]:
    rig = await started(host)
    one, two = await rig.connect("one"), await rig.connect("two")
    await one.ask("r1", [user("u1", text)])
    await rig.settle()
    one.forget()
    two.forget()
    return rig, one, two


async def continue_on(rig: Rig, one: Client) -> str:
    """What a client does after a result: probe, acknowledge, follow. The request's id."""
    rig.agent.continuing.clear()
    await one.send(PROBE)
    (pending,) = one.of("stream_pending")
    assert pending["probeId"] == "p"
    await rig.until(lambda: one.of("stream_resuming"))
    (resuming,) = one.of("stream_resuming")
    await one.send({"type": "cf_agent_stream_resume_ack", "id": resuming["id"]})
    rig.agent.continuing.set()
    await rig.settle()
    return resuming["id"]


async def test_a_result_is_stored_shown_and_continued(host: Any) -> None:
    rig, one, two = await asked(host, "tool")
    await one.send(result("c1", {"at": "home"}))
    (updated,) = one.of("message_updated")
    assert two.of("message_updated") == [updated]
    part = next(part for part in updated["message"]["parts"] if part.get("toolCallId") == "c1")
    assert (part["state"], part["output"]) == ("output-available", {"at": "home"})
    request_id = await continue_on(rig, one)
    assert request_id != "r1"
    frames = one.of("use_chat_response")
    assert frames
    assert all(frame["continuation"] for frame in frames)
    kinds = [chunk["type"] for chunk in one.chunks(request_id)]
    assert kinds[0] == "start"
    assert "messageId" not in one.chunks(request_id)[0]
    assert not [kind for kind in kinds if kind.startswith("tool-")]
    # The merged conversation is shown to everyone, the one who asked included, before done.
    assert one.kinds()[-2:] == two.kinds()[-2:] == ["chat_messages", "use_chat_response"]
    messages = one.of("chat_messages")[-1]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert messages[1]["parts"][-1]["text"] == "continued after output-available"
    assert one.done(request_id)[0]["outcome"] == "completed"


async def test_a_late_acknowledgement_of_a_continuation_gets_the_conversation(host: Any) -> None:
    rig, one, _ = await asked(host, "tool")
    await one.send(result("c1", 1))
    await one.send(PROBE)
    await rig.settle(0.08)
    request_id = one.of("stream_resuming")[0]["id"]
    one.forget()
    await one.send({"type": "cf_agent_stream_resume_ack", "id": request_id})
    assert one.kinds() == ["chat_messages", "use_chat_response"]
    assert one.chunks(request_id) == [], "the message that has the text is there already"
    assert one.done(request_id)[0]["outcome"] == "completed"


async def test_the_first_result_stands(host: Any) -> None:
    rig, one, two = await asked(host, "tool")
    await one.send(result("c1", "first", autoContinue=False))
    await two.send(result("c1", "second", autoContinue=False))
    await rig.settle()
    _, messages = await rig.http("GET", "get-messages")
    assert messages[1]["parts"][-1]["output"] == "first"
    assert two.of("message_updated")[-1]["message"]["parts"][-1]["output"] == "first"


async def test_parallel_results_are_continued_once_when_all_are_in(host: Any) -> None:
    rig, one, _ = await asked(host, "tool c1 c2 c3")
    await one.send(result("c1", 1))
    await one.send(PROBE)
    assert one.frames[-1]["type"] == "cf_agent_stream_resume_none"
    await rig.settle(0.08)
    assert len(rig.agent.turns_seen) == 1
    await one.send(result("c2", 2))
    await one.send(result("c3", 3))
    one.forget()
    await continue_on(rig, one)
    await rig.settle(0.08)
    assert len(rig.agent.turns_seen) == 2
    assert rig.agent.turns_seen[1].base is not None


async def test_a_failed_client_tool_is_an_error_part(host: Any) -> None:
    rig, one, _ = await asked(host, "tool")
    await one.send(
        result("c1", None, state="output-error", errorText="no sensor", autoContinue=False)
    )
    await rig.settle(0.08)
    _, messages = await rig.http("GET", "get-messages")
    part = messages[1]["parts"][-1]
    assert (part["state"], part["errorText"]) == ("output-error", "no sensor")
    assert len(rig.agent.turns_seen) == 1


async def test_an_approved_call_runs_and_its_result_comes_with_the_message(host: Any) -> None:
    rig, one, two = await asked(host, "approve it")
    await one.send(approval(True))
    assert one.of("message_updated")[0]["message"]["parts"][-1]["state"] == "approval-responded"
    request_id = await continue_on(rig, one)
    states = [
        part["state"]
        for frame in two.of("message_updated")
        for part in frame["message"]["parts"]
        if "toolCallId" in part
    ]
    assert states == ["approval-responded", "output-available"]
    assert not [chunk for chunk in one.chunks(request_id) if chunk["type"].startswith("tool-")]
    part = one.of("chat_messages")[-1]["messages"][1]["parts"][1]
    assert (part["state"], part["output"]) == ("output-available", "removed")
    assert part["approval"] == {"id": "p1", "approved": True}


async def test_a_denied_call_never_runs_and_the_answer_goes_on(host: Any) -> None:
    rig, one, _ = await asked(host, "approve it")
    await one.send(approval(False))
    assert one.of("message_updated")[0]["message"]["parts"][-1]["state"] == "output-denied"
    await continue_on(rig, one)
    assert one.of("chat_messages")[-1]["messages"][1]["parts"][-1]["text"] == (
        "continued after output-denied"
    )
    await one.send(approval(True))
    assert one.of("message_updated")[-1]["message"]["parts"][1]["state"] == "output-denied"


async def test_another_tab_is_told_that_the_continuation_is_not_its_own(host: Any) -> None:
    rig, one, two = await asked(host, "tool")
    await one.send(result("c1", 1))
    await one.send(PROBE)
    seen: list[Any] = []

    async def ask_as_the_turn_runs(turn: Any) -> None:
        await two.send(PROBE)
        seen.append(two.frames[-1])

    original = rig.agent.continued

    async def continued(turn: Any) -> Any:
        await ask_as_the_turn_runs(turn)
        async for chunk in original(turn):
            yield chunk

    rig.agent.continued = continued
    await rig.settle(0.08)
    assert seen == [
        {
            "type": "cf_agent_stream_resume_none",
            "reason": "continuation-owned",
            "probeId": "p",
        }
    ]


async def test_results_in_a_submitted_transcript_are_taken_over(host: Any) -> None:
    rig, one, _ = await asked(host, "tool")
    _, messages = await rig.http("GET", "get-messages")
    messages[1]["parts"][-1] |= {"state": "output-available", "output": 5}
    await one.ask("r2", messages)
    await rig.settle()
    assert one.done("r2")[0]["outcome"] == "completed"
    _, messages = await rig.http("GET", "get-messages")
    assert len(messages) == 2
    assert messages[1]["parts"][1]["output"] == 5
    assert messages[1]["parts"][-1]["text"] == "continued after output-available"


async def test_an_optimistic_copy_with_the_same_call_is_not_stored_twice(host: Any) -> None:
    rig, one, _ = await asked(host, "tool")
    _, messages = await rig.http("GET", "get-messages")
    copy: dict[str, Any] = {**messages[1], "id": "made-by-the-client"}
    copy["parts"] = [{**copy["parts"][-1], "state": "output-available", "output": 7}]
    await one.ask("r2", [messages[0], copy, user("u2", "and now")])
    await rig.settle()
    _, messages = await rig.http("GET", "get-messages")
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[1]["parts"][-1]["output"] == 7


async def test_client_tools_and_body_survive_until_the_continuation(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    tools = [{"name": "locate", "description": "where", "parameters": {"type": "object"}}]
    await one.ask("r1", [user("u1", "tool")], clientTools=tools, mood="blue")
    await rig.settle()
    agent = await rig.restart()
    await one.send(result("c1", 1))
    await rig.settle(0.08)
    (turn,) = agent.turns_seen
    assert turn.client_tools == tools
    assert turn.body == {"mood": "blue"}
    assert turn.trigger == "continue"


async def test_a_result_for_an_unknown_call_changes_nothing(host: Any) -> None:
    rig, one, two = await asked(host, "tool")
    await one.send(result("never", 1))
    await one.send({**approval(True), "toolCallId": "never"})
    assert one.frames == two.frames == []
    assert len(rig.agent.turns_seen) == 1
