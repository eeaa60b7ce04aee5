"""What of a message is searched: pure functions from a message to the words of the index.

Three fields: ``text`` (what was said), ``tools`` (tool names, inputs, outputs and errors, files and
sources, the data of data parts) and ``about`` (the speaker, descriptions in the metadata, and the
parts of identifiers). Media data never enter the index.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple, cast

from palimpsest.letters import LETTER_CLASSES, LOWERED
from palimpsest.messages import COMPACTION_PREFIX, is_tool_part, tool_name
from palimpsest.store.search_heading import heading_of
from palimpsest.store.search_times import TIME_FIELDS, said_at

PIECE_BYTES = 900_000
"""The most bytes of one field in one row of the index, so that a row stays under 2 MB."""

ABOUT_CHARACTERS = 4_000
"""The most characters of the field ``about``."""

SPEAKER_KEYS = ("speaker", "name", "author", "sender", "userName", "username", "displayName")
"""Metadata fields that name who speaks, in order of preference."""

DESCRIPTION_KEYS = ("caption", "title", "description", "alt", "subject", "topic", "tags")
"""Metadata and file fields that describe a message in words."""

_DESCRIPTION_ENDS = tuple(key.capitalize() for key in DESCRIPTION_KEYS)
_HUMPS = re.compile(r"\b\w*[a-z][A-Z]\w*")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

# Scripts written without spaces between words (Thai to Myanmar and Khmer, kana, Han, Yi, ...), and
# Hangul, whose words carry their particles; plus emoji, which unicode61 takes for separators.
_UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf"
    "\u3005-\u3007\u3031-\u3035\u303b\u3041-\u30fa\u30fc-\u318f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_EMOJI = "\u231a-\u23ff\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"
_MARKS = "\u0300-\u036f\u3099\u309a\ufe00-\ufe0f"
HAS_UNSPACED = re.compile(f"[{_UNSPACED}{_EMOJI}]")
_RUN = re.compile(
    f"[{_UNSPACED}{_EMOJI}][{_UNSPACED}{_EMOJI}{_MARKS}]*|[^\\W_{_UNSPACED}{_EMOJI}]+"
)


# What a turn does, as far as its words tell (English). Ranking prefers turns that report over
# turns that only ask or react; see palimpsest.search.ranking.
ASKS = 1
"""The text ends with a question mark."""
HAS_QUESTION = 2
"""The text holds a question mark."""
ABOUT_SELF = 4
"""The text speaks of its speaker (I, my, we, ...)."""
ABOUT_OTHER = 8
"""The text speaks of the one spoken to (you, your)."""
TELLS_TIME = 16
"""The text names a time (yesterday, last, a month, a day of the week, ...)."""
TELLS_NUMBER = 32
"""The text holds a number, in digits or words."""
GREETS = 64
"""The text begins with a greeting."""

_SELF_WORDS = frozenset({"i", "my", "mine", "me", "we", "our", "ours", "us", "myself", "ourselves"})
_OTHER_WORDS = frozenset({"you", "your", "yours"})
_TIME_WORDS = frozenset(
    (
        "yesterday", "today", "tonight", "tomorrow", "ago", "last", "next", "week", "weeks",
        "weekend", "month", "months", "year", "years", "recently", "january", "february", "march",
        "april", "may", "june", "july", "august", "september", "october", "november", "december",
        "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "summer",
    )
)  # fmt: skip
_NUMBER_WORDS = frozenset(
    (
        "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "couple",
        "few", "several", "dozen", "once", "twice",
    )
)  # fmt: skip
_GREETINGS = frozenset({"hey", "hi", "hiya", "hello", "howdy", "greetings"})
_TIMES_OF_DAY = frozenset({"morning", "afternoon", "evening"})
_TRAIT_OF_WORD = {
    word: trait
    for words, trait in (
        (_SELF_WORDS, ABOUT_SELF),
        (_OTHER_WORDS, ABOUT_OTHER),
        (_TIME_WORDS, TELLS_TIME),
        (_NUMBER_WORDS, TELLS_NUMBER),
    )
    for word in words
}
_TELLING_WORDS = frozenset(_TRAIT_OF_WORD)
_SPACES = str.maketrans({sign: " " for sign in [*map(chr, range(128)), "’"] if not sign.isalnum()})
_DIGIT = re.compile(r"\d")
_DICT = frozenset({dict})
_NO_FIELDS: Mapping[str, Any] = {}

BOUNDARY = "\u01c2"
"""Stands between runs in the second index, as a word (it is a letter, of languages that the index
is not for), so that no phrase reaches over it."""

TRAITS_READ = 20_000
"""How many characters of a text are read for its traits."""


class IndexedText(NamedTuple):
    """One row's worth of a message's words."""

    text: str
    tools: str
    about: str
    grams: str
    """The message's unspaced scripts in single characters, parted by spaces (and by
    :data:`BOUNDARY` between runs); '' for others."""


class IndexedMessage(NamedTuple):
    """What the index holds of a message."""

    pieces: list[IndexedText]
    """One, unless the message is very long."""

    speaker: str
    """Who speaks, in lower case; '' if unknown."""

    said_at: int | None
    """When it was said by its own account, in ms since 1970; None if it does not tell."""

    traits: int
    """The bits that say what the turn does (:data:`ASKS` and the others)."""

    words: int
    """About how many words the text has."""


def indexed_message(message: Mapping[str, Any], *, reasoning: bool = False) -> IndexedMessage:
    """Read a message for the index; reasoning parts count as text only if asked for.

    The text of the synthetic message that shows a summary is not searched: it is nobody's.
    """
    texts: list[str] = []
    tools: list[str] = []
    shown = () if message["id"].startswith(COMPACTION_PREFIX) else message.get("parts", ())
    for part in shown:
        if type(part) in _DICT and part.get("type") == "text" and type(part.get("text")) is str:
            texts.append(part["text"])  # what most parts are, without further questions
        else:
            _read_part(part, texts, tools, reasoning)
    text = "\n".join(texts)
    if not text.isascii() or "\x00" in text:
        text = storable(text)
    tool_text = storable("\n".join(tools)) if tools else ""
    heading = heading_of(text)
    speaker = heading.speaker
    about: list[str] = []
    fields = _NO_FIELDS
    metadata = message.get("metadata")
    if metadata is not None and isinstance(metadata, Mapping):
        fields = cast("Mapping[str, Any]", metadata)
        speaker = _speaker(fields) or speaker
        for key, value in fields.items():
            if _describes(key):
                about.extend(_words(value))
    if speaker:
        about.insert(0, speaker)
    classes = text.encode().translate(LETTER_CLASSES)
    if b"aA" in classes:
        about.extend(_identifier_parts(text))
    if tool_text and b"aA" in tool_text.encode().translate(LETTER_CLASSES):
        about.extend(_identifier_parts(tool_text))
    about_text = storable("\n".join(about))[:ABOUT_CHARACTERS] if about else ""
    if (len(text) + len(tool_text)) * 4 <= PIECE_BYTES:
        plain = not tool_text and not about_text and text.isascii()
        grams = "" if plain else _segmented_fields(text, tool_text, about_text)
        pieces = [IndexedText(text, tool_text, about_text, grams)]
    else:
        parts = zip_longest(_split(text), _split(tool_text), [about_text], fillvalue="")
        pieces = [IndexedText(*piece, _segmented_fields(*piece)) for piece in parts]
    traits, words = _traits(text, classes, heading.end)
    moment = None
    if fields or not TIME_FIELDS.isdisjoint(message):
        moment = said_at(message, fields)
    if moment is None:
        moment = heading.said_at
    return IndexedMessage(pieces, speaker.lower(), moment, traits, words)


def _describes(key: str) -> bool:
    """Whether a metadata field describes: "caption", "image_caption" and "imageCaption" do."""
    if key in DESCRIPTION_KEYS or key.rpartition("_")[2] in DESCRIPTION_KEYS:
        return True
    return key.endswith(_DESCRIPTION_ENDS)


def _segmented_fields(text: str, tools: str, about: str) -> str:
    if text.isascii() and tools.isascii() and about.isascii():
        return ""
    runs = " . ".join(filter(None, map(segmented, (text, tools, about))))
    return runs.replace(" . ", f" {BOUNDARY} ")


def _traits(text: str, classes: bytes, start: int) -> tuple[int, int]:
    """The traits of what stands from ``start`` on, and about how many words that has.

    :param classes: of the whole text, by :data:`palimpsest.letters.LETTER_CLASSES`.
    """
    end = start + TRAITS_READ
    head = text[start:end]
    if plain := head.isascii():
        found = head.encode().translate(LOWERED).decode().split()
    else:
        found = head.lower().translate(_SPACES).split()
    traits = 0
    if "?" in head or "？" in head:
        traits = HAS_QUESTION | (ASKS if head.rstrip()[-1:] in ("?", "？") else 0)
    for word in _TELLING_WORDS.intersection(found):
        traits |= _TRAIT_OF_WORD[word]
    if b"0" in classes[start:end] if text.isascii() else _DIGIT.search(head):
        traits |= TELLS_NUMBER
    if found and (
        found[0] in _GREETINGS or (found[0] == "good" and not _TIMES_OF_DAY.isdisjoint(found[1:2]))
    ):
        traits |= GREETS
    count = len(found) if plain else max(len(found), len(head) // 4)
    return traits, count * (len(text) - start) // len(head) if head else 0


def _read_part(part: Any, texts: list[str], tools: list[str], reasoning: bool) -> None:
    if type(part) is not dict and not isinstance(part, Mapping):
        return
    part = cast("Mapping[str, Any]", part)
    kind = str(part.get("type", ""))
    if kind == "text":
        if isinstance(part.get("text"), str):
            texts.append(part["text"])
    elif kind == "reasoning":
        if reasoning and isinstance(part.get("text"), str):
            texts.append(part["text"])
    elif is_tool_part(part):
        tools.append(tool_name(part))
        for key in ("title", "input", "output", "errorText"):
            tools.extend(_words(part.get(key)))
    elif kind in ("file", "source-url", "source-document"):
        for key in ("filename", "url", *DESCRIPTION_KEYS):
            tools.extend(_words(part.get(key)))
    elif kind.startswith("data-"):
        tools.extend(_words(part.get("data")))
    elif isinstance(part.get("text"), str):
        texts.append(part["text"])


def _words(value: Any, depth: int = 0) -> Iterator[str]:
    """The keys and values of a JSON value that are words, numbers or names; never media."""
    if isinstance(value, str):
        if value.startswith("data:"):
            return
        yield _ENCODED.sub(" ", value) if len(value) >= 200 else value
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield str(value)
    elif depth >= 100:
        return
    elif isinstance(value, Mapping):
        members = cast("Mapping[str, Any]", value)
        media = isinstance(kind := members.get("mediaType", members.get("mimeType")), str) and (
            not kind.startswith("text/")
        )
        for key, member in members.items():
            if media and key in ("data", "url", "base64") and isinstance(member, str):
                continue
            described = " ".join(_words(member, depth + 1))
            if described:
                yield f"{key}: {described}"
    elif isinstance(value, list | tuple):
        for member in cast("list[Any]", value):
            yield from _words(member, depth + 1)


def _speaker(metadata: Mapping[str, Any]) -> str:
    for key in SPEAKER_KEYS:
        value = metadata.get(key)
        if isinstance(value, str) and value.strip():
            return storable(value.strip())[:100]
    return ""


def _identifier_parts(text: str) -> Iterator[str]:
    """The parts of camelCase words, which the tokenizer takes for single words."""
    for found in _HUMPS.finditer(text[:100_000]):
        parts = _HUMP.findall(found[0])
        if len(parts) > 1:
            yield " ".join(parts)


def storable(text: str) -> str:
    """The text without NUL and lone surrogates, which SQLite cannot hold or would end at."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub(" ", text)


