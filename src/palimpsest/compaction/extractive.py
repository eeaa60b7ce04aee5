"""A summary without a model: the sentences that carry facts, in the documented sections.

Deterministic, and good enough to stand in when a model cannot be reached. Statements are kept
word for word, because names, paths, numbers and decisions are what a conversation is asked for
later. Each sentence is scored by what it holds; the best ones within the budget are kept, in the
order in which they were said. An earlier summary's statements compete with the new ones.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from palimpsest.compaction.common_words import COMMON_WORDS
from palimpsest.compaction.delimiters import PREVIOUS_SUMMARY_TAG, TRANSCRIPT_TAG, unframe
from palimpsest.compaction.prompts import HANDOFF_SECTIONS, SUMMARY_SECTIONS, SummarySection
from palimpsest.compaction.render import clip, render_part, render_value
from palimpsest.compaction.tool_pairs import has_result
from palimpsest.messages import is_tool_part, tool_name
from palimpsest.tokens import count_message_tokens, count_string_tokens

Kind = Literal["topic", "decision", "preference", "fact", "outcome", "open"]

DEFAULT_SUMMARY_SHARE = 0.2
"""The budget as a share of the source where none is given."""

MIN_BUDGET_TOKENS = 20
"""The smallest budget, in tokens: a heading and a short statement."""

_MAX_UNIT_CHARS = 400
_MIN_UNIT_CHARS = 16
_LONG_SENTENCE = 10_000
_LONGEST_TEXT = 400_000
"""Characters of one text whose sentences are weighed: its two ends. More takes too long."""
_TOPIC_SHARE = 0.08
_OPEN_SHARE = 0.15
_COST_WEIGHT = 0.6
_CARRIED_BONUS = 0.3
_MAX_INPUT_CHARS = 120
_MAX_OUTPUT_CHARS = 200

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"')\]]*\s+(?=\S)|(?<=[。！？])|\n+")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NUMBER = re.compile(r"\d[\d.,:]*")
_CODE = re.compile(r"(?=\w*[^\W\d_])\w*\d\w*(?:-\w+)*|\b\w+(?:-\w+)*-\d[\w-]*")
_IDENTIFIER = re.compile(
    r"https?://\S+|\b[\w.+-]+@[\w-]+\.\w+|\w*/[\w.-]+/[\w./-]+|\b\w+_\w+\b|\b[a-z]+[A-Z]\w*\b"
    r"|\b\w+\.(?:py|ts|js|md|json|toml|csv|txt|sql|html|css|go|rs|java)\b"
    r"|`[^`]+`|(?<!\S)--[a-z][\w-]+"
)
_QUOTED = re.compile(r"[\"“«「『][^\"”»」』]{2,80}[\"”»」』]")
_CAPITALIZED = re.compile(r"\b[A-Z][\w'’-]+")
_CAPITALS = re.compile(r"\b[A-Z]{2,6}\b")
_TIME_WORD = re.compile(
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|yesterday|tomorrow|tonight|deadline|birthday|anniversary)\b",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"\b(?:decid\w+|decision|agreed|chose|chosen|we(?:'ll| will) (?:use|go with|keep)|settled on"
    r"|concluded|conclusion|approved|rejected|switch(?:ed)? to|root cause|fixed|resolved)\b",
    re.IGNORECASE,
)
_PREFERENCE = re.compile(
    r"\b(?:prefer\w*|favou?rite|must(?:n't)?|allergic|require[ds]?|requirement|only use|remember"
    r"|important|do not|don't want|please (?:use|keep|note|always|never))\b",
    re.IGNORECASE,
)
_SELF_FACT = re.compile(
    r"\b(?:my|our|his|her|their)\s+\w+(?:\s+\w+)?\s+(?:is|was|are|were|has|called|named)\b"
    r"|\b(?:called|named|lives? in|born|works? (?:at|as|for)|moved to|belongs? to|located"
    r"|costs?|password|passphrase|code|address|number|account|serial|owner)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:to-?do|remind me|follow[- ]up|pending|not yet (?:done|decided|clear)|next steps?"
    r"|still (?:open|missing|failing|unclear|to do)|unresolved|unanswered|get back to (?:you|me)"
    r"|waiting for|open question|needs? (?:fixing|review|a decision|an answer))\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_ROLE_LINE = re.compile(r"^\[([\w-]+)(?: \(continued\))?\]$")


@dataclass(slots=True)
class _Unit:
    """One statement that may be kept."""

    text: str
    role: str
    kind: Kind
    order: int
    carried: bool = False
    score: float = 0.0
    line: str = ""
    cost: int = 0


def extractive_summary(
    messages: Iterable[Mapping[str, Any]],
    budget: int | None = None,
    previous_summary: str | None = None,
    sections: Sequence[SummarySection] = SUMMARY_SECTIONS,
) -> str:
    """Summarize messages without a model; the same input always gives the same text.

    :param budget: the most tokens, by the heuristic; a fifth of the source by default.
    :param previous_summary: an earlier summary whose statements are carried on.
    :param sections: the documented sections to fill; empty ones are left out.
    :returns: '' when the messages hold nothing to state.
    """
    listed = list(messages)
    units: list[_Unit] = []
    failures: dict[str, _Unit] = {}
    for message in listed:
        _collect_message(message, units, failures)
    units.extend(failures.values())
    if budget is None:
        source = sum(count_message_tokens(message) for message in listed) + count_string_tokens(
            previous_summary or ""
        )
        budget = int(source * DEFAULT_SUMMARY_SHARE)
    succeeded = {unit.text.split(" ")[1].rstrip(":") for unit in units if unit.kind == "outcome"}
    return _compose(units, previous_summary, budget, sections, succeeded)


def extract_from_texts(
    texts: Iterable[tuple[str, str]],
    budget: int,
    previous_summary: str | None = None,
    sections: Sequence[SummarySection] = SUMMARY_SECTIONS,
) -> str:
    """:func:`extractive_summary` of (role, text) pairs."""
    units: list[_Unit] = []
    for role, text in texts:
        _collect_text(text, role, units)
    return _compose(units, previous_summary, budget, sections, set())


class ExtractiveSummarizer:
    """The extractive summary as a summarizer: give it where a model's is expected.

    Called with a prompt of this library it summarizes the transcript inside; the engine gives it
    the messages themselves.
    """

    def __init__(self, max_tokens: int | None = None) -> None:
        """:param max_tokens: the most tokens of a summary, whatever the prompt aims for."""
        if max_tokens is not None and max_tokens <= 0:
            raise ValueError(f"ExtractiveSummarizer: max_tokens must be above 0, got {max_tokens}")
        self.max_tokens = max_tokens

    def __call__(self, prompt: str) -> str:
        """The summary of the transcript in a prompt, or of the prompt's own text."""
        transcript = unframe(TRANSCRIPT_TAG, prompt)
        source = prompt if transcript is None else transcript
        wanted = re.search(r"Aim for at most (\d+) tokens", prompt)
        budget = int(wanted.group(1)) if wanted else count_string_tokens(source) // 5
        handoff = f"## {HANDOFF_SECTIONS[0].heading}" in prompt
        return extract_from_texts(
            _read_transcript(source),
            self._bounded(budget),
            unframe(PREVIOUS_SUMMARY_TAG, prompt),
            HANDOFF_SECTIONS if handoff else SUMMARY_SECTIONS,
        )

    def summarize_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        budget: int,
        previous_summary: str | None = None,
        sections: Sequence[SummarySection] = SUMMARY_SECTIONS,
    ) -> str:
        """The summary of messages within ``budget`` tokens."""
        return extractive_summary(messages, self._bounded(budget), previous_summary, sections)

    def _bounded(self, budget: int) -> int:
        return budget if self.max_tokens is None else min(budget, self.max_tokens)


