"""How entries of searchable context blocks are indexed and asked for: pure text to text.

Query text is data: every word is quoted for FTS5, and words are alternatives, ranked by bm25.
"""

from __future__ import annotations

import re

from palimpsest.store.search_text import HAS_UNSPACED, segmented, storable

_WORD = re.compile(r"[^\W_]+")

MAX_TERMS = 64
"""The most words of a query that are searched for."""


def indexed_text(content: str) -> str:
    """The content as the index takes it: scripts without spaces also character by character."""
    content = storable(content)
    characters = segmented(content)
    return f"{content}\n{characters}" if characters else content


def entry_match(query: str) -> str | None:
    """The FTS5 expression that finds entries with any word of the query; None for no word."""
    query = storable(query)
    terms = [word for word in _WORD.findall(query) if not HAS_UNSPACED.search(word)]
    for run in segmented(query).split("."):
        characters = run.split()
        terms.extend(
            " ".join(characters[start : start + 2])
            for start in range(max(1, len(characters) - 1) if characters else 0)
        )
    return " OR ".join(f'"{term}"' for term in dict.fromkeys(terms[:MAX_TERMS])) or None
