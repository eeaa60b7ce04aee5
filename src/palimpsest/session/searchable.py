"""How search results are shown to a model, and the block that searches all conversations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from palimpsest.search.search import SearchResult
from palimpsest.store.sessions import SessionRegistry

_SHOWN_CHARACTERS = 2000


class SearchableHistory:
    """A read-only, searchable context block over every session of the object.

    :param registry: the registry, for the summary and the sessions' names.
    :param search: searches and renders, or returns None for nothing.
    """

    def __init__(self, registry: SessionRegistry, search: Callable[[str], str | None]) -> None:
        self._registry = registry
        self._search = search

    def get(self) -> str | None:
        """How many sessions there are to search, or None for none."""
        count = self._registry.count()
        return f"{count} session(s) available for search." if count else None

    def search(self, query: str) -> str | None:
        """The best messages of all sessions, or None."""
        return self._search(query)


def render_results(results: Sequence[SearchResult], registry: SessionRegistry) -> str | None:
    """The results as a model reads them: role, session and day, then the text; None for none."""
    return "\n---\n".join(_render(result, registry) for result in results) or None


def _render(result: SearchResult, registry: SessionRegistry) -> str:
    where = ""
    if result.session_id:
        info = registry.get(result.session_id)
        where = f' in "{info.name}"' if info else f" in {result.session_id}"
    day = datetime.fromtimestamp(result.created_at / 1000, UTC).strftime("%Y-%m-%d")
    text = result.content
    if len(text) > _SHOWN_CHARACTERS:
        text = result.snippet
    return f"[{result.role}{where}, {day}] {text}"