def _read_transcript(transcript: str) -> list[tuple[str, str]]:
    """(role, text) pairs from a rendered transcript."""
    pairs: list[tuple[str, str]] = []
    role = "user"
    lines: list[str] = []
    for line in transcript.split("\n"):
        found = _ROLE_LINE.match(line)
        if found or line == "---":
            if lines:
                pairs.append((role, "\n".join(lines)))
            lines = []
            role = found.group(1) if found else role
            continue
        lines.append(line)
    if lines:
        pairs.append((role, "\n".join(lines)))
    return pairs


def _collect_message(
    message: Mapping[str, Any], units: list[_Unit], failures: dict[str, _Unit]
) -> None:
    role = str(message.get("role", ""))
    for part in message.get("parts", ()):
        if is_tool_part(part):
            _collect_tool(part, role, units, failures)
            continue
        text = render_part(part)
        if text:
            _collect_text(text, role, units)


def _collect_tool(
    part: Mapping[str, Any], role: str, units: list[_Unit], failures: dict[str, _Unit]
) -> None:
    """One line for a tool's outcome; a failure stays open until the same tool succeeds."""
    name = tool_name(part) or "unknown"
    given = part.get("input")
    called = f"{name} {clip(render_value(given), _MAX_INPUT_CHARS)}" if given else name
    called = " ".join(called.split())
    if part.get("errorText") is not None or part.get("state") == "output-error":
        error = clip(" ".join(str(part.get("errorText") or "").split()), _MAX_OUTPUT_CHARS)
        unit = _Unit(f"tool {called} failed: {error}", role, "open", len(units))
        failures.pop(name, None)
        failures[name] = unit
        return
    if not has_result(part):
        units.append(_Unit(f"tool {called}: no result yet", role, "open", len(units)))
        return
    output = part.get("output")
    value = part.get("result") if output is None else output
    result = "denied by the user" if value is None else render_value(value, _MAX_OUTPUT_CHARS)
    text = f"tool {called}: {' '.join(result.split())}"
    failed = failures.pop(name, None)
    if failed is not None:
        failed.kind = "fact"
        units.append(failed)
    units.append(_Unit(text, role, "outcome", len(units)))