def segmented(text: str) -> str:
    """The unspaced scripts of a text, one character a word, for the second index; '' if none.

    A character keeps the marks that follow it (a Thai vowel sign, a dakuten, a variation
    selector), so that every substring of whole characters is a phrase of neighbouring words.
    Runs are parted by ``.``. Words of other scripts that touch such a run stay whole:
    ``unicode61`` would have glued them to it.
    """
    if text.isascii() or not HAS_UNSPACED.search(text):
        return ""
    normal = unicodedata.normalize("NFKC", text)
    words: list[str] = []
    end = -1
    for run in _RUN.finditer(normal):
        unspaced = HAS_UNSPACED.match(run[0]) is not None
        if not unspaced and not _touches_unspaced(normal, run.start(), run.end()):
            continue
        if run.start() != end and words:
            words.append(".")
        words.extend(_characters(run[0]) if unspaced else [run[0].lower()])
        end = run.end()
    return " ".join(words)


def _touches_unspaced(text: str, start: int, end: int) -> bool:
    return bool(
        (start > 0 and HAS_UNSPACED.match(text, start - 1))
        or (end < len(text) and HAS_UNSPACED.match(text, end))
    )


def _characters(run: str) -> Iterator[str]:
    held = ""
    for character in run:
        if held and unicodedata.category(character)[0] != "M":
            yield held
            held = ""
        held += character
    if held:
        yield held


def _split(text: str) -> Iterable[str]:
    """The text in pieces of at most :data:`PIECE_BYTES` bytes, cut at white space if there is."""
    if len(text) * 4 <= PIECE_BYTES or len(text.encode()) <= PIECE_BYTES:
        return [text]
    length = PIECE_BYTES if text.isascii() else PIECE_BYTES // 4
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = min(start + length, len(text))
        if end < len(text):
            cut = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
            if cut > start + length // 2:
                end = cut
        pieces.append(text[start:end])
        start = end
    return pieces
