"""Edits to files and how two edits in a row become one.

A ``CodeChange`` maps a gadget's id to a list of ``[path, operation]``. An operation is
``{"set": text}``, ``{"remove": true}`` or ``{"edit": sections}``. Sections describe one text edit
from its beginning to its end: a number keeps that many characters, ``[deleted, *lines]`` deletes
that many and inserts ``lines`` joined by newlines. Characters are UTF-16 units, as in the editors
that produce such edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from palimpsest.errors import PalimpsestError

FileOperation: TypeAlias = dict[str, Any]
"""``{"set": str}``, ``{"remove": True}`` or ``{"edit": [...]}``."""

CodeChange: TypeAlias = dict[Any, list[tuple[str, FileOperation]]]
"""Gadget id (a number or a text) to its files' operations, in order."""

Section: TypeAlias = tuple[int, str | None]
"""(length in the old text, replacement); None as replacement keeps the text."""


class CodeChangeError(PalimpsestError, ValueError):
    """Two edits do not fit each other, or an edit does not fit its text."""


def compose_code_changes(changes: Iterable[CodeChange]) -> CodeChange | None:
    """All changes as one, oldest first; None when there are none.

    :raises CodeChangeError: an edit of a removed file, or lengths that do not fit.
    """
    total: CodeChange | None = None
    for change in changes:
        total = change if total is None else compose_code_change(total, change)
    return total


def compose_code_change(first: CodeChange, second: CodeChange) -> CodeChange:
    """One change with the effect of ``first`` and then ``second``.

    A later ``set`` or ``remove`` supersedes; an edit of a set file gives a set; two edits compose.

    :raises CodeChangeError: an edit of a removed file, or lengths that do not fit.
    """
    result: CodeChange = {gadget: list(files) for gadget, files in first.items()}
    for gadget, files in second.items():
        merged = dict(result.get(gadget, ()))
        for path, operation in files:
            earlier = merged.get(path)
            merged[path] = operation if earlier is None else _compose(path, earlier, operation)
        result[gadget] = list(merged.items())
    return result


def _compose(path: str, earlier: FileOperation, later: FileOperation) -> FileOperation:
    if "edit" not in later:
        return later
    if "set" in earlier:
        return {"set": apply_edit(earlier["set"], later["edit"])}
    if "remove" in earlier:
        raise CodeChangeError(f"edit of {path!r}, which an earlier change removed")
    return {"edit": compose_edits(earlier["edit"], later["edit"])}


def apply_code_change(
    files: Mapping[tuple[Any, str], str], change: CodeChange
) -> dict[tuple[Any, str], str]:
    """The files, keyed by (gadget id, path), after a change.

    :raises CodeChangeError: an edit of a file that is not there, or that does not fit its text.
    """
    result = dict(files)
    for gadget, operations in change.items():
        for path, operation in operations:
            key = (gadget, path)
            if "set" in operation:
                result[key] = operation["set"]
            elif "remove" in operation:
                result.pop(key, None)
            elif key not in result:
                raise CodeChangeError(f"edit of {path!r}, which does not exist")
            else:
                result[key] = apply_edit(result[key], operation["edit"])
    return result


def _units(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def _length(text: str) -> int:
    return len(_units(text)) // 2


def _slice(text: str, start: int, end: int) -> str:
    return _units(text)[start * 2 : end * 2].decode("utf-16-le", "surrogatepass")


def parse_edit(sections: Sequence[Any]) -> list[Section]:
    """Sections from their JSON form.

    :raises CodeChangeError: a section is neither a length nor a deletion with lines.
    """
    parsed: list[Section] = []
    for section in sections:
        if isinstance(section, int) and not isinstance(section, bool) and section >= 0:
            parsed.append((section, None))
            continue
        parts = cast("list[Any]", section) if isinstance(section, list | tuple) else []
        if not parts or not isinstance(parts[0], int) or parts[0] < 0:
            raise CodeChangeError(f"not a section of an edit: {section!r:.100}")
        parsed.append((parts[0], "\n".join(str(line) for line in parts[1:])))
    return parsed


def dump_edit(sections: Iterable[Section]) -> list[Any]:
    """Sections in their JSON form, neighbours of one kind joined."""
    output: list[Any] = []
    for length, insert in sections:
        if length == 0 and not insert:
            continue
        if insert is None:
            if output and isinstance(output[-1], int):
                output[-1] += length
            else:
                output.append(length)
            continue
        if output and not isinstance(output[-1], int):
            previous: list[Any] = output[-1]
            insert = "\n".join(previous[1:]) + insert
            length += previous[0]
            output.pop()
        output.append([length, *insert.split("\n")] if insert else [length])
    return output


def apply_edit(text: str, edit: Sequence[Any]) -> str:
    """``text`` after an edit.

    :raises CodeChangeError: the edit is for a text of another length.
    """
    sections = parse_edit(edit)
    expected = sum(length for length, _ in sections)
    if expected != _length(text):
        raise CodeChangeError(f"edit of {expected} characters on a text of {_length(text)}")
    output: list[str] = []
    position = 0
    for length, insert in sections:
        output.append(_slice(text, position, position + length) if insert is None else insert)
        position += length
    # An edit may have cut a surrogate pair and put it together again.
    return _units("".join(output)).decode("utf-16-le", "surrogatepass")


def compose_edits(first: Sequence[Any], second: Sequence[Any]) -> list[Any]:
    """One edit with the effect of ``first`` and then ``second``.

    :raises CodeChangeError: ``second`` is for a text of another length than ``first`` gives.
    """
    output: list[Section] = []
    pending = list(reversed(parse_edit(first)))
    for length, insert in parse_edit(second):
        if insert is not None:
            output.append((0, insert))
        remaining = length
        while remaining > 0:
            if not pending:
                raise CodeChangeError("the second edit is longer than the text the first gives")
            old, replacement = pending.pop()
            produced = old if replacement is None else _length(replacement)
            taken = min(remaining, produced)
            output.append(_taken(old, replacement, taken, deleted=insert is not None))
            if taken < produced:
                rest = old - taken if replacement is None else 0
                kept = None if replacement is None else _slice(replacement, taken, produced)
                pending.append((rest, kept))
            remaining -= taken
    for old, replacement in reversed(pending):
        if replacement is None and old:
            raise CodeChangeError("the second edit is shorter than the text the first gives")
        if replacement:
            raise CodeChangeError("the second edit is shorter than the text the first gives")
        output.append((old, replacement))
    return dump_edit(output)


def _taken(old: int, replacement: str | None, taken: int, *, deleted: bool) -> Section:
    """What remains of the first edit's section where the second keeps or deletes its text."""
    if replacement is None:
        return (taken, "" if deleted else None)
    return (old, "" if deleted else _slice(replacement, 0, taken))