def _collect_text(text: str, role: str, units: list[_Unit]) -> None:
    for raw in _SENTENCE_END.split(clip(text, _LONGEST_TEXT)):
        # Cut before it is taken apart: the words of one huge sentence take ten times its memory.
        short = raw if len(raw) <= _LONG_SENTENCE else clip(raw, _MAX_UNIT_CHARS)
        sentence = " ".join(short.split())
        if sentence:
            sentence = clip(_BULLET.sub("", sentence), _MAX_UNIT_CHARS)
            units.append(_Unit(sentence, role, _kind_of(sentence), len(units)))


def _kind_of(sentence: str) -> Kind:
    if _OPEN.search(sentence):
        return "open"
    if _DECISION.search(sentence):
        return "decision"
    if _PREFERENCE.search(sentence):
        return "preference"
    return "fact"


def _words(text: str) -> list[str]:
    words: list[str] = []
    for word in _WORD.findall(text.lower()):
        if len(word) > 3 and ord(word[0]) >= 0x2E80:
            # Scripts without spaces: pairs of characters stand for words.
            words.extend(word[index : index + 2] for index in range(len(word) - 1))
        elif len(word) > 2:
            words.append(word)
    return words


@dataclass(slots=True)
class _Corpus:
    """How often words occur, and which occur in small letters, over all statements."""

    total: int
    frequency: Counter[str]
    small: set[str]

    @classmethod
    def of(cls, units: Sequence[_Unit]) -> _Corpus:
        frequency: Counter[str] = Counter()
        small: set[str] = set()
        for unit in units:
            frequency.update(set(_words(unit.text)))
            small.update(word for word in _WORD.findall(unit.text) if word[0].islower())
        return cls(max(2, len(units)), frequency, small)

    def names(self, text: str) -> int:
        """Capitalized words that never occur in small letters: names, also at the beginning."""
        found = _CAPITALIZED.findall(text)
        return sum(
            1
            for word in found
            if (small := word.lower().removesuffix("'s").removesuffix("’s")) not in self.small
            and small not in COMMON_WORDS
        )

    def acronyms(self, text: str) -> int:
        """Words in capitals that are not a word shouted."""
        return sum(
            1
            for word in _CAPITALS.findall(text)
            if word.lower() not in self.small and word.lower() not in COMMON_WORDS
        )

    def rarity(self, words: Sequence[str]) -> float:
        """The mean rarity of words, from 0 to 1."""
        if not words:
            return 0.0
        logs = sum(math.log(self.total / max(1, self.frequency[word])) for word in words)
        return logs / len(words) / math.log(self.total)


