"""Whether search finds, what it costs, and how long it takes; inside workerd, without any model.

Recall on LoCoMo (``--data PATH``; Maharana et al., ACL 2024): every turn is one message, every
conversation one session of one object, the question is the query as it stands. Recall@k is the
share of a question's evidence turns among the first k results, averaged over the questions. The
first figures are for the form ``metadata`` of :mod:`datasets.locomo` (text with the picture's
caption in brackets, speaker and time in the metadata); ``named`` and ``bare`` give the index less.

Words of two characters in Chinese, Japanese and Korean come from the PyPI package
``chatterbot-corpus``: every sentence is one message, and a word is found if the first result holds
it.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support.bench import Bench, in_turn
from support.errors import SetupError
from support.worker_config import define_worker
from support.workerd import Workerd

sys.path.insert(0, str(Path(__file__).parent))

from datasets import locomo

WORKER = Path(__file__).parent / "workers" / "search_worker.py"
DEPTHS = (5, 10, 20)
SIZE = 10_000
"""Messages of the conversation that searches are timed in."""

UNSPACED = {
    "chinese": "[\u4e00-\u9fff]",
    "japanese": "[\u4e00-\u9fff]",
    "korean": "[\uac00-\ud7a3]",
}


class Client:
    """Requests to one object of the bench's Worker."""

    def __init__(self, running: Workerd, name: str) -> None:
        self._address = f"{running.url}/agents/bench/{name}"

    def send(self, operation: str, body: Any = None, **query: Any) -> Any:
        """Carry out one operation and return its JSON answer."""
        text = "&".join(f"{key}={quote(str(value))}" for key, value in query.items())
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._address}?op={operation}&{text}", data=data)
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())

    def append(self, session: str, messages: Sequence[Any]) -> None:
        """Append messages, in requests of bounded size."""
        for start in range(0, len(messages), 500):
            self.send("append", messages[start : start + 500], session=session)

    def ask(self, session: str, queries: Sequence[str], limit: int) -> list[list[str]]:
        """The ids found for each query."""
        answers: list[list[str]] = []
        for start in range(0, len(queries), 50):
            asked = queries[start : start + 50]
            answers += self.send("ask", asked, session=session, limit=limit)
        return answers


def run(bench: Bench) -> None:
    """Record all figures; those of LoCoMo need ``--data``."""
    if bench.data is None:
        raise SetupError("scripts/bench search needs --data PATH: a file of LoCoMo conversations")
    conversations = locomo.load(bench.data)
    worker = define_worker(WORKER, object_classes={"Bench": "Bench"}, assets=False)
    with bench.worker(worker) as running:
        for form in ("metadata", "named", "bare"):
            measure_recall(bench, Client(running, form), conversations, form)
        measure_unspaced(bench, Client(running, "unspaced"))
        measure_append(bench, running)
        measure_speed(bench, Client(running, "speed"))


def measure_recall(
    bench: Bench, client: Client, conversations: list[locomo.Conversation], form: str
) -> None:
    """Recall over all questions and, for the first form, by category and conversation."""
    found: list[tuple[int, str, dict[int, float]]] = []
    for conversation in conversations:
        client.append(conversation.name, locomo.messages(conversation, form))
        texts = [question.text for question in conversation.questions]
        answers = client.ask(conversation.name, texts, max(DEPTHS))
        for question, ids in zip(conversation.questions, answers, strict=True):
            recall = {
                depth: len(question.evidence.intersection(ids[:depth])) / len(question.evidence)
                for depth in DEPTHS
            }
            found.append((question.category, conversation.name, recall))
    suffix = "" if form == "metadata" else f", {form}"
    for depth in DEPTHS:
        bench.record(f"recall@{depth}{suffix}", _mean(r[depth] for _, _, r in found), "share")
    if form != "metadata":
        return
    bench.record("questions", len(found), "count")
    for category in sorted({category for category, _, _ in found}):
        mean = _mean(recall[10] for one, _, recall in found if one == category)
        bench.record(f"recall@10, category {category}", mean, "share")
    for conversation in conversations:
        mean = _mean(recall[10] for _, name, recall in found if name == conversation.name)
        bench.record(f"recall@10, conversation {conversation.name}", mean, "share")


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def measure_unspaced(bench: Bench, client: Client) -> None:
    """The share of two-character words whose first result holds them."""
    shares: list[float] = []
    for language, character in UNSPACED.items():
        sentences = corpus_sentences(language)
        words = two_character_words(sentences, character)
        if bench.quick:
            words = words[:100]
        messages = [
            {"id": str(number), "role": "user", "parts": [{"type": "text", "text": sentence}]}
            for number, sentence in enumerate(sentences)
        ]
        client.append(language, messages)
        answers = client.ask(language, words, 1)
        hits = [
            bool(ids) and word in sentences[int(ids[0])]
            for word, ids in zip(words, answers, strict=True)
        ]
        shares.append(_mean(map(float, hits)))
        bench.record(f"words of two characters found, {language}", shares[-1], "share")
    bench.record("words of two characters found", _mean(shares), "share")


