"""Times that a query names in words: "in May 2023", "on 7 July", "yesterday", "last week"."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from palimpsest.messages import MAX_TIME_MS
from palimpsest.store.search_times import month_number

DAY = 86_400_000
"""Milliseconds of a day."""

AFTERTHOUGHT = 14 * DAY
"""What happened at a time is mostly told within this long after it."""

_DATE = re.compile(
    r"\b(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?(?: of)? )?(?P<month>[a-z]{3,9})\b\.?"
    r"(?: (?P<day2>\d{1,2})(?:st|nd|rd|th)?\b(?!:))?(?:,? (?P<year>(?:19|20)\d\d)\b)?",
)
_HINT = re.compile(
    r"\d{4}|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|to(?:day|night)|yesterday|last|past|this)"
)
_ISO = re.compile(r"\b(\d{4})-(\d\d)(?:-(\d\d))?\b")
_YEAR = re.compile(r"\b((?:19|20)\d\d)\b")
_RELATIVE = {
    "today": (0, 1), "tonight": (0, 1), "yesterday": (1, 0), "last night": (1, 0),
    "this week": (7, 1), "last week": (14, 0), "past week": (7, 1), "last weekend": (9, 0),
    "this month": (31, 1), "last month": (62, 0), "this year": (366, 1), "last year": (731, 0),
}  # fmt: skip


def named_times(query: str, now: int | None, first: int, last: int) -> list[tuple[int, int]]:
    """The spans of time (ms since 1970, end excluded) that an English query names, in UTC.

    A date without a year is meant in each year from ``first`` to ``last`` (ms: the conversation's
    own time). Dates are widened by :data:`AFTERTHOUGHT`; words like "yesterday" count from ``now``.
    """
    text = query.lower()
    if _HINT.search(text) is None:  # most queries name no time
        return []
    spans: list[tuple[int, int]] = []
    years = range(_year(first), _year(last) + 1)
    for found in _ISO.finditer(text):
        spans += _span(int(found[1]), int(found[2]), int(found[3]) if found[3] else None)
    for found in _DATE.finditer(text):
        month = month_number(found["month"])
        day = found["day"] or found["day2"]
        if month is None:
            continue
        bare = not day and not found["year"]
        if bare and month in (3, 5) and not text[: found.start()].endswith((" in ", " since ")):
            continue  # the verbs "may" and "march"
        for year in [int(found["year"])] if found["year"] else years:
            spans += _span(year, month, int(day) if day else None)
    if not spans:
        for found in _YEAR.finditer(text):
            spans += [(_ms(int(found[1]), 1, 1), _ms(int(found[1]) + 1, 1, 1))]
    if now is not None:
        today = now - now % DAY
        for words, (from_days, to_days) in _RELATIVE.items():
            if words in text and re.search(rf"\b{words}\b", text):
                spans.append((today - from_days * DAY, today + to_days * DAY))
    return spans


def _year(moment: int) -> int:
    moment = min(moment, MAX_TIME_MS)  # a database may hold what later versions refuse
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)).year


def _ms(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


def _span(year: int, month: int, day: int | None) -> list[tuple[int, int]]:
    try:
        start = _ms(year, month, day or 1)
        next_month = (year + month // 12, month % 12 + 1)
        end = _ms(*next_month, 1) if day is None else start + DAY
    except (ValueError, OverflowError):
        return []
    return [(start, end + AFTERTHOUGHT)]
