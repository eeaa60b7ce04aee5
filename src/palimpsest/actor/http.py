"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from palimpsest.hosts.interface import HttpResponse
from palimpsest.messages import dump_json


def json_response(value: Any, *, status: int = 200) -> HttpResponse:
    """A JSON value as a response."""
    headers = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}
    return HttpResponse(status, headers, dump_json(value))


def method_refused(allowed: Collection[str]) -> HttpResponse:
    """The answer to a method that a path does not know: 405 with what it does know."""
    names = sorted({*allowed, "HEAD"} if "GET" in allowed else allowed)
    response = error_response(405, "method_not_allowed", f"use {', '.join(names)}")
    response.headers = {**response.headers, "allow": ", ".join(names)}
    return response


def error_response(status: int, code: str, message: str) -> HttpResponse:
    """``{"error": {"code", "message"}}`` with the status."""
    return json_response({"error": {"code": code, "message": message}}, status=status)
