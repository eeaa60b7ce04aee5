"""Who speaks and when, where a text begins with it as transcripts do: "[8 May 2023] Ann: Hello"."""

from __future__ import annotations

import re
from typing import NamedTuple

from palimpsest.store.search_times import parse_moment

_NAME = r"[^\W\d_][\w.'’-]{0,39}(?: [^\W\d_][\w.'’-]{0,39}){0,2}"
_BRACKETED = r"[\[(](?P<%s>[^\])\n]{8,60})[\])]"
_HEADING = re.compile(
    rf"\s*(?:(?:{_BRACKETED % 'first'}|(?P<bare>\d{{4}}-\d\d-\d\d(?:[ T][\d:.]+Z?)?))[ ,:-]+)?"
    rf"(?:(?P<speaker>{_NAME})(?: {_BRACKETED % 'last'})?: (?=\S))?"
)

HEADING_CHARACTERS = 200
"""What is read of a text for its heading."""


class Heading(NamedTuple):
    """What stands before the words that were said."""

    speaker: str
    """As it is written; '' if no speaker is named."""

    said_at: int | None
    """In ms since 1970; None if no time is named."""

    end: int
    """Where in the text the words begin."""


_NONE = Heading("", None, 0)


def heading_of(text: str) -> Heading:
    """The heading of a text: a time in brackets or in ISO form, a name and a colon, or both.

    Brackets that hold no time are part of what was said.
    """
    head = text[:HEADING_CHARACTERS]
    if ": " not in head and head[:1] not in "[(0123456789":
        return _NONE
    found = _HEADING.match(head)
    if found is None or not found.end():
        return _NONE
    stamps = [stamp for stamp in found.group("first", "bare", "last") if stamp is not None]
    if not stamps:
        speaker = found["speaker"]
        return Heading(speaker, None, found.end()) if speaker else _NONE
    moments = [parse_moment(stamp.strip()) for stamp in stamps]
    if None in moments:
        return _NONE
    return Heading(found["speaker"] or "", moments[0], found.end())
