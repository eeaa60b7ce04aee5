"""Search over messages (interface; see search_messages)."""
from __future__ import annotations
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from palimpsest.store.search_index import SearchIndex


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One found message."""

    id: str
    session_id: str
    role: str
    content: str
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    score: float
    created_at: int
    row: int

    def marked(self, before: str = "<mark>", after: str = "</mark>") -> str:
        """The snippet with its highlights marked; everything else is escaped for HTML."""
        pieces: list[str] = []
        end = 0
        for start, stop in self.highlights:
            pieces += [escape(self.snippet[end:start]), before, escape(self.snippet[start:stop]), after]
            end = stop
        return "".join([*pieces, escape(self.snippet[end:])])


def search_messages(
    index: SearchIndex,
    query: str,
    *,
    session_id: str | None,
    limit: int = 20,
    role: str | Sequence[str] | None = None,
    since: int | None = None,
    until: int | None = None,
    path_rows: Sequence[int] | None = None,
    now: int | None = None,
) -> list[SearchResult]:
    """First form: terms by bm25; replaced below by the ranked form."""
    terms = [t for t in query.replace("\x00", " ").split() if any(c.isalnum() for c in t)]
    if not terms:
        return []
    match = " OR ".join('"' + t.replace('"', '""') + '"' for t in terms[:32])
    rows = index.sql.execute(
        "select s.message_id, n.session_id, s.role, s.text, -f.rank, s.created_at, s.row"
        " from assistant_fts f join assistant_search s on s.doc = f.rowid"
        " join assistant_search_sessions n on n.number = s.doc / 4294967296"
        " where f.assistant_fts match ?1 and (?2 is null or n.session_id = ?2)"
        " order by f.rank limit cast(?3 as integer)",
        match, session_id, limit,
    )
    return [
        SearchResult(str(r[0]), str(r[1]), str(r[2]), str(r[3]), str(r[3])[:200], (), float(r[4] or 0),
                     int(r[5] or 0), int(r[6] or 0))
        for r in rows
    ]
