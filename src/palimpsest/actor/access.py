"""Tokens at an agent's door: on as soon as the deployment has a secret (see docs/security.md)."""

from __future__ import annotations

from palimpsest.actor.hooks import Reject
from palimpsest.auth import Authorizer, Grant, authorizer_from
from palimpsest.errors import ForbiddenError, UnauthenticatedError
from palimpsest.hosts.interface import Host, HttpRequest

UNAUTHENTICATED_CODE = 4401
"""Close code of a connection without a valid token; clients do not retry it."""

FORBIDDEN_CODE = 4403
"""Close code of a connection whose token or page does not reach the agent."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""What a read-only grant may send over plain HTTP."""


class Access:
    """Decides about the requests to one agent.

    :raises ValueError: the deployment's secret is too short to be one.
    """

    def __init__(self, host: Host, agent_name: str) -> None:
        self._host = host
        self._agent_name = agent_name
        self._authorizer: Authorizer | None = authorizer_from(host.environment)

    @property
    def is_on(self) -> bool:
        """Whether the deployment has a secret."""
        return self._authorizer is not None

    def check(self, request: HttpRequest) -> Grant | Reject | None:
        """The request's grant, a refusal, or None where the deployment has no secret."""
        if self._authorizer is None:
            return None
        try:
            grant = self._authorizer.check(
                request.url,
                request.headers,
                agent=self._agent_name,
                name=self._host.name,
                now=self._host.now(),
            )
        except UnauthenticatedError as error:
            return Reject(str(error), UNAUTHENTICATED_CODE, 401)
        except ForbiddenError as error:
            return Reject(str(error), FORBIDDEN_CODE, 403)
        upgrade = request.headers.get("upgrade", "").lower() == "websocket"
        if grant.readonly and not upgrade and request.method not in SAFE_METHODS:
            return Reject("the token is read-only", FORBIDDEN_CODE, 403)
        return grant
