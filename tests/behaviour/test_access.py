"""Tokens at an agent's door, on every host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.auth import make_token
from palimpsest.hosts.interface import Host, HttpRequest, HttpResponse

SECRET = "a secret of enough bytes"
ORIGIN = "https://agents.example"


class Notes(Agent):
    initial_state = "empty"

    @callable_method
    def write(self, text: str) -> str:
        self.set_state(text)
        return text

    @callable_method
    def remember(self) -> None:
        self.queue("later")

    @callable_method(read_only=True)
    def look(self) -> str:
        return self.state

    def later(self) -> None: ...

    def on_request(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, b"served")


async def guarded(host: Any, **variables: str) -> Notes:
    host.environment = {"PALIMPSEST_AUTH_SECRET": SECRET, **variables}
    agent = Notes(host)
    await agent.handle_start()
    return agent


def token(host: Host, **options: Any) -> str:
    return make_token(SECRET, "ann", now=host.now(), lifetime=60, **options)


async def send(
    agent: Notes,
    *,
    query: str = "",
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    upgrade: bool = False,
) -> HttpResponse:
    url = f"{ORIGIN}/agents/notes/{agent.name}/page{query}"
    fields = {**(headers or {}), **({"upgrade": "websocket"} if upgrade else {})}
    return await agent.handle_request(HttpRequest(method, url, fields))


async def test_without_a_secret_everybody_is_let_in(host: Host) -> None:
    agent = Notes(host)
    await agent.handle_start()
    assert (await send(agent)).status == 200


async def test_request_needs_a_valid_token(host: Host) -> None:
    agent = await guarded(host)
    assert (await send(agent)).status == 401
    assert (await send(agent, query="?token=forged.token")).status == 401
    assert (await send(agent, query=f"?token={token(host)}")).status == 200
    bearer = {"authorization": f"Bearer {token(host)}"}
    assert (await send(agent, headers=bearer)).status == 200
    other = {"authorization": f"Bearer {token(host, names=['somebody-else'])}"}
    assert (await send(agent, headers=other)).status == 403
    other = {"authorization": f"Bearer {token(host, agents=['assistant'])}"}
    assert (await send(agent, headers=other)).status == 403


@pytest.mark.parametrize(
    ("query", "code"), [("", 4401), ("?token=x.y", 4401), ("?token={other}", 4403)]
)
async def test_refused_socket_is_closed_so_that_clients_stop(
    host: Host, query: str, code: int
) -> None:
    agent = await guarded(host)
    query = query.replace("{other}", token(host, names=["somebody-else"]))
    response = await send(agent, query=query, upgrade=True)
    assert response.status == 101
    assert response.upgrade.closed[0] == code
    assert response.upgrade.sent == []
    assert len(agent.connections) == 0


async def test_page_of_another_origin_is_refused_even_with_a_token(host: Host) -> None:
    agent = await guarded(host, PALIMPSEST_ALLOWED_ORIGINS="https://friend.example")
    query = f"?token={token(host)}"
    for origin, status in [
        (ORIGIN, 200),
        ("https://friend.example", 200),
        ("https://evil.example", 403),
    ]:
        assert (await send(agent, query=query, headers={"origin": origin})).status == status


async def test_read_only_token_may_watch_and_not_write(host: Host) -> None:
    agent = await guarded(host)
    query = f"?token={token(host, readonly=True)}"
    assert (await send(agent, query=query)).status == 200
    assert (await send(agent, query=query, method="POST")).status == 403
    response = await send(agent, query=query, upgrade=True)
    (connection,) = agent.connections
    assert connection.readonly
    await agent.handle_message(
        response.upgrade, '{"type": "rpc", "id": "1", "method": "write", "args": ["x"]}'
    )
    await agent.handle_message(response.upgrade, '{"type": "cf_agent_state", "state": "x"}')
    assert agent.state == "empty"


async def test_read_only_token_may_call_what_changes_nothing_and_nothing_else(host: Any) -> None:
    agent = await guarded(host)
    response = await send(agent, query=f"?token={token(host, readonly=True)}", upgrade=True)
    for method in ("remember", "look", "unknown"):
        frame = f'{{"type": "rpc", "id": "1", "method": "{method}", "args": []}}'
        await agent.handle_message(response.upgrade, frame)
    answers = [json.loads(text) for text in response.upgrade.sent if '"rpc"' in text]
    assert [answer["success"] for answer in answers] == [False, True, False]
    assert "read-only" in answers[0]["error"]
    assert agent.list_queue() == []
    full = await send(agent, query=f"?token={token(host)}", upgrade=True)
    await agent.handle_message(
        full.upgrade, '{"type": "rpc", "id": "1", "method": "remember", "args": []}'
    )
    assert len(agent.list_queue()) == 1


async def test_a_malformed_origin_or_token_is_a_refusal(host: Any) -> None:
    agent = await guarded(host)
    query = f"?token={token(host)}"
    for origin in ("null", "http://[", "", "javascript:", "https://agents.example@evil.example"):
        assert (await send(agent, query=query, headers={"origin": origin})).status == 403, origin
    for given in ("a.\ud800", ".", "", "=.=", "é.é", "a" * 5_000):
        assert (await send(agent, headers={"authorization": f"Bearer {given}"})).status == 401


async def test_token_never_appears_in_what_is_logged(host: Any) -> None:
    agent = await guarded(host)
    secret_token = token(host)
    await send(agent, query=f"?token={secret_token}", upgrade=True)
    await send(agent, query=f"?token={secret_token}x")
    logged = repr(host.logged)
    assert secret_token not in logged
    assert SECRET not in logged
