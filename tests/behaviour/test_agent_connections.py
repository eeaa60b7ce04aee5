"""Connections: ids, tags, attachments, readonly and no-protocol clients, broadcasts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from actors import connect, frames, restarted, send, started

from palimpsest.actor.agent import Agent
from palimpsest.actor.connections import Connection
from palimpsest.errors import ConnectionStateError, LimitError
from palimpsest.hosts.interface import MAX_SOCKET_MESSAGE_BYTES, HttpRequest


class Room(Agent):
    """Tags connections by the query's ``tag``, and obeys ``readonly`` and ``quiet`` in it."""

    def connection_tags(self, request: HttpRequest) -> Sequence[str]:
        return [tag for tag in request.url.partition("tag=")[2].split(",") if tag]

    def connection_readonly(self, request: HttpRequest) -> bool:
        return "readonly" in request.url

    def connection_protocol(self, request: HttpRequest) -> bool:
        return "quiet" not in request.url


async def test_the_id_is_the_clients_and_stays(host: Any) -> None:
    agent = await started(host, Room)
    await connect(agent, "_pk=abc&tag=a,b")
    (connection,) = list(agent.connections)
    assert (connection.id, connection.tags) == ("abc", ["a", "b"])
    agent = await restarted(agent)
    (connection,) = list(agent.connections)
    assert (connection.id, connection.tags, connection.query["_pk"]) == ("abc", ["a", "b"], "abc")


async def test_an_id_that_cannot_be_a_tag_is_replaced(host: Any) -> None:
    agent = await started(host, Room)
    for query in ("", "_pk=", "_pk=" + "x" * 253):
        socket = await connect(agent, query)
        assert len(Connection(socket).id) == 36


async def test_several_sockets_may_share_one_id(host: Any) -> None:
    agent = await started(host, Room)
    first = await connect(agent, "_pk=same")
    await host.advance(1)
    second = await connect(agent, "_pk=same")
    assert len(agent.connections) == 2
    newest = agent.connections.get("same")
    assert newest is not None
    assert newest.socket == second
    agent.broadcast("hello", exclude=["same"])
    agent.broadcast("to the second", exclude=[Connection(first)])
    assert [socket.sent[-1] == "to the second" for socket in (first, second)] == [False, True]
    assert "hello" not in first.sent + second.sent
    assert agent.connections.get("nobody") is None


async def test_a_tag_equal_to_another_clients_id_is_not_that_client(host: Any) -> None:
    agent = await started(host, Room)
    await connect(agent, "_pk=mallory&tag=alice")
    assert agent.connections.get("alice") is None


async def test_an_id_equal_to_a_tag_does_not_carry_that_tag(host: Any) -> None:
    agent = await started(host, Room)
    mallory = await connect(agent, "_pk=admins")
    other = await connect(agent, "_pk=~session=admins")
    alice = await connect(agent, "_pk=alice&tag=admins")
    assert [connection.id for connection in agent.connections.with_tag("admins")] == ["alice"]
    assert agent.broadcast("for admins only", tag="admins") == 1
    assert "for admins only" in alice.sent
    assert "for admins only" not in mallory.sent + other.sent
    assert agent.connections.of_session("admins") == []


async def test_a_session_named_like_another_ones_hash_is_another_session(host: Any) -> None:
    agent = await started(host, Room)
    long = "x" * 300
    await connect(agent, f"_pk=long&session={long}")
    mark = "sha256=" + hashlib.sha256(long.encode()).hexdigest()
    await connect(agent, f"_pk=spy&session={mark}")
    assert [connection.id for connection in agent.connections.of_session(long)] == ["long"]
    assert [connection.id for connection in agent.connections.of_session(mark)] == ["spy"]


async def test_user_state_and_the_librarys_part_do_not_touch(host: Any) -> None:
    agent = await started(host, Room)
    socket = await connect(agent, "_pk=a&readonly")
    connection = Connection(socket)
    assert connection.state is None
    connection.set_state({"url": "mine", "readonly": False, "library": 1})
    connection.set_internal("chat", {"pending": "s1"})
    agent = await restarted(agent)
    (connection,) = list(agent.connections)
    assert connection.state == {"url": "mine", "readonly": False, "library": 1}
    assert connection.get_internal("chat") == {"pending": "s1"}
    assert connection.readonly
    assert connection.url.endswith("?_pk=a&readonly")
    connection.set_internal("chat", None)
    assert connection.get_internal("chat") is None
    connection.set_readonly(False)
    assert not Connection(socket).readonly


async def test_state_that_does_not_fit_is_refused_and_the_old_one_stays(host: Any) -> None:
    agent = await started(host, Room)
    connection = Connection(await connect(agent))
    connection.set_state("small")
    with pytest.raises(ConnectionStateError, match="16384 bytes"):
        connection.set_state("x" * 17_000)
    assert connection.state == "small"
    assert Connection(connection.socket).state == "small"


