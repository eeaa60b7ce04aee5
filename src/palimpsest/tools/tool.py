"""What a tool is: a name, a description, a JSON Schema and, unless a client runs it, a function."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from palimpsest.abort import Abort
from palimpsest.errors import ToolDefinitionError
from palimpsest.tokens import MOST_SHOWN_CHARS

DEFAULT_TIMEOUT_SECONDS = 60.0
"""How long a tool may run unless it says otherwise."""

DEFAULT_MAX_OUTPUT_CHARS = MOST_SHOWN_CHARS
"""How many characters of one result a request shows to the model; the whole is stored."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running tool may know about its call."""

    tool_call_id: str
    abort: Abort
    """Set when the turn is stopped; the tool's task is cancelled then, too."""
    agent: Any = None
    session_id: str = ""


Execute = Callable[[dict[str, Any], ToolContext], Awaitable[Any]]
"""Runs a call: validated-or-raw arguments in, a JSON value out."""

Check = Callable[[dict[str, Any]], dict[str, Any]]
"""The arguments checked and completed, as JSON values; raises ToolError where they do not fit."""

NeedsApproval = bool | Callable[[dict[str, Any], ToolContext], "bool | Awaitable[bool]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool as the agent loop and the model adapters see it.

    :raises ToolDefinitionError: the name is one that providers refuse, or the schema is not an
        object schema.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments; its ``type`` is ``object``."""
    execute: Execute | None
    """What runs the call; None for a tool that the client runs."""
    needs_approval: NeedsApproval = False
    check: Check | None = None
    """What a rule for approvals is shown instead of the model's own arguments; None for these."""
    timeout: float | None = DEFAULT_TIMEOUT_SECONDS
    """Seconds that one call may take; None for no limit."""
    max_output_chars: int = DEFAULT_MAX_OUTPUT_CHARS

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ToolDefinitionError(
                f"a tool's name has 1 to 64 letters, digits, '_' or '-': {self.name!r:.100}"
            )
        if self.parameters.get("type") != "object":
            raise ToolDefinitionError(f"tool {self.name!r}: parameters must be an object schema")


ToolSet = dict[str, Tool]
"""Tools by name."""


def client_tools(declared: object) -> ToolSet:
    """The tools that a chat request says its client can run; invalid entries are left out.

    :param declared: the request's ``clientTools``: ``[{name, description?, parameters?}]``.
    """
    found: ToolSet = {}
    if not isinstance(declared, list):
        return found
    for entry in cast("list[Any]", declared):
        if not isinstance(entry, Mapping):
            continue
        fields = cast("Mapping[str, Any]", entry)
        name, description = fields.get("name"), fields.get("description")
        schema = fields.get("parameters")
        parameters: dict[str, Any] = (
            dict(cast("Mapping[str, Any]", schema)) if isinstance(schema, Mapping) else {}
        )
        parameters.setdefault("type", "object")
        parameters.setdefault("properties", {})
        try:
            found[str(name)] = Tool(
                name=str(name) if isinstance(name, str) else "",
                description=description if isinstance(description, str) else "",
                parameters=parameters,
                execute=None,
            )
        except ToolDefinitionError:
            continue
    return found
