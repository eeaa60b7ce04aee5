"""Reading what a storage provider gives: checked, and brought into the library's own types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from palimpsest.errors import SessionProviderError
from palimpsest.messages import Message, dump_json
from palimpsest.search.search import SearchResult
from palimpsest.search.snippets import Highlighter
from palimpsest.store.rows import HistoryRowStat, RecentHistory, StoredCompaction
from palimpsest.store.search_reader import Content
from palimpsest.tokens import TOKENS_PER_MESSAGE, count_message_tokens, count_string_tokens


def overlay_tokens(summary: str) -> int:
    """The estimate of the message that shows an overlay."""
    return TOKENS_PER_MESSAGE + count_string_tokens(summary)


def json_bytes(message: Message) -> int:
    """The size of a message's JSON."""
    return len(dump_json(message).encode())


def read_message(value: object, source: str) -> Message:
    """A message as a provider gave it.

    :raises SessionProviderError: it is none.
    """
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        if (
            isinstance(found.get("id"), str)
            and isinstance(found.get("role"), str)
            and isinstance(found.get("parts"), list)
        ):
            return cast("Message", found) if isinstance(value, dict) else dict(found)
    raise SessionProviderError(f"{source}() gave no message: {value!r:.200}")


def read_messages(value: object, source: str) -> list[Message]:
    """A list of messages as a provider gave it.

    :raises SessionProviderError: it is none.
    """
    return [read_message(item, source) for item in read_list(value, source)]


def read_list(value: object, source: str) -> list[Any]:
    """Any list as a provider gave it.

    :raises SessionProviderError: it is none.
    """
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return list(cast("Sequence[Any]", value))
    raise SessionProviderError(f"{source}() gave no list: {value!r:.200}")


def read_compaction(value: object, source: str) -> StoredCompaction:
    """An overlay as a provider gave it.

    :raises SessionProviderError: it is none.
    """
    if isinstance(value, StoredCompaction):
        return value
    texts = [_field(value, name) for name in ("id", "summary", "from_message_id", "to_message_id")]
    if not all(isinstance(text, str) for text in texts):
        raise SessionProviderError(f"{source}() gave no overlay: {value!r:.200}")
    identifier, summary, begin, end = cast("list[str]", texts)
    created_at = milliseconds(_field(value, "created_at")) or 0
    tokens = overlay_tokens(summary)
    return StoredCompaction(identifier, summary, begin, end, created_at, tokens, False)


def read_stat(value: object, source: str) -> HistoryRowStat:
    """The sizes of one message as a provider gave them.

    :raises SessionProviderError: they are none.
    """
    if isinstance(value, HistoryRowStat):
        return value
    identifier, role, size = (_field(value, name) for name in ("id", "role", "bytes"))
    if not isinstance(identifier, str) or not isinstance(role, str) or not isinstance(size, int):
        raise SessionProviderError(f"{source}() gave no row: {value!r:.200}")
    tokens = _field(value, "tokens")
    return HistoryRowStat(
        id=identifier,
        role=role,
        bytes=size,
        tokens=tokens if isinstance(tokens, int) else size // 4,
        created_at=milliseconds(_field(value, "created_at")) or 0,
    )


def stat_of(message: Message) -> HistoryRowStat:
    """The sizes of a message."""
    return HistoryRowStat(
        id=message["id"],
        role=message["role"],
        bytes=json_bytes(message),
        tokens=count_message_tokens(message),
        created_at=milliseconds(message.get("createdAt")) or 0,
    )


def read_recent(value: object, source: str) -> RecentHistory:
    """Recent history as a provider gave it.

    :raises SessionProviderError: it is none.
    """
    if isinstance(value, RecentHistory):
        return value
    truncated, size = _field(value, "truncated"), _field(value, "total_content_bytes")
    if not isinstance(truncated, bool) or not isinstance(size, int):
        raise SessionProviderError(f"{source}() gave no recent history: {value!r:.200}")
    return RecentHistory(read_messages(_field(value, "messages"), source), truncated, size)


def read_results(
    value: object, source: str, words: Sequence[str], session_id: str
) -> list[SearchResult]:
    """Search results as a provider gave them; their snippets are made here.

    :param words: what the query's terms look like in a text.
    :raises SessionProviderError: they are none.
    """
    highlighter = Highlighter(words)
    return [
        _result(item, source, 1.0 / (1 + index), highlighter, session_id)
        for index, item in enumerate(read_list(value, source))
    ]


def _result(
    value: object, source: str, score: float, highlighter: Highlighter, session_id: str
) -> SearchResult:
    if isinstance(value, SearchResult):
        return value
    identifier, role, content = (_field(value, name) for name in ("id", "role", "content"))
    if not all(isinstance(text, str) for text in (identifier, role, content)):
        raise SessionProviderError(f"{source}() gave no search result: {value!r:.200}")
    given = _field(value, "score")
    named = _field(value, "session_id")
    found = Content(
        position=0,
        row=0,
        message_id=cast("str", identifier),
        session_id=named if isinstance(named, str) else session_id,
        role=cast("str", role),
        created_at=milliseconds(_field(value, "created_at")) or 0,
        text=cast("str", content),
        tools="",
        about="",
    )
    return SearchResult(
        found, float(given) if isinstance(given, int | float) else score, highlighter
    )


def milliseconds(value: object) -> int | None:
    """A time as ms since 1970: a number of them, a ``datetime`` or an ISO text; else None.

    A time that names no zone is UTC.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _field(value: object, name: str) -> object:
    """A field of a mapping, in snake_case or camelCase, or of an object; None where there is none.

    Database drivers give rows that are read by name without being a ``Mapping``.
    """
    first, *others = name.split("_")
    for spelling in (name, first + "".join(word.capitalize() for word in others)):
        if callable(getattr(value, "keys", None)):
            row = cast("Any", value)
            if spelling in row.keys():  # noqa: SIM118 - a row need not be a mapping
                return row[spelling]
        elif hasattr(value, spelling):
            return getattr(value, spelling)
    return None
