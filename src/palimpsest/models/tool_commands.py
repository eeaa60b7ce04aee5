"""Tools called by hand: ``/name arguments`` as a message to the offline model.

So that a tool can be tried without a key. Arguments are a JSON object, or plain text for a tool
that needs at most one argument: ``/roll_dice {"sides": 6}``, ``/roll_dice 6``, ``/roll_dice``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.json_input import load_json
from palimpsest.messages import Part
from palimpsest.tools.tool import Tool

_COMMAND = re.compile(r"\s*/([A-Za-z0-9_-]{1,64})(?:\s+(.*))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """A tool's name and the arguments it is to be called with."""

    name: str
    arguments: dict[str, Any]


def read_command(text: str, tools: Mapping[str, Tool]) -> ToolCommand | None:
    """The call that a message asks for; None where it names no tool that is offered.

    Arguments that fit nothing are left out: the tool's own check then tells what is missing.
    """
    found = _COMMAND.fullmatch(text)
    tool = tools.get(found[1]) if found else None
    if found is None or tool is None:
        return None
    return ToolCommand(tool.name, _arguments((found[2] or "").strip(), tool))


def _arguments(text: str, tool: Tool) -> dict[str, Any]:
    if text.startswith("{"):
        try:
            return cast("dict[str, Any]", load_json(text))
        except ValueError:
            pass  # braces may be the beginning of a plain text
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    required = cast("list[str]", tool.parameters.get("required") or [])
    names = required if len(required) == 1 else list(properties)
    if not text or len(names) != 1:
        return {}
    (name,) = names
    schema = properties.get(name)
    textual = isinstance(schema, Mapping) and cast("Any", schema).get("type") == "string"
    return {name: text if textual else _json_or_text(text)}


def _json_or_text(text: str) -> Any:
    try:
        return load_json(text)
    except ValueError:
        return text


def describe_outcome(part: Part) -> str:
    """What a settled call came to, in words."""
    state = part.get("state")
    if state == "output-denied":
        return "The call was not allowed."
    if state == "output-error":
        return f"The call failed: {part.get('errorText') or 'no reason was given'}"
    output = part.get("output")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
