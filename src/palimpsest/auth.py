"""Who may reach which agent: signed tokens, the origins of pages, and what each request may do.

A token is two base64url parts joined by a dot: the JSON of a :class:`Grant` and its HMAC-SHA256
under the deployment's secret. It is read from the ``Authorization: Bearer`` header or, for
WebSockets opened by a browser, from the query parameter ``token``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.errors import ForbiddenError, UnauthenticatedError

SECRET_VARIABLE = "PALIMPSEST_AUTH_SECRET"
"""The secret whose presence turns authentication on."""

ORIGINS_VARIABLE = "PALIMPSEST_ALLOWED_ORIGINS"
"""Origins of pages that may connect, separated by commas or spaces."""

MIN_SECRET_BYTES = 16
"""The shortest secret that is accepted."""

MAX_TOKEN_LENGTH = 4096
"""The longest token that is looked at, in characters."""

MAX_LIFETIME_SECONDS = 366 * 24 * 3600
"""The longest time a token may be made for."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What the holder of a token may do.

    ``agents`` and ``names`` are patterns (``*`` matches anything, all else itself); ``expires`` is
    in seconds since 1970. A read-only grant may watch and search, not write.
    """

    subject: str
    expires: int
    agents: tuple[str, ...] = ("*",)
    names: tuple[str, ...] = ("*",)
    readonly: bool = False

    def allows(self, agent: str, name: str) -> bool:
        """Whether the grant reaches this agent (in kebab case) and object name."""
        return any(_matches(agent, pattern) for pattern in self.agents) and any(
            _matches(name, pattern) for pattern in self.names
        )


def sign_token(secret: str, grant: Grant) -> str:
    """The token of a grant.

    :raises ValueError: the secret is shorter than 16 bytes.
    """
    payload = _encode(json.dumps(asdict(grant), separators=(",", ":")).encode())
    return f"{payload}.{_encode(_signature(secret, payload))}"


def make_token(
    secret: str,
    subject: str,
    *,
    now: int,
    lifetime: int,
    agents: Collection[str] = ("*",),
    names: Collection[str] = ("*",),
    readonly: bool = False,
) -> str:
    """A token for ``subject`` from ``now`` (ms since 1970) for ``lifetime`` seconds.

    :raises ValueError: the secret is too short, or the lifetime is not 1 second to 366 days.
    """
    if not 1 <= lifetime <= MAX_LIFETIME_SECONDS:
        raise ValueError(f"a token lives 1 to {MAX_LIFETIME_SECONDS} seconds, got {lifetime}")
    expires = now // 1000 + lifetime
    return sign_token(secret, Grant(subject, expires, tuple(agents), tuple(names), readonly))


def verify_token(secret: str, token: str, *, now: int) -> Grant:
    """The grant of a token.

    :param now: ms since 1970.
    :raises UnauthenticatedError: malformed, signed with another secret, or expired.
    """
    if len(token) > MAX_TOKEN_LENGTH:
        raise UnauthenticatedError("the token is too long")
    payload, _, signature = token.partition(".")
    if not hmac.compare_digest(
        _encode(_signature(secret, payload)).encode(), signature.encode(errors="replace")
    ):
        raise UnauthenticatedError("the token's signature is not valid")
    try:
        fields: dict[str, Any] = json.loads(_decode(payload))
        grant = Grant(
            subject=str(fields["subject"]),
            expires=int(fields["expires"]),
            agents=tuple(str(pattern) for pattern in fields["agents"]),
            names=tuple(str(pattern) for pattern in fields["names"]),
            readonly=fields["readonly"] is True,
        )
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise UnauthenticatedError("the token's content is not valid") from error
    if grant.expires * 1000 <= now:
        raise UnauthenticatedError("the token has expired")
    return grant


@dataclass(frozen=True, slots=True)
class Authorizer:
    """Checks requests against a secret and a list of origins.

    :param secret: at least 16 bytes.
    :param origins: pages' origins that may connect; empty allows the agent's own origin only.
    """

    secret: str = field(repr=False)
    origins: frozenset[str] = frozenset()

    def check(
        self, url: str, headers: Mapping[str, str], *, agent: str, name: str, now: int
    ) -> Grant:
        """The grant under which a request may go on.

        :param headers: lower-case names.
        :param now: ms since 1970.
        :raises UnauthenticatedError: no valid token came with the request.
        :raises ForbiddenError: the token does not reach this agent, or the page's origin is
            not allowed.
        """
        check_origin(url, headers, self.origins)
        token = token_of(url, headers)
        if token is None:
            raise UnauthenticatedError("a token is required")
        grant = verify_token(self.secret, token, now=now)
        if not grant.allows(agent, name):
            raise ForbiddenError("the token does not allow this agent")
        return grant


def authorizer_from(environment: Mapping[str, Any]) -> Authorizer | None:
    """The authorizer that the deployment's variables ask for; None where no secret is set.

    :raises ValueError: the secret is shorter than 16 bytes.
    """
    secret = environment.get(SECRET_VARIABLE)
    if not isinstance(secret, str) or not secret:
        return None
    _check_secret(secret)
    listed = str(environment.get(ORIGINS_VARIABLE) or "")
    return Authorizer(secret, frozenset(listed.replace(",", " ").split()))


def check_origin(url: str, headers: Mapping[str, str], allowed: Collection[str]) -> None:
    """Refuse a browser's request from a page that is neither ours nor listed.

    A request without ``Origin`` comes from no page; its token decides alone.

    :raises ForbiddenError: the origin is not allowed.
    """
    origin = headers.get("origin")
    if origin is None or origin in allowed:
        return
    target = urlsplit(url)
    try:
        page = urlsplit(origin)
    except ValueError:
        raise ForbiddenError("the origin cannot be read") from None
    same_scheme = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
    if page.netloc == target.netloc and same_scheme.get(target.scheme) == page.scheme:
        return
    raise ForbiddenError("pages of this origin may not connect")


def token_of(url: str, headers: Mapping[str, str]) -> str | None:
    """The token that came with a request, or None."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    found = parse_qs(urlsplit(url).query).get("token")
    return found[0] if found else None


def _matches(text: str, pattern: str) -> bool:
    """Whether a pattern, in which only ``*`` is special, is the whole text."""
    return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))


def _check_secret(secret: str) -> None:
    if len(secret.encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"the secret needs at least {MIN_SECRET_BYTES} bytes")


def _signature(secret: str, payload: str) -> bytes:
    _check_secret(secret)
    return hmac.new(secret.encode(), payload.encode(errors="replace"), hashlib.sha256).digest()


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
