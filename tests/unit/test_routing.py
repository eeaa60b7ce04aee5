"""Addresses of agents: the npm clients' kebab rule, paths, refusals, cross-origin headers."""

from __future__ import annotations

import pytest

from palimpsest.actor.routing import (
    AgentRoute,
    RoutingError,
    Target,
    check_target,
    kebab_case,
    match_agent,
    parse_agent_path,
    with_cors,
)


@pytest.mark.parametrize(
    ("name", "kebab"),
    [
        ("MyAgent", "my-agent"),
        ("myAgent", "my-agent"),
        ("MY_AGENT", "my-agent"),
        ("CHAT", "chat"),
        ("Agent2", "agent2"),
        ("my_agent", "my-agent"),
        ("AIAssistant", "a-i-assistant"),
        ("MCPAgent", "m-c-p-agent"),
        ("Chat_Agent", "chat--agent"),
        ("Foo_", "foo"),
        ("_Foo", "--foo"),
        ("a", "a"),
        ("A", "a"),
        ("", ""),
        ("2", "2"),
    ],
)
def test_kebab_case_is_the_clients(name: str, kebab: str) -> None:
    assert kebab_case(name) == kebab


@pytest.mark.parametrize(
    ("url", "route"),
    [
        ("https://h/agents/chat/room", AgentRoute("chat", "room", "")),
        ("https://h/agents/chat/room/get-messages?a=1", AgentRoute("chat", "room", "get-messages")),
        ("https://h/agents/chat/room/a/b%20c/", AgentRoute("chat", "room", "a/b%20c/")),
        ("https://h/agents/chat/r%C3%A9union%2F1", AgentRoute("chat", "r%C3%A9union%2F1", "")),
        ("/agents/chat/room?_pk=1#x", AgentRoute("chat", "room", "")),
        ("https://h/", None),
        ("https://h/agentsx/chat/room", None),
        ("https://h/other/agents/chat/room", None),
    ],
)
def test_paths(url: str, route: AgentRoute | None) -> None:
    assert parse_agent_path(url) == route


def test_a_prefix_may_have_several_segments() -> None:
    route = parse_agent_path("https://h/api/v1/agents/chat/room", prefix="api/v1/agents")
    assert route == AgentRoute("chat", "room", "")
    assert parse_agent_path("https://h/agents/chat/room", prefix="/api/v1/agents/") is None


@pytest.mark.parametrize("path", ["", "chat", "chat/", "/room", "//", f"chat/{'x' * 1025}"])
def test_addresses_that_name_no_object_are_refused(path: str) -> None:
    with pytest.raises(RoutingError):
        parse_agent_path(f"https://h/agents/{path}")


def test_an_unknown_agent_is_refused_with_the_known_ones() -> None:
    assert match_agent("my-agent", ["Other", "MyAgent"]) == "MyAgent"
    with pytest.raises(RoutingError, match="unknown agent 'nope'; known agents: my-agent, other"):
        match_agent("nope", ["Other", "MyAgent"])
    with pytest.raises(RoutingError, match="known agents: none"):
        match_agent("x", [])


def test_a_workers_own_target_must_exist() -> None:
    check_target(Target("Chat", "me"), ["Chat"])
    for target in (Target("Nope", "me"), Target("Chat", ""), Target("Chat", "é" * 600)):
        with pytest.raises(RoutingError):
            check_target(target, ["Chat"])


def test_cross_origin_headers() -> None:
    assert with_cors({"a": "1"}, False) == {"a": "1"}
    assert with_cors({"a": "1"}, True) == {
        "a": "1",
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET, POST, PUT, HEAD, OPTIONS, PATCH, DELETE",
        "access-control-allow-headers": "*, authorization",
        "access-control-expose-headers": "x-request-id",
        "access-control-max-age": "86400",
    }
    own = {"Access-Control-Allow-Origin": "https://a.example"}
    assert with_cors({}, own) == {"access-control-allow-origin": "https://a.example"}
