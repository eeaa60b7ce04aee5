"""Which agent a URL means, and the answers that need no agent: pure rules, no platform.

Addresses are ``/{prefix}/{agent}/{name}[/{rest}]``. The agent is a Durable Object binding's name in
kebab case, by the same rule as the npm clients use; the name is the raw path segment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from palimpsest.errors import PalimpsestError

MAX_NAME_BYTES = 1024
"""The longest object name that the platform hands back to the object itself."""

CORS_HEADERS: Mapping[str, str] = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, PUT, HEAD, OPTIONS, PATCH, DELETE",
    # Browsers do not count ``authorization`` among ``*``.
    "access-control-allow-headers": "*, authorization",
    "access-control-expose-headers": "x-request-id",
    "access-control-max-age": "86400",
}
"""What ``cors=True`` adds to every answer that is not a WebSocket."""


class RoutingError(PalimpsestError, ValueError):
    """The address belongs to agents, but names none: answered with status 400."""


@dataclass(frozen=True, slots=True)
class AgentRoute:
    """A parsed address."""

    agent: str
    """The agent's binding name in kebab case."""

    name: str
    """The object's name, exactly as in the path."""

    rest: str
    """What follows the name, without a leading slash; '' if nothing does."""


@dataclass(frozen=True, slots=True)
class Target:
    """The object that a request is for, as a Worker's own routing says."""

    binding: str
    """The Durable Object binding's name."""

    name: str
    """The object's name."""

    jurisdiction: str | None = None
    location_hint: str | None = None


def check_target(target: Target, bindings: list[str]) -> None:
    """Refuse a target that cannot exist.

    :raises RoutingError: no such binding, or a name that is empty or too long.
    """
    if target.binding not in bindings:
        raise RoutingError(f"unknown binding {target.binding!r:.100}")
    if not 0 < len(target.name.encode()) <= MAX_NAME_BYTES:
        raise RoutingError(f"an object's name has 1 to {MAX_NAME_BYTES} bytes")


@lru_cache(maxsize=256)
def kebab_case(name: str) -> str:
    """A class or binding name as it stands in a URL.

    ``MyAgent`` becomes ``my-agent``, ``MY_AGENT`` ``my-agent``, ``AIAgent`` ``a-i-agent``.
    """
    if name and name == name.upper() and name != name.lower():
        return name.lower().replace("_", "-")
    spaced = re.sub("[A-Z]", lambda capital: f"-{capital.group().lower()}", name)
    return spaced.removeprefix("-").replace("_", "-").removesuffix("-")


def parse_agent_path(url: str, *, prefix: str = "agents") -> AgentRoute | None:
    """The route that a URL or path names, or None where it is not under ``prefix``.

    :param prefix: may hold several segments (``api/agents``).
    :raises RoutingError: it is under the prefix, but has no agent, no name, or a name longer than
        :data:`MAX_NAME_BYTES`.
    """
    path = urlsplit(url).path
    head = "/" + prefix.strip("/") + "/"
    if not path.startswith(head):
        return None
    agent, _, after = path[len(head) :].partition("/")
    name, _, rest = after.partition("/")
    if not agent or not name:
        raise RoutingError(f"expected {head}{{agent}}/{{name}}")
    if len(name.encode()) > MAX_NAME_BYTES:
        raise RoutingError(f"an object's name is at most {MAX_NAME_BYTES} bytes")
    return AgentRoute(agent, name, rest)


def match_agent(agent: str, bindings: list[str]) -> str:
    """The binding whose name in kebab case is ``agent``.

    :raises RoutingError: there is none.
    """
    for binding in bindings:
        if kebab_case(binding) == agent:
            return binding
    known = ", ".join(sorted(kebab_case(binding) for binding in bindings)) or "none"
    raise RoutingError(f"unknown agent {agent!r:.100}; known agents: {known}")


def with_cors(headers: Mapping[str, str], cors: bool | Mapping[str, str]) -> dict[str, str]:
    """``headers`` with the cross-origin headers that ``cors`` asks for added.

    :param cors: True for :data:`CORS_HEADERS`, or the headers to use (credentials need an explicit
        origin), or False for none.
    """
    if cors is False:
        return dict(headers)
    added = CORS_HEADERS if cors is True else cors
    return {**headers, **{name.lower(): value for name, value in added.items()}}
