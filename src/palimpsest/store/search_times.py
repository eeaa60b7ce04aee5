"""Times as messages give them: fields of a message, ISO text, English dates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

TIME_KEYS = (
    "createdAt", "created_at", "timestamp", "time", "date", "sentAt", "sent_at", "dateTime",
    "date_time", "datetime",
)  # fmt: skip
"""Fields of a message or its metadata that tell when it was said, in order of preference."""

TIME_FIELDS = frozenset(TIME_KEYS)


def said_at(message: Mapping[str, Any], metadata: Mapping[str, Any]) -> int | None:
    """When the message was said by its own account, in ms since 1970; None if it does not tell."""
    for holder in (message, metadata):
        if TIME_FIELDS.isdisjoint(holder):
            continue
        for key in TIME_KEYS:
            if key in holder and (moment := parse_moment(holder[key])) is not None:
                return moment
    return None


_MONTHS = {
    name: number
    for number, month in enumerate(
        (
            "january", "february", "march", "april", "may", "june", "july", "august", "september",
            "october", "november", "december",
        ),
        start=1,
    )
    for name in (month, month[:3])
} | {"sept": 9}  # fmt: skip
_WRITTEN_DATE = re.compile(
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d\d)(?: ?(?P<half>[ap]m))?.{0,6}?)?\b"
    r"(?:(?P<day>\d{1,2})(?:st|nd|rd|th)? (?P<month>[a-z]{3,9})"
    r"|(?P<month2>[a-z]{3,9}) (?P<day2>\d{1,2})(?:st|nd|rd|th)?),? (?P<year>\d{4})\b",
    re.IGNORECASE,
)


def month_number(word: str) -> int | None:
    """1 to 12 for an English month name or its abbreviation of three letters, else None."""
    return _MONTHS.get(word.lower())


def parse_moment(value: Any) -> int | None:
    """Milliseconds since 1970 for ISO text, an English date, or a number of s or ms; else None.

    Times without a zone are UTC.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if not 1e8 < value < 1e14:
            return None
        return int(value if value > 1e11 else value * 1000)
    if not isinstance(value, str) or not 8 <= len(value) <= 60:
        return None
    try:
        moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return _written_date(value)


def _written_date(value: str) -> int | None:
    found = _WRITTEN_DATE.search(value)
    month = month_number(found["month"] or found["month2"]) if found else None
    if found is None or month is None:
        return None
    hour = int(found["hour"] or 0)
    if found["half"]:
        hour = hour % 12 + (12 if found["half"].lower() == "pm" else 0)
    try:
        moment = datetime(
            int(found["year"]), month, int(found["day"] or found["day2"]), hour,
            int(found["minute"] or 0), tzinfo=UTC,
        )  # fmt: skip
    except ValueError:
        return None
    return int(moment.timestamp() * 1000)
