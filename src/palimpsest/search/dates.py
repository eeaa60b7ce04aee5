"""Times that a query names in words: "in May 2023", "on 7 July", "yesterday", "last week"."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

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
_RELATIVE_WORDS = re.compile(rf"\b(?:{'|'.join(_RELATIVE)})\b")

Span = tuple[int, int]
"""A span of time: ms since 1970, the end excluded."""


class _Date(NamedTuple):
    """A date as it is written; without a year it is meant in each year."""

    year: int | None
    month: int
    day: int | None


class NamedTimes:
    """The times that an English query names, in UTC.

    Words like "yesterday" count from ``now`` (ms; None: they name no time). Dates are widened by
    :data:`AFTERTHOUGHT`.
    """

    def __init__(self, query: str, now: int | None) -> None:
        self._dates: list[_Date] = []
        self._years: list[int] = []
        """They count where no date is named."""
        self._relative: list[Span] = []
        text = query.lower()
        if _HINT.search(text) is None:  # most queries name no time
            return
        self._dates = [*_iso_dates(text), *_written_dates(text)]
        self._years = [int(year) for year in _YEAR.findall(text)]
        if now is not None:
            today = now - now % DAY
            for words in _RELATIVE_WORDS.findall(text):
                from_days, to_days = _RELATIVE[words]
                self._relative.append((today - from_days * DAY, today + to_days * DAY))

    def spans(self, first: int, last: int) -> list[Span]:
        """The spans that are named, where the conversation's own time is ``first`` to ``last``.

        A date without a year is meant in each year of that time (ms since 1970).
        """
        spans: list[Span] = []
        if self._dates:
            years = range(_year(first), _year(last) + 1)
            for date in self._dates:
                for year in years if date.year is None else (date.year,):
                    spans += _span(year, date.month, date.day)
        if not spans:
            spans = [(_ms(year, 1, 1), _ms(year + 1, 1, 1)) for year in self._years]
        return spans + self._relative


def _iso_dates(text: str) -> list[_Date]:
    return [
        _Date(int(year), int(month), int(day) if day else None)
        for year, month, day in _ISO.findall(text)
    ]


def _written_dates(text: str) -> list[_Date]:
    dates: list[_Date] = []
    for found in _DATE.finditer(text):
        month = month_number(found["month"])
        if month is None:
            continue
        day, year = found["day"] or found["day2"], found["year"]
        bare = not day and not year
        if bare and month in (3, 5) and not text[: found.start()].endswith((" in ", " since ")):
            continue  # the verbs "may" and "march"
        dates.append(_Date(int(year) if year else None, month, int(day) if day else None))
    return dates


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
