"""What clients, tools and models do wrong in a chat: everybody is answered, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from actors import cancelled_elsewhere
from chat_rig import Rig, Talker, started, user

from palimpsest.chat.agent import ChatAgent
from palimpsest.chat.oversize import shortened_to_fit
from palimpsest.hosts.interface import HttpRequest
from palimpsest.messages import dump_json
from palimpsest.models.interface import ToolCall
from palimpsest.store.encoding import MAX_MESSAGE_BYTES
from palimpsest.testing.models import ScriptedModel
from palimpsest.tools import tool
from palimpsest.tools.execute import MAX_RESULT_BYTES

ACK = {"type": "cf_agent_stream_resume_ack", "id": "r1"}


class Mute(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Tools(ChatAgent):
    """Tools that do what they should not."""

    steps: Any = ()

    def model(self) -> Any:
        return ScriptedModel(*self.steps)

    @tool
    async def cancelled(self) -> None:
        """Awaits what somebody else cancelled."""
        await cancelled_elsewhere()

    @tool
    async def exits(self) -> None:
        """Wants to end everything."""
        raise SystemExit(1)

    @tool
    async def mute(self) -> None:
        """Fails without words."""
        raise Mute

    @tool
    async def long_number(self) -> int:
        """A number that Python does not write."""
        return 10**5000

    @tool
    async def endless(self) -> str:
        """More than can be kept."""
        return "x" * MAX_RESULT_BYTES

    @tool
    async def large(self, number: int) -> str:
        """Nearly as much as can be kept."""
        return f"{number}" * (MAX_RESULT_BYTES - 10)


async def asked(host: Any, *steps: Any) -> tuple[Rig, Any]:
    """A rig whose client has asked a model with these steps, and its last frame."""

    class Scripted(Tools):
        pass

    Scripted.steps = steps
    rig = await started(host, Scripted)
    client = await rig.connect("one")
    await client.ask("r1", [user("u1", "go")])
    await rig.settle()
    return rig, client.done("r1")[0]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cancelled", "cancelled was cancelled"),
        ("exits", "exits wanted to end the process"),
        ("mute", "Mute"),
        ("long_number", "cannot be written as JSON"),
        ("endless", "at most 4,194,304 can be kept"),
    ],
)
async def test_whatever_a_tool_does_the_model_is_told_and_goes_on(
    host: Any, name: str, told: str
) -> None:
    rig, end = await asked(host, [ToolCall("c1", name, {})], "I see.")
    assert end["outcome"] == "completed"
    _, messages = await rig.http("GET", "get-messages")
    (part,) = [part for part in messages[-1]["parts"] if part["type"] == f"tool-{name}"]
    assert part["state"] == "output-error"
    assert told in part["errorText"]
    assert messages[-1]["parts"][-1]["text"] == "I see."


async def test_a_call_without_a_name_is_told_to_be_one(host: Any) -> None:
    rig, end = await asked(host, [ToolCall("c1", "", {})], "I see.")
    assert end["outcome"] == "completed"
    _, messages = await rig.http("GET", "get-messages")
    errors = [part["errorText"] for part in messages[-1]["parts"] if "errorText" in part]
    assert "there is no tool 'unnamed'" in errors[0]


async def test_an_answer_too_large_for_a_message_is_kept_with_shortened_results(host: Any) -> None:
    calls = [ToolCall(f"c{number}", "large", {"number": number}) for number in range(3)]
    rig, end = await asked(host, calls, "That was a lot.")
    assert end["outcome"] == "completed"
    _, messages = await rig.http("GET", "get-messages")
    assert len(dump_json(messages[-1])) <= MAX_MESSAGE_BYTES
    outputs = [part["output"] for part in messages[-1]["parts"] if "output" in part]
    assert sum("characters left out" in output for output in outputs) == 2
    assert messages[-1]["parts"][-1]["text"] == "That was a lot."


def test_only_what_is_needed_is_shortened() -> None:
    parts = [
        {"type": "tool-a", "output": ["x" * 30_000, "y" * 30_000]},
        {"type": "tool-b", "output": "small"},
        {"type": "text", "text": "z" * 300_000},
    ]
    message = {"id": "m", "role": "assistant", "parts": parts}
    shorter = shortened_to_fit(message, 320_000)["parts"]
    assert len(shorter[0]["output"]) == 2
    assert (shorter[1], shorter[2]) == (parts[1], parts[2])
    shortest = shortened_to_fit(message, 250_000)["parts"]
    assert len(shortest[2]["text"]) < 250_000
    assert len(parts[0]["output"][0]) == 30_000, "the message given stays as it is"


async def test_an_answer_that_is_cancelled_from_within_is_an_error(host: Any) -> None:
    class Broken(Talker):
        async def talk(self, turn: Any) -> AsyncIterator[Any]:
            yield "so far "
            await cancelled_elsewhere()

    rig = await started(host, Broken)
    client = await rig.connect("one")
    await client.ask("r1", [user("u1", "hello")])
    await rig.settle()
    assert client.done("r1")[0]["outcome"] == "error"
    assert await rig.shown() == ["user: hello", "assistant: so far"]


@pytest.mark.parametrize("hook", [Mute(), None, {"id": "x"}], ids=["raises", "nothing", "broken"])
async def test_an_answer_is_kept_though_the_hook_that_changes_it_fails(
    host: Any, hook: Any
) -> None:
    class Editing(Talker):
        def before_save(self, message: Any, turn: Any) -> Any:
            if isinstance(hook, Exception):
                raise hook
            return hook

    rig = await started(host, Editing)
    client = await rig.connect("one")
    await client.ask("r1", [user("u1", "hello")])
    await rig.settle()
    assert client.done("r1")[0]["outcome"] == "error"
    assert await rig.shown() == ["user: hello", "assistant: answer to hello"]


async def test_a_result_of_a_client_that_cannot_be_kept_is_an_error_of_the_call(host: Any) -> None:
    rig = await started(host)
    client = await rig.connect("one")
    await client.ask("r1", [user("u1", "tool c1")])
    await rig.settle()
    frame = {"type": "cf_agent_tool_result", "toolCallId": "c1", "toolName": "locate"}
    await client.send({**frame, "output": "x" * MAX_RESULT_BYTES, "autoContinue": True})
    await rig.settle(0.08)
    assert (await rig.shown())[-1] == "assistant: continued after output-error"


@pytest.mark.parametrize(
    "body",
    [
        '{"messages": [], "z": NaN}',
        '{"messages": [{"id": "u1", "role": "user", "parts": [], "metadata": 1e999}]}',
        '{"messages": [], "clientTools": [' + '{"name": "a"},' * 200 + '{"name": "b"}]}',
    ],
    ids=["no number", "infinite", "tools"],
)
async def test_every_request_is_answered(host: Any, body: str) -> None:
    rig = await started(host)
    client = await rig.connect("one")
    init = {"method": "POST", "body": body}
    await client.send({"type": "cf_agent_use_chat_request", "id": "r1", "init": init})
    assert [end["outcome"] for end in client.done("r1")] == ["error"]
    assert (await rig.http("POST", "chat", body.encode()))[0] == 400


async def test_a_request_that_fails_to_be_accepted_is_answered(host: Any) -> None:
    rig = await started(host)
    client = await rig.connect("one")

    def fail(*_: Any) -> None:
        raise RuntimeError("a secret of the inside")

    rig.agent.keep_session = fail
    await client.ask("r1", [user("u1", "hello")])
    (end,) = client.done("r1")
    assert end["outcome"] == "error"
    assert "secret" not in end["body"]


async def test_regenerating_what_is_unknown_hides_nothing(host: Any) -> None:
    rig = await started(host)
    client = await rig.connect("one")
    await client.ask("r1", [user("u1", "first")])
    await rig.settle()
    await client.ask("r2", [user("unknown", "second")], "regenerate-message")
    await rig.settle()
    assert await rig.shown() == [
        "user: first",
        "assistant: answer to first",
        "user: second",
        "assistant: answer to second",
    ]


async def test_a_client_that_came_back_gets_the_whole_stream_though_its_old_socket_closes_late(
    host: Any,
) -> None:
    rig = await started(host)
    old = await rig.connect("one")
    await old.ask("r1", [user("u1", "slow words")])
    await rig.until(lambda: old.text("r1"))
    new = await rig.connect("one")
    await old.close()
    await new.send(ACK)
    rig.agent.gate.set()
    await rig.settle()
    assert new.text("r1") == "answer to slow words "


async def test_two_sockets_with_one_id_each_get_the_whole_stream(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow words")])
    await rig.until(lambda: one.text("r1"))
    twins = [await rig.connect("twin"), await rig.connect("twin")]
    for twin in twins:
        await twin.send(ACK)
    rig.agent.gate.set()
    await rig.settle()
    assert [twin.text("r1") for twin in twins] == ["answer to slow words "] * 2


async def test_a_waiting_client_is_told_though_its_old_socket_closes_late(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    rig.agent.lane("")._hold(0.05)
    await one.ask("r1", [user("u1", "hello")])
    old, new = await rig.connect("two"), await rig.connect("two")
    await old.close()
    await rig.settle(0.08)
    assert new.of("stream_resuming") == [{"type": "cf_agent_stream_resuming", "id": "r1"}]


@pytest.mark.parametrize("given", ["a\r\nb: c", "é☃", "with blanks", "plain-1", "100%"])
async def test_a_request_id_is_no_header_line(host: Any, given: str) -> None:
    rig = await started(host)
    body = json.dumps({"message": "hello", "requestId": given}).encode()
    request = HttpRequest("POST", "http://x/agents/talker/room/chat", {}, body)
    response = await rig.agent.handle_request(request)
    shown = response.headers["x-request-id"]
    assert shown.isascii()
    assert shown.isprintable()
    if given in ("with blanks", "plain-1"):
        assert shown == given
    await rig.settle()
    assert (await rig.http("GET", f"chat/{quote(given, safe='')}/stream"))[0] == 200


@pytest.mark.parametrize("given", [{"a": 1}, 5, "x" * 300, "\ud800"])
async def test_a_request_id_that_is_none_is_refused(host: Any, given: Any) -> None:
    rig = await started(host)
    status, answer = await rig.http("POST", "chat", {"message": "hello", "requestId": given})
    assert (status, "requestId" in answer["error"]["message"]) == (400, True)
    assert await rig.shown() == []


async def test_head_is_get_without_a_body(host: Any) -> None:
    rig = await started(host)
    for path in ("get-messages", "messages", "export", "search?q=x", "sessions", "status"):
        request = HttpRequest("HEAD", f"http://x/agents/talker/room/{path}")
        response = await rig.agent.handle_request(request)
        assert (response.status, response.body) == (200, b""), path
    for method, path, allow in [
        ("DELETE", "messages", "GET, HEAD"),
        ("PATCH", "sessions", "GET, HEAD, POST"),
        ("GET", "chat", "POST"),
        ("POST", "status", "GET, HEAD"),
    ]:
        request = HttpRequest(method, f"http://x/agents/talker/room/{path}")
        response = await rig.agent.handle_request(request)
        assert (response.status, response.headers["allow"]) == (405, allow)


@pytest.mark.parametrize(
    "body",
    [
        [{"role": "user", "parts": 5}],
        [{"role": "user", "toolInvocations": 5}],
        [{"role": "user", "toolInvocations": [], "experimental_attachments": 5}],
        [{"role": "assistant", "tool_calls": 5}],
        {"type": "message", "message": user("u1", "x"), "createdAt": 10**17},
    ],
)
async def test_what_is_no_conversation_is_refused_by_import(host: Any, body: Any) -> None:
    rig = await started(host)
    assert (await rig.http("POST", "import", body))[0] == 400
    assert await rig.shown() == []


async def test_a_refused_import_has_imported_nothing(host: Any) -> None:
    rig = await started(host)
    lines = [
        {"type": "session", "activeLeafId": "\ud800"},
        {"type": "message", "message": user("u1", "x"), "parentId": None},
    ]
    body = "\n".join(map(json.dumps, lines)).encode()
    assert (await rig.http("POST", "import", body))[0] == 400
    assert await rig.shown() == []


@pytest.mark.parametrize("session", ["s" * 1_025, "%00", "a%00b"])
async def test_a_session_that_cannot_be_is_refused_for_good(host: Any, session: str) -> None:
    rig = await started(host)
    url = f"http://x/agents/talker/room?session={session}"
    response = await rig.agent.handle_request(HttpRequest("GET", url, {"upgrade": "websocket"}))
    assert response.upgrade.closed[0] == 4400
    request = HttpRequest("GET", url.replace("room?", "room/messages?"))
    assert (await rig.agent.handle_request(request)).status == 400


async def test_answering_a_stream_twice_is_one_answer(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "slow words")])
    await rig.until(lambda: one.text("r1"))
    two = await rig.connect("two")
    await asyncio.gather(two.send(ACK), two.send(ACK), two.send(ACK))
    rig.agent.gate.set()
    await rig.settle()
    assert two.text("r1") == "answer to slow words "


async def test_cancelling_work_over_http_leaves_nothing_half_done(host: Any) -> None:
    class Worker(Talker):
        async def long(self, fiber: Any) -> None: ...

        async def fail(self, payload: Any) -> None:
            raise RuntimeError("failed")

    rig = await started(host, Worker)
    agent = rig.agent
    await (await rig.connect("one", "away")).ask("r1", [user("u1", "hello")])
    await rig.settle()
    await rig.http("DELETE", "sessions/away")
    agent.start_fiber("long", id="f")
    agent.schedule(1_000, "fail", id="s")
    _, memory = await rig.http("GET", "memory")
    ids = {job["id"] for job in memory["schedules"]}
    assert {"chat:sweep", "chat:delete:away", "fiber:f", "schedule:s"} <= ids
    statuses = {
        identifier: (await rig.http("DELETE", f"schedules/{quote(identifier, safe='')}"))[0]
        for identifier in ids
    }
    assert statuses.pop("chat:sweep") == 409
    assert set(statuses.values()) == {200}
    fiber = agent.get_fiber("f")
    assert fiber is not None
    assert fiber.status == "aborted"
    _, listed = await rig.http("GET", "sessions")
    assert "away" in [session["id"] for session in listed["sessions"]]
    assert (await rig.http("DELETE", "schedules/schedule%3As"))[0] == 404