def _score(unit: _Unit, corpus: _Corpus) -> float:
    """How much a statement holds that a later question may ask for."""
    text = unit.text
    numbers = [number for number in _NUMBER.findall(text) if sum(map(str.isdigit, number)) > 1]
    codes = len(_CODE.findall(text)) + corpus.acronyms(text)
    identifiers = len(_IDENTIFIER.findall(text)) + len(_QUOTED.findall(text))
    words = list(dict.fromkeys(_words(text)))
    content = [word for word in words if word not in COMMON_WORDS]
    score = 0.7 * min(len(numbers), 3) + (1.5 if numbers else 0)
    score += min(codes + identifiers, 3) + (2.0 if codes or identifiers else 0)
    score += 1.2 * min(corpus.names(text), 3)
    score += 1.5 if _TIME_WORD.search(text) else 0
    score += 2.0 if _SELF_FACT.search(text) else 0
    score += {"decision": 2.0, "preference": 1.5, "open": 1.0, "outcome": 1.5}.get(unit.kind, 0)
    score += 0.5 if unit.role == "user" else 0
    score += corpus.rarity(content) * 2.0 + 0.3 * min(len(content), 8)
    if len(content) < 2 and not (numbers or codes or identifiers):
        score -= 3
    if text.endswith(("?", "？")) and unit.kind != "open":
        score -= 2
    return score + (_CARRIED_BONUS if unit.carried else 0)


def _carried_units(
    previous: str | None, sections: Sequence[SummarySection], succeeded: set[str]
) -> list[_Unit]:
    """The statements of an earlier summary, each with the kind its heading gives it."""
    units: list[_Unit] = []
    kind: Kind = "fact"
    kinds: dict[str, Kind] = {
        section.heading.lower(): _SECTION_KINDS[section.heading] for section in sections
    }
    for line in (previous or "").split("\n"):
        stripped = line.strip()
        if not stripped or stripped == "---":
            continue
        if stripped.startswith("#"):
            kind = kinds.get(stripped.strip("# ").lower(), "fact")
            continue
        text = _BULLET.sub("", stripped)
        role, colon, said = text.partition(": ")
        if not colon or role not in _ROLE_LABELS:
            role, said = "", text
        # A model's summary may be prose: each sentence of it competes by itself.
        for sentence in _SENTENCE_END.split(said) if len(said) > _MAX_UNIT_CHARS else [said]:
            if sentence:
                own = _carried_kind(sentence, kind, succeeded)
                if own == "topic" and units:
                    own = _kind_of(sentence)
                units.append(_Unit(sentence, role, own, len(units), carried=True))
    return units


def _carried_kind(statement: str, kind: Kind, succeeded: set[str]) -> Kind:
    """The kind its heading gives a statement; a failure that a success followed is a fact."""
    failed = re.match(r"tool (\S+) .*failed: ", statement)
    if failed is not None and failed.group(1) in succeeded:
        return "fact"
    return _kind_of(statement) if kind == "fact" else kind


_ROLE_LABELS = frozenset({"user", "assistant", "system", "tool"})
_SECTION_KINDS: Mapping[str, Kind] = {
    "Topic": "topic",
    "Key Points": "fact",
    "Current State": "outcome",
    "Open Items": "open",
    "Goal": "topic",
    "Constraints & Preferences": "preference",
    "Progress": "outcome",
    "Key Decisions": "decision",
    "Next Steps": "open",
    "Critical Context": "fact",
}
_HEADINGS: Mapping[Kind, tuple[str, ...]] = {
    "topic": ("Topic", "Goal"),
    "decision": ("Key Decisions", "Key Points"),
    "preference": ("Constraints & Preferences", "Key Points"),
    "fact": ("Critical Context", "Key Points"),
    "outcome": ("Progress", "Current State"),
    "open": ("Next Steps", "Open Items"),
}


