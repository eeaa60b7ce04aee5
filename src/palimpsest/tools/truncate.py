"""Showing a large tool result to a model: less of it, in the same shape.

Results are stored whole. What a request carries keeps every key and the order of lists, shortens
long texts in the middle and long lists at the end, and says in place how much was left out.
"""

from __future__ import annotations

from typing import Any, cast

from palimpsest.messages import dump_json

_MIN_TEXT = 60
"""A shorter text would be nothing but the note of what was left out."""


def shorten_output(value: Any, max_chars: int) -> Any:
    """``value``, or a copy with the same shape whose JSON has about ``max_chars`` characters.

    Text stays text, a list stays a list, an object keeps its keys unless there are too many of
    them. What is left out is counted where it was.
    """
    size = _size(value)
    if size <= max_chars:
        return value
    if isinstance(value, str):
        return shorten_text(value, max_chars)
    text, items, depth = max_chars // 4, 200, 8
    while True:
        shortened = _shorten(value, max(text, _MIN_TEXT), max(items, 1), depth)
        if _size(shortened) <= max_chars:
            return shortened
        if depth <= 1:
            break
        # Texts and lists get shorter together; what is nested deepest goes last.
        if text <= _MIN_TEXT and items <= 1:
            depth -= 1
        text, items = text // 2, items // 2
    return shorten_text(dump_json(value), max_chars)


def shorten_text(text: str, max_chars: int) -> str:
    """The beginning and the end of a text, with a note in between of what was left out."""
    if len(text) <= max_chars:
        return text
    note = f"\n[… {len(text) - max_chars:,} characters left out …]\n"
    room = max(max_chars - len(note), 0)
    head = room * 2 // 3
    tail = room - head
    return text[:head] + note + (text[-tail:] if tail else "")


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    try:
        return len(dump_json(value))
    except (TypeError, ValueError):
        return len(str(value))


def _shorten(value: Any, max_string: int, max_items: int, depth: int) -> Any:
    if isinstance(value, str):
        return shorten_text(value, max_string)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        if depth == 0:
            return f"[… an object with {len(entries):,} keys left out …]"
        kept = {
            key: _shorten(entry, max_string, max_items, depth - 1)
            for key, entry in list(entries.items())[: max_items * 4]
        }
        if len(kept) < len(entries):
            kept["…"] = f"[… {len(entries) - len(kept):,} more keys left out …]"
        return kept
    if isinstance(value, list | tuple):
        listed = cast("list[Any]", value)
        if depth == 0:
            return f"[… a list of {len(listed):,} items left out …]"
        kept_items = [
            _shorten(entry, max_string, max_items, depth - 1) for entry in listed[:max_items]
        ]
        if len(kept_items) < len(listed):
            kept_items.append(f"[… {len(listed) - len(kept_items):,} more items left out …]")
        return kept_items
    return value
