"""Telling a provider's failures apart: status, code and words in, a typed error out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, cast

from palimpsest.errors import (
    AuthenticationError,
    ContextOverflowError,
    ModelError,
    ModelRequestError,
    ModelTimeoutError,
    ModelUnavailableError,
    RateLimitError,
    RefusalError,
)
from palimpsest.json_input import load_json

MAX_MESSAGE_CHARS = 600
"""How much of a provider's own words an error carries."""

_OVERFLOW_CODES = frozenset(
    {"context_length_exceeded", "context_window_exceeded", "request_too_large", "string_too_long"}
)
_OVERFLOW_WORDS = re.compile(
    r"context[ _-]?(length|window|limit|size)|prompt is too long|input is too long|"
    r"(too many|maximum( number of)?|exceeds?( the)?( maximum)?( number of)?)( input)? tokens|"
    r"reduce the length|token limit|maximum allowed input|input length|request too large|"
    r"larger than the (maximum|context)",
    re.IGNORECASE,
)
_REFUSAL_CODES = frozenset(
    {"content_filter", "content_policy_violation", "safety", "moderation_blocked", "refusal"}
)
_QUOTA_CODES = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error"})
_QUOTA_WORDS = re.compile(
    r"insufficient (quota|credit|balance)|credit balance|exceeded your current quota|"
    r"daily free allocation|billing",
    re.IGNORECASE,
)
_AUTH_CODES = frozenset(
    {"authentication_error", "permission_error", "invalid_api_key", "unauthorized"}
)
_RATE_CODES = frozenset({"rate_limit_error", "rate_limit_exceeded", "rate_limited"})
_BUSY_CODES = frozenset(
    {"overloaded_error", "api_error", "server_error", "internal_error", "service_unavailable"}
)
_BUSY_WORDS = re.compile(r"overloaded|capacity|temporarily|try again|unavailable", re.IGNORECASE)
_KEY = re.compile(r"\b((?:sk|pk|rk|cfut)[-_]|Bearer\s+)[A-Za-z0-9_.*-]{8,}")


def failure_of_answer(
    provider: str, status: int, headers: Mapping[str, str], body: str
) -> ModelError:
    """The error of an answer with an error status.

    :param provider: who answered, for the text.
    :param headers: the answer's headers, names in lower case.
    """
    return classify_failure(
        provider, _parsed(body), status=status, retry_after=_retry_after(headers)
    )


def error_in(answer: Any) -> Any:
    """The error that a JSON answer (or one event of a stream) holds, or None.

    Providers put it under ``error``, under ``errors`` beside ``success: false``, or make the
    whole answer one of ``type: error``.
    """
    if not isinstance(answer, Mapping):
        return None
    fields = cast("Mapping[str, Any]", answer)
    if fields.get("error"):
        return fields["error"]
    if fields.get("errors") and not fields.get("success"):
        return fields["errors"]
    if fields.get("object") == "error" or fields.get("type") == "error":
        return fields
    return None


def classify_failure(
    provider: str,
    details: Any,
    *,
    status: int | None = None,
    retry_after: float | None = None,
) -> ModelError:
    """The typed error for what a provider said.

    :param details: its error: text, or an object with ``message``, ``code`` and ``type``, or one
        that :func:`error_in` understands.
    :param status: the HTTP status; None for an error inside a stream or from a binding.
    """
    code, words = _code_and_words(details)
    known = _status_of(code) if status is None or status < 400 else status
    shown = redact(words) or (f"HTTP status {known}" if known else "no reason given")
    text = f"{provider}: {shown[:MAX_MESSAGE_CHARS]}"
    may_be_size = known in (None, 400, 413, 422)
    if code in _OVERFLOW_CODES or (may_be_size and _OVERFLOW_WORDS.search(words)):
        return ContextOverflowError(text, status=status)
    if code in _REFUSAL_CODES:
        return RefusalError(text, status=status)
    if code in _QUOTA_CODES or known == 402 or _QUOTA_WORDS.search(words):
        return AuthenticationError(f"{text} (the account's quota is used up)", status=status)
    if known in (401, 403) or code in _AUTH_CODES:
        return AuthenticationError(text, status=status)
    if known == 429 or code in _RATE_CODES:
        return RateLimitError(text, status=status, retry_after=retry_after)
    if known in (408, 504):
        return ModelTimeoutError(text, status=status, retry_after=retry_after)
    if code in _BUSY_CODES or (known or 0) >= 500:
        return ModelUnavailableError(text, status=status, retry_after=retry_after)
    if known is None and _BUSY_WORDS.search(words):
        return ModelUnavailableError(text, status=status, retry_after=retry_after)
    return ModelRequestError(text, status=status)


def redact(text: str) -> str:
    """The text with everything that looks like a key taken out."""
    return _KEY.sub(r"\1***", text)


def _parsed(body: str) -> Any:
    try:
        return load_json(body)
    except ValueError:
        # Proxies answer with pages.
        return " ".join(re.sub(r"<[^>]*>", " ", body[:4_000]).split())


def _code_and_words(details: Any) -> tuple[str, str]:
    inner = error_in(details)
    if inner is not None and inner is not details:
        return _code_and_words(inner)
    if isinstance(details, list) and details:
        return _code_and_words(cast("list[Any]", details)[0])
    if isinstance(details, Mapping):
        fields = cast("Mapping[str, Any]", details)
        code = fields.get("code") or fields.get("type") or ""
        words = fields.get("message") or fields.get("detail") or fields.get("error") or ""
        if not isinstance(words, str):
            words = json.dumps(words, ensure_ascii=False)
        return str(code).lower(), words or str(code)
    return "", details if isinstance(details, str) else ""


def _status_of(code: str) -> int | None:
    """Some providers repeat the HTTP status as the code of an error inside a stream."""
    return int(code) if code.isdecimal() and 400 <= int(code) < 600 else None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    milliseconds = headers.get("retry-after-ms", "")
    if milliseconds.isdecimal():
        return int(milliseconds) / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(value)
        now = parsedate_to_datetime(headers["date"])
        return max((then - now).total_seconds(), 0.0)
    except (KeyError, TypeError, ValueError):
        return None