async def test_quiet_connections_get_no_protocol_frames(host: Any) -> None:
    agent = await started(host, Room)
    quiet = await connect(agent, "quiet")
    normal = await connect(agent)
    agent.set_state({"n": 1})
    await send(agent, quiet, {"type": "cf_agent_state", "state": {"n": 2}})
    agent.broadcast("for all")
    assert quiet.sent == ["for all"]
    assert not Connection(quiet).protocol_enabled
    assert frames_until_text(normal)[-1]["state"] == {"n": 2}


def frames_until_text(socket: Any) -> list[Any]:
    """The frames before the plain text."""
    import json

    return [json.loads(text) for text in socket.sent if text != "for all"]


async def test_broadcast_by_tag_session_and_condition(host: Any) -> None:
    agent = await started(host, Room)
    red = await connect(agent, "session=work&tag=red")
    blue = await connect(agent, "session=" + "long" * 100 + "&tag=blue")
    plain = await connect(agent, "quiet&session=work")
    connections = agent.connections
    assert connections.broadcast("red", tag="red") == 1
    assert connections.broadcast("work", session="work") == 1
    assert connections.broadcast("long", session="long" * 100) == 1
    assert connections.broadcast("rest", where=lambda c: c.session_id == "work") == 2
    assert connections.broadcast(b"\x00\x01", protocol_only=True) == 2
    assert [text for text in red.sent if not str(text).startswith("{")] == [
        "red",
        "work",
        "rest",
        b"\x00\x01",
    ]
    assert [text for text in blue.sent if not str(text).startswith("{")] == ["long", b"\x00\x01"]
    assert plain.sent == ["rest"]
    assert [c.session_id for c in connections] == ["work", "long" * 100, "work"]


async def test_closed_connections_are_not_listed_and_not_sent_to(host: Any) -> None:
    agent = await started(host, Room)
    socket = await connect(agent)
    Connection(socket).close(4000, "enough")
    assert (len(agent.connections), list(agent.connections)) == (0, [])
    assert agent.broadcast("x") == 0
    Connection(socket).send("x")
    assert "x" not in socket.sent


@pytest.mark.parametrize("query", ["tag=" + ",".join("abcdefghi"), "tag=" + "x" * 257, "tag=~own"])
async def test_bad_tags_are_refused(host: Any, query: str) -> None:
    agent = await started(host, Room)
    answer = await agent.handle_request(
        HttpRequest("GET", f"https://h/a/b?{query}", {"upgrade": "websocket"})
    )
    assert answer.upgrade.closed == (1011, "the connection could not be set up")
    assert agent.events.last_errors()[-1]["error"] == "LimitError"
    assert len(agent.connections) == 0


async def test_an_address_that_cannot_be_kept_is_refused_for_good(host: Any) -> None:
    agent = await started(host, Room)
    request = HttpRequest("GET", f"https://h/a/b?x={'y' * 17_000}", {"upgrade": "websocket"})
    answer = await agent.handle_request(request)
    assert answer.upgrade.closed[0] == 4414
    await connect(agent, f"x={'y' * 8_000}")
    assert len(agent.connections) == 1


async def test_messages_up_to_the_platforms_limit_and_no_further(host: Any) -> None:
    agent = await started(host, Room)
    connection = Connection(await connect(agent))
    with pytest.raises(LimitError, match="33554432"):
        connection.send("x" * (MAX_SOCKET_MESSAGE_BYTES + 1))
    with pytest.raises(LimitError, match="33554432"):
        agent.broadcast("x" * (MAX_SOCKET_MESSAGE_BYTES + 1))
    connection.send("x" * 1_000_000)
    assert len(connection.socket.sent[-1]) == 1_000_000  # type: ignore[attr-defined]


async def test_an_idle_ping_is_answered_by_the_platform(host: Any) -> None:
    await connect(await started(host, Room))
    assert host.auto_responses == {"ping": "pong"}


async def test_a_connection_is_greeted_in_order(host: Any) -> None:
    agent = await started(host, Room)
    agent.set_state({"n": 1})
    socket = await connect(agent)
    assert frames(socket) == [
        {
            "type": "cf_agent_identity",
            "name": "behaviour",
            "agent": "room",
            "stateFollows": True,
        },
        {"type": "cf_agent_state", "state": {"n": 1}},
        {
            "type": "cf_agent_mcp_servers",
            "mcp": {"servers": {}, "tools": [], "prompts": [], "resources": []},
        },
    ]


async def test_without_state_no_state_is_promised(host: Any) -> None:
    agent = await started(host, Room)
    first, second = frames(await connect(agent))
    assert first == {"type": "cf_agent_identity", "name": "behaviour", "agent": "room"}
    assert second["type"] == "cf_agent_mcp_servers"


async def test_identity_can_be_withheld(host: Any) -> None:
    class Anonymous(Room):
        send_identity = False

    agent = await started(host, Anonymous)
    assert [frame["type"] for frame in frames(await connect(agent))] == ["cf_agent_mcp_servers"]
