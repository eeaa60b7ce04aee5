"""Answers in JSON."""

from __future__ import annotations

from typing import Any

from palimpsest.hosts.interface import HttpResponse
from palimpsest.messages import dump_json


def json_response(value: Any, *, status: int = 200) -> HttpResponse:
    """A JSON value as a response."""
    headers = {"content-type": "application/json; charset=utf-8", "cache-control": "no-store"}
    return HttpResponse(status, headers, dump_json(value))


def error_response(status: int, code: str, message: str) -> HttpResponse:
    """``{"error": {"code", "message"}}`` with the status."""
    return json_response({"error": {"code": code, "message": message}}, status=status)
