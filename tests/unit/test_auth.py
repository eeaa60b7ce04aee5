"""Signed tokens and origins."""

from __future__ import annotations

import base64
import json

import pytest

from palimpsest.auth import Authorizer, Grant, authorizer_from, make_token, sign_token, verify_token
from palimpsest.errors import ForbiddenError, UnauthenticatedError

SECRET = "a secret of enough bytes"
NOW = 1_800_000_000_000
URL = "https://chat.example/agents/assistant/ann"


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_token_gives_back_what_was_granted() -> None:
    token = make_token(
        SECRET, "ann", now=NOW, lifetime=60, agents=["assistant"], names=["ann-*"], readonly=True
    )
    grant = verify_token(SECRET, token, now=NOW)
    assert grant == Grant("ann", NOW // 1000 + 60, ("assistant",), ("ann-*",), readonly=True)
    assert grant.allows("assistant", "ann-1")
    assert not grant.allows("assistant", "bob-1")
    assert not grant.allows("other", "ann-1")


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [
        ("room[1]", "room[1]", True),
        ("room[1]", "room1", False),
        ("room?", "room?", True),
        ("room?", "room1", False),
        ("[!a]", "b", False),
        ("*", "", True),
        ("a*c", "abc", True),
        ("a*", "a\nb", True),
        ("a", "A", False),
    ],
)
def test_only_the_star_is_special_in_a_pattern(pattern: str, name: str, allowed: bool) -> None:
    assert Grant("ann", 1, names=(pattern,)).allows("assistant", name) is allowed


def test_token_ends_at_its_time() -> None:
    token = make_token(SECRET, "ann", now=NOW, lifetime=60)
    verify_token(SECRET, token, now=NOW + 59_999)
    with pytest.raises(UnauthenticatedError, match="expired"):
        verify_token(SECRET, token, now=NOW + 60_000)


def forged(**changes: object) -> str:
    payload, signature = make_token(SECRET, "ann", now=NOW, lifetime=60).split(".")
    fields = json.loads(base64.urlsafe_b64decode(payload + "==="))
    fields.update(changes)
    encoded = base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
    return f"{encoded}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "a.b",
        "no dot",
        "x" * 5000,
        "\ud800.x",
        forged(subject="bob"),
        forged(expires=NOW),
        sign_token("another secret of enough bytes", Grant("ann", NOW)),
        make_token(SECRET, "ann", now=NOW, lifetime=60) + "A",
    ],
)
def test_altered_token_is_refused(token: str) -> None:
    with pytest.raises(UnauthenticatedError):
        verify_token(SECRET, token, now=NOW)


def test_request_needs_a_token_in_header_or_query() -> None:
    authorizer = Authorizer(SECRET)
    token = make_token(SECRET, "ann", now=NOW, lifetime=60, names=["ann"])

    def check(url: str, headers: dict[str, str], name: str = "ann") -> Grant:
        return authorizer.check(url, headers, agent="assistant", name=name, now=NOW)

    assert check(URL, bearer(token)).subject == "ann"
    assert check(f"{URL}?_pk=1&token={token}", {}).subject == "ann"
    with pytest.raises(UnauthenticatedError, match="required"):
        check(URL, {})
    with pytest.raises(UnauthenticatedError, match="required"):
        check(URL, {"authorization": f"Basic {token}"})
    with pytest.raises(ForbiddenError, match="does not allow"):
        check(URL, bearer(token), name="bob")


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("https://chat.example", True),
        ("http://chat.example", False),
        ("https://chat.example:8443", False),
        ("https://listed.example", True),
        ("https://evil.example", False),
        ("null", False),
        ("https://chat.example.evil.example", False),
    ],
)
def test_page_origin_must_be_own_or_listed(origin: str, allowed: bool) -> None:
    authorizer = Authorizer(SECRET, frozenset({"https://listed.example"}))
    headers = bearer(make_token(SECRET, "ann", now=NOW, lifetime=60)) | {"origin": origin}
    if allowed:
        authorizer.check(URL, headers, agent="assistant", name="ann", now=NOW)
        return
    with pytest.raises(ForbiddenError, match="origin"):
        authorizer.check(URL, headers, agent="assistant", name="ann", now=NOW)


def test_authentication_is_on_as_soon_as_a_secret_is_set() -> None:
    assert authorizer_from({}) is None
    assert authorizer_from({"PALIMPSEST_AUTH_SECRET": ""}) is None
    on = authorizer_from(
        {"PALIMPSEST_AUTH_SECRET": SECRET, "PALIMPSEST_ALLOWED_ORIGINS": "https://a, https://b"}
    )
    assert on == Authorizer(SECRET, frozenset({"https://a", "https://b"}))
    with pytest.raises(ValueError, match="at least 16 bytes"):
        authorizer_from({"PALIMPSEST_AUTH_SECRET": "short"})


def test_secret_never_shows_in_a_text_form() -> None:
    assert SECRET not in repr(Authorizer(SECRET))


@pytest.mark.parametrize("lifetime", [0, -1, 10**9])
def test_lifetime_has_bounds(lifetime: int) -> None:
    with pytest.raises(ValueError, match="a token lives"):
        make_token(SECRET, "ann", now=NOW, lifetime=lifetime)
