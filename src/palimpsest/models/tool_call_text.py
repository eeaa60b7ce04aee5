"""The arguments of a tool call, from the text that a model wrote."""

from __future__ import annotations

from typing import Any, cast

from palimpsest.json_input import load_json
from palimpsest.models.interface import ToolCall


def finish_call(call_id: str, name: str, text: str) -> ToolCall:
    """The whole call. Text that is no JSON object is kept, with what is wrong with it.

    No text at all means a call without arguments, as several providers send it.
    """
    if not text.strip():
        return ToolCall(call_id, name, {})
    try:
        value: Any = load_json(text)
        if isinstance(value, str):
            # Some servers encode the arguments twice.
            value = load_json(value)
    except ValueError as error:
        return ToolCall(call_id, name, text, f"the arguments are not valid JSON: {error}")
    if value is None:
        return ToolCall(call_id, name, {})
    if not isinstance(value, dict):
        found = type(value).__name__
        return ToolCall(call_id, name, text, f"the arguments must be a JSON object, not {found}")
    return ToolCall(call_id, name, cast("dict[str, Any]", value))