def _compose(
    units: list[_Unit],
    previous: str | None,
    budget: int,
    sections: Sequence[SummarySection],
    succeeded: set[str],
) -> str:
    budget = max(MIN_BUDGET_TOKENS, budget)
    carried = _carried_units(previous, sections, succeeded)
    statements = [unit for unit in carried if unit.kind != "topic"] + units
    topic = [unit for unit in carried if unit.kind == "topic"] or _topic(units)
    statements = _without_repeats(statements, {unit.text for unit in topic})
    corpus = _Corpus.of(statements)
    for position, unit in enumerate(statements):
        unit.order = position
        unit.score = _score(unit, corpus)
    for unit in [*topic, *statements]:
        # Whitespace between lines is counted with each, headings once below.
        unit.line = _line_of(unit)
        unit.cost = count_string_tokens(unit.line + "\n")
    headings = sum(count_string_tokens(f"## {section.heading}\n\n") for section in sections)
    chosen = _choose(statements, topic, budget - headings)
    if not chosen and statements:
        # A summary is what stands between a full window and no answer: never none at all.
        chosen = [_cut_to_fit(max(statements, key=lambda unit: (unit.score, unit.order)), budget)]
    return _layout(chosen, sections)


def _topic(units: list[_Unit]) -> list[_Unit]:
    """The first thing a person said that is more than a greeting."""
    for unit in units:
        if unit.role == "user" and len(_words(unit.text)) >= 4:
            return [_Unit(clip(unit.text, 200), unit.role, "topic", -1)]
    return []


def _without_repeats(units: list[_Unit], taken: set[str]) -> list[_Unit]:
    seen = {text.casefold() for text in taken}
    kept: list[_Unit] = []
    # The newest wording of a repeated statement is the one that stays.
    for unit in reversed(units):
        key = unit.text.casefold()
        if key not in seen:
            seen.add(key)
            kept.append(unit)
    kept.reverse()
    return kept


def _choose(statements: list[_Unit], topic: list[_Unit], budget: int) -> list[_Unit]:
    """The best statements for their length within the budget; open items have a share of it."""
    chosen: list[_Unit] = []
    left = budget
    for unit in topic:
        if unit.cost <= min(left, max(40, budget * _TOPIC_SHARE)):
            chosen.append(unit)
            left -= unit.cost
    open_left = budget * _OPEN_SHARE
    for unit in reversed([unit for unit in statements if unit.kind == "open"]):
        if unit.cost <= min(open_left, left):
            chosen.append(unit)
            open_left -= unit.cost
            left -= unit.cost
    taken = {id(unit) for unit in chosen}
    ranked = sorted(
        (unit for unit in statements if id(unit) not in taken),
        key=lambda unit: (-unit.score / (unit.cost + 6) ** _COST_WEIGHT, -unit.order),
    )
    for unit in ranked:
        if unit.score > 0 and unit.cost <= left:
            chosen.append(unit)
            left -= unit.cost
    return chosen


def _line_of(unit: _Unit) -> str:
    return f"- {unit.role}: {unit.text}" if unit.role in _ROLE_LABELS else f"- {unit.text}"


def _cut_to_fit(unit: _Unit, budget: int) -> _Unit:
    """The statement cut until it leaves room for its heading, but to no less than a few words."""
    while len(unit.text) > _MIN_UNIT_CHARS and unit.cost > budget // 2:
        unit.text = unit.text[: max(_MIN_UNIT_CHARS, len(unit.text) * 2 // 3)].rstrip()
        unit.line = _line_of(unit) + " …"
        unit.cost = count_string_tokens(unit.line + "\n")
    return unit


def _layout(chosen: list[_Unit], sections: Sequence[SummarySection]) -> str:
    names = {section.heading for section in sections}
    lines: dict[str, list[str]] = {}
    for unit in sorted(chosen, key=lambda unit: unit.order):
        options = [heading for heading in _HEADINGS[unit.kind] if heading in names]
        heading = options[0] if options else sections[0].heading
        lines.setdefault(heading, []).append(unit.line)
    return "\n\n".join(
        f"## {section.heading}\n" + "\n".join(lines[section.heading])
        for section in sections
        if section.heading in lines
    )
