"""What the context blocks of a session over a storage provider keep besides their providers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from palimpsest.messages import Message, Part, dump_json, tool_name, tool_parts
from palimpsest.session.context import LOADED_KEY, UNLOADING_KEY

T = TypeVar("T")

Skill = tuple[str, str]
"""The label of a block and the key of one of its entries."""


class MemorySettings:
    """Implements :class:`palimpsest.session.context.ContextSettings` in memory."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], str] = {}

    def get_config(self, session_id: str, key: str) -> str | None:
        """A setting, or None."""
        return self._values.get((session_id, key))

    def set_config(self, session_id: str, key: str, value: str | None) -> None:
        """Write a setting; None removes it."""
        if value is None:
            self._values.pop((session_id, key), None)
        else:
            self._values[session_id, key] = value

    def transaction(self, body: Callable[[], T]) -> T:
        """Run ``body``: nothing of it can fail half way here."""
        return body()

    def note_skills(self, session_id: str, messages: Iterable[Message]) -> None:
        """Find out which skills the context holds, as far as this memory does not know better.

        A skill is loaded where the result of ``load_context`` still stands in the history. One
        that was unloaded since, but whose text is still there, is noted as still to be removed.
        """
        loaded: dict[Skill, None] = {}
        unloading: dict[Skill, None] = {}
        for message in messages:
            for part in tool_parts(message):
                skill = _skill(part)
                if skill is None:
                    continue
                if tool_name(part) == "load_context" and not _is_marker(part):
                    loaded[skill] = None
                    unloading.pop(skill, None)
                elif tool_name(part) == "unload_context" and skill in loaded:
                    del loaded[skill]
                    unloading[skill] = None
        for key, skills in ((LOADED_KEY, loaded), (UNLOADING_KEY, unloading)):
            if skills and self.get_config(session_id, key) is None:
                self.set_config(session_id, key, dump_json(list(skills)))


def _skill(part: Part) -> Skill | None:
    """Which skill a finished call is about."""
    given: Any = part.get("input")
    if part.get("state") != "output-available" or not isinstance(given, dict):
        return None
    named = cast("dict[str, Any]", given)
    label, key = named.get("label"), named.get("key")
    return (label, key) if isinstance(label, str) and isinstance(key, str) else None


def _is_marker(part: Part) -> bool:
    output: Any = part.get("output")
    return isinstance(output, str) and output.startswith(
        ("[skill unloaded:", "Not found:", "Error:")
    )
