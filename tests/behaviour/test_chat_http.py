"""The chat over plain HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

from chat_rig import started, user

from palimpsest.hosts.interface import HttpRequest
from palimpsest.session.exchange import FORMAT_VERSION


def events(text: str) -> list[Any]:
    """The data of server-sent events; the last is ``[DONE]``."""
    data = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(item) if item.startswith("{") else item for item in data]


async def test_a_turn_over_http_is_a_ui_message_stream(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    status, text = await rig.http("POST", "chat", {"messages": [user("u1", "hello")]})
    assert status == 200
    *chunks, last = events(text)
    assert last == "[DONE]"
    assert chunks[0]["type"] == "start"
    assert "".join(chunk.get("delta", "") for chunk in chunks) == "answer to hello "
    assert one.done(one.of("use_chat_response")[0]["id"]), "tabs see it, too"
    _, text = await rig.http("POST", "chat", {"message": "from curl", "requestId": "mine"})
    assert "answer to from curl" in "".join(chunk.get("delta", "") for chunk in events(text)[:-1])
    assert rig.agent.turns.get("", "mine").status == "completed"


async def test_an_error_and_a_stop_are_told_in_the_stream(host: Any) -> None:
    rig = await started(host)
    _, text = await rig.http("POST", "chat", {"message": "fail now"})
    assert events(text)[-2] == {"type": "error", "errorText": "the model is tired"}
    asked = asyncio.ensure_future(rig.http("POST", "chat", {"message": "slow one"}))
    await rig.until(lambda: rig.agent.lane("").active is not None)
    await rig.until(lambda: rig.agent.lane("").active.live.count > 4)
    assert await rig.http("POST", "chat/cancel", {}) == (200, {"cancelled": True})
    _, text = await asked
    assert events(text)[-2] == {"type": "abort"}
    assert await rig.http("POST", "chat/cancel", {}) == (200, {"cancelled": False})


async def test_leaving_the_response_does_not_stop_the_turn(host: Any) -> None:
    rig = await started(host)
    body = json.dumps({"message": "slow one", "requestId": "r1"}).encode()
    request = HttpRequest("POST", "http://x/agents/talker/room/chat", {}, body)
    response = await rig.agent.handle_request(request)
    stream: Any = response.body
    assert b"start" in await anext(stream)
    await stream.aclose()
    rig.agent.gate.set()
    await rig.settle()
    assert (await rig.shown())[-1] == "assistant: answer to slow one"
    status, text = await rig.http("GET", "chat/r1/stream")
    assert status == 200
    assert events(text)[-1] == "[DONE]"
    assert (await rig.http("GET", "chat/stream"))[0] == 204


async def test_what_cannot_be_answered_is_refused_clearly(host: Any) -> None:
    rig = await started(host)
    for body, status in (
        (b"{", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"messages":[{"id":"u1","role":"user"}]}', 400),
        (b'{"messages":[]}', 400),
        (b'{"messages":[{"id":"compaction_1","role":"user","parts":[]}]}', 400),
        (b'{"messages":[],"trigger":"x"}', 400),
    ):
        found, answer = await rig.http("POST", "chat", body)
        assert (found, "message" in answer["error"]) == (status, True), body
    assert (await rig.http("DELETE", "chat"))[0] == 405
    assert (await rig.http("GET", "messages?limit=0"))[0] == 400
    assert (await rig.http("GET", "messages?limit=x"))[0] == 400
    assert (await rig.http("GET", "messages/never"))[0] == 404
    assert (await rig.http("GET", "branches?message=never"))[0] == 404
    assert (await rig.http("POST", "branches/switch", {"messageId": "never"}))[0] == 404
    assert (await rig.http("POST", "branches/switch", {}))[0] == 400
    assert (await rig.http("DELETE", "sessions/never"))[0] == 404
    assert (await rig.http("PUT", "context/never", {"content": "x"}))[0] == 404
    assert (await rig.http("DELETE", "overlays/never"))[0] == 404
    assert (await rig.http("DELETE", "schedules/never"))[0] == 404
    assert (await rig.http("GET", "search?q=x&scope=y"))[0] == 400
    assert (await rig.http("GET", "nothing"))[0] == 404
    assert await rig.shown() == []


async def test_pages_go_back_through_the_conversation(host: Any) -> None:
    rig = await started(host)
    for number in range(5):
        await rig.http("POST", "chat", {"message": f"m{number}"})
    _, newest = await rig.http("GET", "messages?limit=4")
    assert newest["hasMore"] is True
    assert len(newest["messages"]) == 4
    first = newest["messages"][0]["id"]
    _, older = await rig.http("GET", f"messages?limit=100&before={first}")
    assert older["hasMore"] is False
    _, whole = await rig.http("GET", "get-messages")
    assert [*older["messages"], *newest["messages"]] == whole
    _, one = await rig.http("GET", f"messages/{first}")
    assert one["message"]["id"] == first
    assert one["onActivePath"] is True
    assert one["leafId"] == whole[-1]["id"]


async def test_a_new_answer_is_a_branch_and_the_old_one_stays(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    old = one.chunks("r1")[0]["messageId"]
    await one.ask("r2", [user("u1", "hello")], trigger="regenerate-message")
    await rig.settle()
    new = one.chunks("r2")[0]["messageId"]
    assert new != old
    _, branches = await rig.http("GET", "branches")
    assert branches == {"branches": {new: {"index": 1, "total": 2, "siblings": [old, new]}}}
    _, siblings = await rig.http("GET", f"branches?message={old}")
    assert [entry["id"] for entry in siblings["siblings"]] == [old, new]
    assert siblings["index"] == 0
    one.forget()
    assert await rig.http("POST", "branches/switch", {"messageId": old}) == (200, {"leafId": old})
    assert [message["id"] for message in one.of("chat_messages")[0]["messages"]] == ["u1", old]
    await one.ask("r3", [*one.of("chat_messages")[0]["messages"], user("u2", "on")])
    await rig.settle()
    assert await rig.shown() == [
        "user: hello",
        "assistant: answer to hello",
        "user: on",
        "assistant: answer to on",
    ]
    assert rig.agent.turns_seen[-1].leaf_id == "u2"
    _, whole = await rig.http("GET", "get-messages")
    assert whole[1]["id"] == old


async def test_an_edited_message_is_a_branch(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    await one.ask("r2", [user("u1", "hello, edited")])
    await rig.settle()
    assert await rig.shown() == ["user: hello, edited", "assistant: answer to hello, edited"]
    _, siblings = await rig.http("GET", "branches?message=u1")
    assert [entry["preview"] for entry in siblings["siblings"]] == ["hello", "hello, edited"]
    shown = one.of("chat_messages")[-1]["messages"]
    assert shown[0]["id"] != "u1", "the one who asked learns the new id"


async def test_export_and_import_keep_branches_times_and_summaries(host: Any) -> None:
    rig = await started(host)
    one = await rig.connect("one")
    await one.ask("r1", [user("u1", "hello")])
    await rig.settle()
    await one.ask("r2", [user("u1", "hello")], trigger="regenerate-message")
    await rig.settle()
    leaf = one.chunks("r2")[0]["messageId"]
    await rig.agent.session("").add_compaction("they greeted", "u1", leaf)
    _, text = await rig.http("GET", "export")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["type"] for line in lines] == [
        "session",
        "message",
        "message",
        "message",
        "compaction",
    ]
    head = lines[0]
    assert (head["version"], head["name"], head["activeLeafId"]) == (FORMAT_VERSION, "hello", leaf)
    status, result = await rig.http("POST", "import", text.encode(), session="copy")
    assert (status, result) == (200, {"imported": 3, "skipped": 0})
    _, again = await rig.http("POST", "import", text.encode(), session="copy")
    assert again["imported"] == 0
    assert await rig.shown("copy") == await rig.shown()
    _, exported = await rig.http("GET", "export", session="copy")
    copied = [json.loads(line) for line in exported.splitlines()]
    assert [line for line in copied if line["type"] == "message"] == [
        line for line in lines if line["type"] == "message"
    ]
    (overlay,) = [line for line in copied if line["type"] == "compaction"]
    assert overlay["summary"] == "they greeted"


async def test_an_imported_session_is_listed_under_a_name(host: Any) -> None:
    rig = await started(host)
    head = {"type": "session", "name": "Trip to Oslo"}
    lines = [json.dumps(head), json.dumps(user("u1", "When do we fly?"))]
    await rig.http("POST", "import", "\n".join(lines).encode(), session="named")
    await rig.http("POST", "import", json.dumps([user("u2", "A first question")]).encode())
    _, listed = await rig.http("GET", "sessions")
    names = {session["id"]: session["name"] for session in listed["sessions"]}
    assert names == {"named": "Trip to Oslo", "": "A first question"}


async def test_a_bad_import_changes_nothing(host: Any) -> None:
    rig = await started(host)
    good = json.dumps(user("u1", "x"))
    for body in (
        b"{",
        b"\xff",
        f"{good}\n[]".encode(),
        f'{good}\n{{"id":"u2"}}'.encode(),
        f'[{good},{{"id":"compaction_1","role":"user","parts":[]}}]'.encode(),
        f'{good}\n{{"type":"message","parentId":"nobody","message":{good[:-1]}}}}}'.encode(),
        f'{good}\n{{"type":"compaction","summary":"s","fromMessageId":"u1"}}'.encode(),
    ):
        status, _ = await rig.http("POST", "import", body)
        assert status == 400, body
        assert await rig.shown() == []


async def test_search_marks_hits_and_names_sessions(host: Any) -> None:
    rig = await started(host)
    await rig.http("POST", "chat", {"message": "the walrus sleeps"}, session="sea")
    await rig.http("POST", "chat", {"message": "nothing of that kind"})
    _, found = await rig.http("GET", "search?q=where%20is%20the%20walrus&limit=5")
    top = found["results"][0]
    assert top["sessionId"] == "sea"
    assert top["sessionName"] == "the walrus sleeps"
    assert "\ue000walrus\ue001" in top["snippet"]
    _, here = await rig.http("GET", "search?q=walrus&scope=session")
    assert here == {"results": []}
    assert (await rig.http("GET", "search?q="))[1] == {"results": []}


async def test_sessions_are_made_renamed_forked_deleted_and_restored(host: Any) -> None:
    rig = await started(host)
    status, made = await rig.http("POST", "sessions", {"id": "s1", "name": "Plans"})
    assert (status, made["id"], made["name"]) == (201, "s1", "Plans")
    assert (await rig.http("POST", "sessions", {"id": "s1", "name": "Plans"}))[0] == 409
    await rig.http("POST", "chat", {"message": "hello"}, session="s1")
    status, renamed = await rig.http("PATCH", "sessions/s1", {"name": "Big plans"})
    assert (status, renamed["name"]) == (200, "Big plans")
    status, forked = await rig.http("POST", "sessions/s1/fork", {})
    assert status == 201
    assert forked["parentSessionId"] == "s1"
    assert await rig.shown(forked["id"]) == ["user: hello", "assistant: answer to hello"]
    status, deleted = await rig.http("DELETE", "sessions/s1")
    assert status == 200
    assert "s1" not in await _ids(rig)
    status, restored = await rig.http("POST", "sessions/restore", {"id": deleted["undoToken"]})
    assert (status, restored["name"]) == (200, "Big plans")
    assert "s1" in await _ids(rig)
    await rig.http("DELETE", "sessions/s1")
    await rig.host.advance(31)
    await rig.settle()
    assert await rig.shown("s1") == []
    assert (await rig.http("POST", "sessions/restore", {"id": "s1"}))[0] == 404
    assert await rig.shown(forked["id"]) == ["user: hello", "assistant: answer to hello"]


async def _ids(rig: Any) -> list[str]:
    _, listed = await rig.http("GET", "sessions")
    return [session["id"] for session in listed["sessions"]]


async def test_a_session_that_is_spoken_in_is_not_deleted(host: Any) -> None:
    rig = await started(host)
    await rig.http("POST", "chat", {"message": "hello"}, session="s1")
    await rig.http("DELETE", "sessions/s1")
    await rig.http("POST", "chat", {"message": "wait"}, session="s1")
    await rig.host.advance(60)
    await rig.settle()
    assert len(await rig.shown("s1")) == 4
    assert "s1" in await _ids(rig)


async def test_an_agent_named_like_an_endpoint_is_still_an_agent(host: Any) -> None:
    rig = await started(host)
    for name in ("search", "messages", "memory"):
        request = HttpRequest("GET", f"http://x/agents/talker/{name}")
        assert (await rig.agent.handle_request(request)).status == 404
    request = HttpRequest("GET", "http://x/anywhere/else/get-messages")
    assert (await rig.agent.handle_request(request)).status == 200


async def test_separators_that_only_unicode_knows_survive_export_and_import(host: Any) -> None:
    rig = await started(host)
    text = "one\u2028two\u2029three\x85four\x0bfive\x00six\r\nseven"
    await rig.http("POST", "chat", {"message": text})
    await rig.settle()
    _, exported = await rig.http("GET", "export")
    status, result = await rig.http("POST", "import", exported.encode(), session="copy")
    assert (status, result["imported"]) == (200, 2)
    _, (message, _answer) = await rig.http("GET", "get-messages", session="copy")
    assert message["parts"][0]["text"] == text


async def test_messages_that_are_no_array_are_refused(host: Any) -> None:
    rig = await started(host)
    for messages in ("x", {"a": 1}, 5, True):
        status, _ = await rig.http("POST", "chat", {"message": "hi", "messages": messages})
        assert status == 400, messages
    status, _ = await rig.http("POST", "chat", {"message": "hi", "messages": None})
    assert status == 200
    await rig.settle()


async def test_a_refused_fork_as_the_first_request_harms_nothing(host: Any) -> None:
    rig = await started(host)
    status, _ = await rig.http("POST", "sessions/fork", {"id": "", "messageId": "nobody"})
    assert status == 404
    assert (await rig.http("GET", "sessions"))[0] == 200
    assert (await rig.http("POST", "import", [user("u1", "x")]))[0] == 200
    assert await rig.shown() == ["user: x"]


async def test_odd_text_in_every_place_of_a_request_is_refused_by_words(host: Any) -> None:
    rig = await started(host)
    for odd in ("\ud800", "x" * 5000):
        for path, body in (
            ("sessions", {"name": odd}),
            ("sessions", {"id": odd, "name": "n"}),
            ("sessions/rename", {"id": "", "name": odd}),
            ("sessions/fork", {"id": odd, "messageId": odd}),
            ("sessions/delete", {"id": odd}),
            ("import", [user(odd, "x")]),
        ):
            status, answer = await rig.http("POST", path, body)
            assert status in (400, 404), (path, status)
            assert answer["error"]["message"]


async def test_a_session_with_the_longest_id_can_be_deleted(host: Any) -> None:
    rig = await started(host)
    longest = "é" * 1024
    await rig.http("POST", "sessions", {"id": longest, "name": "n"})
    assert (await rig.http("POST", "sessions/delete", {"id": longest}))[0] == 200
    await host.advance(31)
    _, listed = await rig.http("GET", "sessions")
    assert [entry["id"] for entry in listed["sessions"]] == [""]


async def test_numbers_too_long_to_read_are_refused(host: Any) -> None:
    rig = await started(host)
    assert (await rig.http("GET", f"messages?limit=000000000001{'9' * 5000}"))[0] == 400


async def test_sessions_are_listed_in_pages(host: Any) -> None:
    rig = await started(host)
    for number in range(5):
        await rig.http("POST", "sessions", {"id": f"s{number}", "name": f"n{number}"})
    seen: list[str] = []
    query = "sessions?limit=2"
    while True:
        status, page = await rig.http("GET", query)
        assert status == 200
        seen += [entry["id"] for entry in page["sessions"]]
        if page["next"] is None:
            break
        query = f"sessions?limit=2&after={quote(page['next'])}"
    assert seen == ["s4", "s3", "s2", "s1", "s0", ""]
    for wrong in ("limit=0", "limit=1001", "after=x", f"after={9**30}:"):
        assert (await rig.http("GET", f"sessions?{wrong}"))[0] == 400
