"""The chat over plain HTTP: which path and method is answered by what.

Paths are matched behind the agent's address (``/agents/{agent}/{name}``); under another base path,
by their last segments. The session is chosen by the query parameter ``session``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from palimpsest.actor.http import error_response, json_response, method_refused
from palimpsest.errors import (
    BindingError,
    InvalidMessageError,
    LimitError,
    PalimpsestError,
    SessionNameError,
    UniqueViolationError,
    UnknownMessageError,
    UnknownParentError,
    UnknownSessionError,
)
from palimpsest.hosts.interface import MAX_BODY_BYTES, HttpRequest, HttpResponse
from palimpsest.json_input import load_json

if TYPE_CHECKING:
    from palimpsest.chat.agent import ChatAgent
    from palimpsest.chat.lane import Lane


class RequestError(PalimpsestError):
    """A request that cannot be answered as it stands."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(slots=True)
class Call:
    """A matched request."""

    agent: ChatAgent
    request: HttpRequest
    captured: list[str]
    """What stands for ``*`` in the pattern, decoded."""
    query: dict[str, str] = field(default_factory=lambda: dict[str, str]())

    @property
    def session_id(self) -> str:
        """The session that the query names."""
        return self.query.get("session", "")

    @property
    def lane(self) -> Lane:
        """That session's lane."""
        return self.agent.lane(self.session_id)

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object; empty for an empty body.

        :raises RequestError: it is none, or too large.
        """
        if len(self.request.body) > MAX_BODY_BYTES:
            raise RequestError(413, "too_large", f"a body has at most {MAX_BODY_BYTES} bytes")
        if not self.request.body.strip():
            return {}
        try:
            value = load_json(self.request.body)
        except ValueError as error:
            raise RequestError(400, "bad_request", f"the body is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise RequestError(400, "bad_request", "the body must be a JSON object")
        return cast("dict[str, Any]", value)

    def text(self, body: dict[str, Any], name: str, *, required: bool = True) -> str | None:
        """A text field of the body.

        :raises RequestError: it is missing or no text.
        """
        value = body.get(name)
        if value is None and not required:
            return None
        if not isinstance(value, str):
            raise RequestError(400, "bad_request", f"{name!r} must be a string")
        return value

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number of the query.

        :raises RequestError: it is none, or out of range.
        """
        value = self.query.get(name)
        if value is None:
            return default
        whole = value.isascii() and value.isdigit() and len(value) <= 12
        if not whole or not low <= int(value) <= high:
            raise RequestError(400, "bad_request", f"{name!r} must be {low} to {high}")
        return int(value)


Handler = Callable[[Call], Awaitable[HttpResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """A method, a pattern of path segments (``*`` takes any one), and who answers."""

    method: str
    pattern: tuple[str, ...]
    handler: Handler


def route(method: str, path: str, handler: Handler) -> Route:
    """A route from a path such as ``messages/*``."""
    return Route(method, tuple(path.split("/")), handler)


@cache
def _routes() -> list[Route]:
    from palimpsest.chat import http, memory_http, session_http

    found = [*http.ROUTES, *session_http.ROUTES, *memory_http.ROUTES]
    return sorted(found, key=lambda item: -len(item.pattern))


async def answer_request(
    agent: ChatAgent, request: HttpRequest, segments: Sequence[str]
) -> HttpResponse | None:
    """The answer to a request for the chat; None if it is for something else."""
    behind = _behind_address(segments)
    allowed: list[str] = []
    for item in _routes():
        captured = _match(item.pattern, segments if behind is None else behind, behind is None)
        if captured is None:
            continue
        if item.method != request.method and not _is_get_messages(item, request):
            allowed.append(item.method)
            continue
        query = dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True))
        return await _call(item, Call(agent, request, captured, query))
    if allowed and behind:
        return method_refused(allowed)
    return None


def _is_get_messages(item: Route, request: HttpRequest) -> bool:
    return item.pattern == ("get-messages",) and request.method == "POST"


async def _call(item: Route, call: Call) -> HttpResponse:
    try:
        return await item.handler(call)
    except RequestError as error:
        return error_response(error.status, error.code, str(error))
    except PalimpsestError as error:
        status, code = _status_of(error)
        return error_response(status, code, str(error))


def _status_of(error: PalimpsestError) -> tuple[int, str]:
    if isinstance(error, UnknownMessageError | UnknownParentError | UnknownSessionError):
        return 404, "not_found"
    if isinstance(error, UniqueViolationError):
        return 409, "conflict"
    if isinstance(error, LimitError) and not isinstance(error, SessionNameError):
        return 413, "too_large"
    if isinstance(error, InvalidMessageError | BindingError | ValueError):
        return 400, "bad_request"
    return 422, "failed"


def _behind_address(segments: Sequence[str]) -> list[str] | None:
    """What follows ``agents/{agent}/{name}``; None under another base path."""
    if len(segments) >= 3 and segments[0] == "agents":
        return list(segments[3:])
    return None


def _match(pattern: tuple[str, ...], segments: Sequence[str], suffix: bool) -> list[str] | None:
    if len(segments) < len(pattern) or (not suffix and len(segments) != len(pattern)):
        return None
    captured: list[str] = []
    for expected, found in zip(pattern, segments[len(segments) - len(pattern) :], strict=True):
        if expected == "*":
            captured.append(unquote(found))
        elif expected != found:
            return None
    return captured


__all__ = ["Call", "RequestError", "Route", "answer_request", "json_response", "route"]