def corpus_sentences(language: str) -> list[str]:
    """All sentences of the corpus in one language, each once.

    :raises SetupError: the package is not installed.
    """
    try:
        import chatterbot_corpus  # pyright: ignore[reportMissingTypeStubs]
        import yaml  # pyright: ignore[reportMissingModuleSource]
    except ImportError as error:
        raise SetupError("the bench of search needs the PyPI package chatterbot-corpus") from error
    directory = Path(str(chatterbot_corpus.__file__)).parent / "data" / language
    sentences: dict[str, None] = {}
    for path in sorted(directory.glob("*.yml")):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        for talk in content["conversations"]:
            sentences |= dict.fromkeys(line for line in talk if isinstance(line, str))
    return list(sentences)


def two_character_words(sentences: Iterable[str], character: str) -> list[str]:
    """Words of exactly two characters: runs of two, and pairs that several sentences share."""
    alone = re.compile(f"(?<!{character}){character}{{2}}(?!{character})")
    pair = re.compile(f"(?=({character}{{2}}))")
    words: set[str] = set()
    counts: dict[str, int] = {}
    for sentence in sentences:
        words.update(alone.findall(sentence))
        for found in set(pair.findall(sentence)):
            counts[found] = counts.get(found, 0) + 1
    return sorted(words | {word for word, count in counts.items() if count >= 2})


def made_up(count: int, start: int = 0) -> list[Any]:
    """Messages of about 240 characters, all different, each with a phrase of its own."""
    things = ("harbour", "engine", "budget", "garden", "signal", "ledger", "bridge", "archive")
    verbs = ("checked", "moved", "painted", "counted", "repaired", "described")
    made: list[Any] = []
    for number in range(start, start + count):
        thing, verb = things[number % 8], verbs[number % 6]
        text = (
            f"Note {number}: we {verb} the {thing} near station {number % 97} and agreed to look "
            f"again at the {things[number * 5 % 8]} of section {number % 53} in the afternoon. "
            f"The batch {number % 500} stays open until somebody has {verbs[number * 7 % 6]} "
            f"every part of it, as the plan for the week says."
        )
        role = "user" if number % 2 == 0 else "assistant"
        parts = [{"type": "text", "text": text}]
        made.append({"id": f"n{number}", "role": role, "parts": parts})
    return made


def measure_append(bench: Bench, running: Workerd) -> None:
    """An append with this index beside one with a single plain FTS5 index of the text."""
    ours, single = Client(running, "append"), Client(running, "append-single")
    batch = 50 if bench.quick else 200
    written = {"ours": 0, "single": 0}

    def timed(name: str, client: Client, **query: Any) -> float:
        messages = made_up(batch, written[name])
        written[name] += batch
        began = time.perf_counter()
        client.send("append-each", messages, session="a", **query)
        return (time.perf_counter() - began) * 1000 / batch

    timed("ours", ours)
    timed("single", single, single=1)
    mine, other = in_turn(5, lambda: timed("ours", ours), lambda: timed("single", single, single=1))
    bench.record("append", mine, "ms", against="append with one plain FTS5 index", compared=other)


def measure_speed(bench: Bench, client: Client) -> None:
    """One search among ten thousand messages."""
    size = 1_000 if bench.quick else SIZE
    client.append("s", made_up(size))
    queries = {
        "exact phrase in quotes": '"of section 17 in the afternoon"',
        "whole sentence of a message": "The batch 123 stays open until somebody has",
        "keyword": "ledger",
        "natural question": "What did we agree about the ledger near station 42?",
    }
    for name, query in queries.items():
        took: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            client.send("empty")
            empty = time.perf_counter() - began
            began = time.perf_counter()
            client.send("ask", [query], session="s", limit=20, times=20)
            took.append((time.perf_counter() - began - empty) * 1000 / 20)
        bench.record(f"search, {name}, {size:,} messages", statistics.median(took), "ms")
