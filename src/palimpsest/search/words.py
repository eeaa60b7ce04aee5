"""English word knowledge for search: what to leave out, and what else a word may be written as.

Used on the query only: words that carry no subject, forms that stemming cannot join (irregular
verbs and plurals, word families, everyday synonyms), and the members of everyday categories, so
that "which instruments" finds "violin". Other languages are unaffected.
"""

from __future__ import annotations

from functools import cache, lru_cache

from palimpsest.search.tables import CATEGORIES, DERIVED, IRREGULAR, SYNONYMS

_STOP_WORDS = """
a about above after again against all also am an and any are as at be because been before being
below between both but by can could did do does doing done down during each few for from further
had has have having he her here hers herself him himself his how i if in into is it its itself
just me might more most much must my myself no nor not now of off on once only or other our ours
ourselves out over own same shall she should so some such than that the their theirs them
themselves then there these they this those through to too under until up upon us very was we were
what when where which while who whom whose why will with would you your yours yourself yourselves
s t d ll m re ve don didn doesn isn wasn won aren weren hasn haven hadn couldn shouldn wouldn
"""

STOP_WORDS = frozenset(_STOP_WORDS.split())


def _groups(table: str) -> dict[str, tuple[str, ...]]:
    related: dict[str, tuple[str, ...]] = {}
    for group in table.split(";"):
        words = group.split()
        for word in words:
            others = tuple(other for other in words if other != word)
            related[word] = related.get(word, ()) + others
    return related


@cache
def _tables() -> tuple[dict[str, tuple[str, ...]], ...]:
    categories: dict[str, tuple[str, ...]] = {}
    for line in CATEGORIES.replace("\n ", " ").strip().splitlines():
        names, members = line.split(":")
        for name in names.split():
            categories[name] = categories.get(name, ()) + tuple(members.split())
    return _groups(IRREGULAR), _groups(f"{DERIVED};{SYNONYMS}"), categories


def base_forms(word: str) -> list[str]:
    """The word and what it may be inflected from (plural, -ing, -ed), for looking it up."""
    forms = [word]
    for ending, replacements in (
        ("ies", ("y",)), ("es", ("", "e")), ("s", ("",)), ("ing", ("", "e")), ("ed", ("", "e")),
    ):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 2:
            stem = word[: -len(ending)]
            forms.extend(stem + replacement for replacement in replacements)
            if ending in ("ing", "ed") and len(stem) > 2 and stem[-1] == stem[-2]:
                forms.append(stem[:-1])
    return forms


@lru_cache(maxsize=1024)
def other_forms(word: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """For a lower-case word: forms of the same word, synonyms, and members of its category."""
    forms = base_forms(word)
    irregular, synonyms, categories = _tables()
    found: list[tuple[str, ...]] = []
    known = {word}
    for table in (irregular, synonyms, categories):
        related = {other: None for form in forms for other in table.get(form, ())}
        found.append(tuple(other for other in related if other not in known))
        known |= related.keys()
    return found[0], found[1], found[2]
