"""The offline model's reading: is it a question, what to search for, which sentence answers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Passage:
    """Something that was said, and by whom (``user``, ``assistant``, ...; '' where unknown)."""

    role: str
    text: str


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_QUESTION_MARKS = ("?", "？", "؟")
_QUESTION_OPENINGS = _words(
    # English
    "what whats what's who who's whose whom where where's when when's why how which do does did is"
    " are was were am can could will would should shall may has have had"
    # German, French, Spanish, Italian, Portuguese, Dutch
    " was wer wem wen wessen wo wann warum wieso wie welche welcher welches woher wohin"
    " qui que quoi quel quelle quels quelles où quand pourquoi comment combien est-ce"
    " qué quién quiénes cuál cuáles dónde cuándo cómo cuánto cuántos cuántas"
    " chi cosa dove quando perché come quale quali quanto"
    " quem onde qual quais como porquê wat wie waar wanneer waarom hoe welk"
)
_RECALL_REQUESTS = re.compile(
    r"^(please\s+|can you\s+|could you\s+)?(tell me|remind me|show me|find|search|look up|recall|"
    r"list|sag mir|erinnere mich|such|finde|dis-moi|rappelle-moi|dime|recuérdame)\b",
    re.IGNORECASE,
)
_REMEMBER_REQUESTS = re.compile(
    r"^(please\s+)?(remember|note|keep in mind|merke? dir|souviens-toi|recuerda)\b", re.IGNORECASE
)
_CJK_QUESTION = re.compile(
    r"(吗|嗎|呢|什么|什麼|谁|誰|哪|怎么|怎麼|几|幾|多少|为什么|為什麼|何|どこ|いつ|だれ|なぜ|どう|どの|"
    r"ですか|ますか|でしょうか|무엇|뭐|누구|어디|언제|왜|어떻게|입니까|습니까|나요|까요)"
)
_STOP_WORDS = _words(
    "a an the my your our his her its their i you he she it we they me him them us is are was were"
    " be been am do does did done have has had can could will would should shall may might must"
    " what who whom whose where when why how which that this these those there of in on at to for"
    " from by with about and or but not no so if then than as into over tell remind show find"
    " please ever again know remember say said told what's who's where's when's"
    " der die das ein eine mein meine dein deine ist sind war heißt wie was wer wo wann und oder"
    " le la les un une mon ma ton ta est sont el los las mi tu es son"
)
_WEAK_WORDS = _words("called call name named names heißt")
"""They tell little by themselves: nearly everything has a name."""

_RELATED = (
    ("call", "called", "name", "named", "names"),
    ("live", "home", "address"),
    ("birthday", "born"),
    ("work", "job"),
)
"""What is asked for with one word is often told with another."""
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"[\w'’-]+", re.UNICODE)
_WIDE = re.compile(
    r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]+"
)
_ROLE_PREFIX = re.compile(r"^\s*\[(\w+)[^\]]*\]\s*")
_POSSESSIVE = re.compile(r"['’]s$")
_HIGHLIGHT = re.compile(r"</?(?:b|mark|em)>")
WEAK_WEIGHT = 0.4
"""How much a shared weak word counts beside a word that carries meaning."""

MAX_SENTENCE_CHARS = 400
"""A longer sentence is quoted up to here."""


def is_question(text: str) -> bool:
    """Whether the text asks for something that was said before."""
    stripped = text.strip()
    if not stripped or _REMEMBER_REQUESTS.match(stripped):
        return False
    if stripped.rstrip("\"'”’)!").endswith(_QUESTION_MARKS) or stripped.startswith("¿"):
        return True
    if any(mark in stripped for mark in _QUESTION_MARKS):
        return True
    if _RECALL_REQUESTS.match(stripped):
        return True
    words = _WORD.findall(stripped.casefold())
    if words and words[0] in _QUESTION_OPENINGS:
        return True
    return bool(_CJK_QUESTION.search(stripped)) and bool(_WIDE.search(stripped))


def search_terms(question: str) -> str:
    """The words of a question that carry meaning, in order; the question itself if none do."""
    strong: list[str] = []
    weak: list[str] = []
    for word in _WORD.findall(question):
        folded = word.casefold().strip("'’-")
        if not folded or folded in _STOP_WORDS:
            continue
        kept = weak if folded in _WEAK_WORDS else strong
        bare = _POSSESSIVE.sub("", word)
        if bare and bare not in kept:
            kept.append(bare)
    return " ".join(strong or weak) or " ".join(question.split())


def failure_of(result: Any) -> str | None:
    """What went wrong, where a search's result says so (Sessions document: ``Error: ...``)."""
    if not isinstance(result, str):
        return None
    match = re.match(r"\s*Error:\s*(.*)", result, re.DOTALL)
    return match.group(1).strip() or "the search failed" if match else None


def read_passages(result: Any) -> list[Passage]:
    """The passages of a search result: text with ``[role]`` marks, or a list of hits."""
    if isinstance(result, str):
        pieces = re.split(r"\n\s*---\s*\n", result)
        return [passage for piece in pieces if (passage := _passage_of_text(piece)).text]
    if isinstance(result, Mapping):
        fields = cast("Mapping[str, Any]", result)
        for key in ("results", "hits", "matches"):
            if isinstance(fields.get(key), list):
                return read_passages(fields[key])
        text = fields.get("text") or fields.get("content") or fields.get("snippet")
        if isinstance(text, str):
            return [Passage(str(fields.get("role", "")), _HIGHLIGHT.sub("", text))]
        return []
    if isinstance(result, list):
        return [passage for entry in cast("list[Any]", result) for passage in read_passages(entry)]
    return []


def _passage_of_text(piece: str) -> Passage:
    match = _ROLE_PREFIX.match(piece)
    role = match.group(1).casefold() if match else ""
    text = piece[match.end() :] if match else piece
    if not match and re.match(r"\s*(no results found|error:)", text, re.IGNORECASE):
        return Passage("", "")
    return Passage(role, _HIGHLIGHT.sub("", text).strip())


@dataclass(frozen=True, slots=True)
class Answer:
    """The sentence that fits a question best."""

    role: str
    text: str
    complete: bool
    """Whether it has everything that the question asks about, not only some of it."""


def best_answer(question: str, passages: Iterable[Passage]) -> Answer | None:
    """The single sentence that shares most with the question; None where none shares enough.

    What the user said counts more than what the model said, a statement more than a question, and
    the order of the passages (the search's own ranking) breaks ties.
    """
    strong, weak = _features(question)
    if not strong and not weak:
        return None
    asked = _normal(question)
    best: tuple[float, Answer] | None = None
    for rank, passage in enumerate(passages):
        for sentence in _SENTENCE_END.split(passage.text):
            sentence = " ".join(sentence.split())
            if not sentence or _normal(sentence) == asked:
                continue
            present, present_weak = _features(sentence)
            shared = strong & present
            if strong and not shared:
                continue
            score = _score(strong, weak, present, present_weak)
            if passage.role == "assistant":
                # The model's own words often repeat the question; a person's are the source.
                score *= 0.6
            if is_question(sentence):
                score *= 0.3
            score -= rank * 0.001
            if score > 0.15 and (best is None or score > best[0]):
                answer = Answer(passage.role, _clip(sentence), complete=shared == strong)
                best = (score, answer)
    return None if best is None else best[1]


def _score(strong: set[str], weak: set[str], present: set[str], present_weak: set[str]) -> float:
    shared = len(strong & present) + WEAK_WEIGHT * len(weak & present_weak)
    score = shared / (len(strong) + WEAK_WEIGHT * len(weak))
    # Of two sentences that share as much, the one that says less besides is the answer.
    return score - 0.01 * min(len(present), 10)


def _features(text: str) -> tuple[set[str], set[str]]:
    """What a text is about: stems of words that carry meaning and pairs of characters of scripts
    without spaces; and, apart, what nearly every text shares."""
    strong: set[str] = set()
    weak: set[str] = set()
    for run in _WIDE.findall(_CJK_QUESTION.sub(" ", text)):
        strong.update(run[index : index + 2] for index in range(max(len(run) - 1, 1)))
    for word in _WORD.findall(_WIDE.sub(" ", text).casefold()):
        bare = word.strip("'’-")
        for index, group in enumerate(_RELATED):
            if bare in group:
                weak |= {f"related {index}", bare}
        stem = _stem(bare)
        if stem and bare not in _STOP_WORDS and bare not in _WEAK_WORDS:
            strong.add(stem)
    return strong, weak


def _stem(word: str) -> str:
    stem = word.strip("'’-")
    for ending in ("'s", "’s"):
        stem = stem.removesuffix(ending)
    stem = "".join(
        character
        for character in unicodedata.normalize("NFKD", stem)
        if not unicodedata.combining(character)
    )
    for ending in ("ing", "ed", "es", "s"):
        if len(stem) > len(ending) + 2 and stem.endswith(ending):
            stem = stem.removesuffix(ending)
            break
    return stem.removesuffix("e") if len(stem) > 3 else stem


def _normal(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _clip(sentence: str) -> str:
    if len(sentence) <= MAX_SENTENCE_CHARS:
        return sentence
    return sentence[:MAX_SENTENCE_CHARS].rstrip() + "…"
