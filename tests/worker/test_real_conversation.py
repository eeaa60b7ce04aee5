"""A whole real conversation in a real Worker: compacted by the alarm, and nothing of it lost.

The conversation is one of LoCoMo's where that data set is at hand (``PALIMPSEST_LOCOMO``, or
``shared/data/locomo-dev.json`` beside the repository), else one of the package chitchat-dataset;
questions then are rare words of a turn.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from support.workerd import Workerd

from tests.fixtures import StartWorker

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).parent / "workers" / "remembering_worker.py"
THRESHOLD = 3_000
QUESTIONS = 12

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages, and questions with the ids of the messages that answer them."""

    messages: list[Message]
    questions: list[tuple[str, set[str]]]


def locomo_path() -> Path:
    given = os.environ.get("PALIMPSEST_LOCOMO")
    return Path(given) if given else ROOT.parent / "shared" / "data" / "locomo-dev.json"


def read_locomo(path: Path) -> Conversation:
    entry = json.loads(path.read_text(encoding="utf-8"))[0]
    told = entry["conversation"]
    numbers = sorted(int(key.split("_")[1]) for key in told if re.fullmatch(r"session_\d+", key))
    turns = [turn for number in numbers for turn in told[f"session_{number}"]]
    messages: list[Message] = [
        {
            "id": turn["dia_id"],
            "role": "user" if turn["speaker"] == told["speaker_a"] else "assistant",
            "parts": [{"type": "text", "text": f"{turn['speaker']}: {turn['text']}"}],
        }
        for turn in turns
    ]
    early = {message["id"] for message in messages[: len(messages) // 2]}
    questions = [
        (asked["question"], set(asked["evidence"]))
        for asked in entry["qa"]
        if asked["category"] == 4 and asked["evidence"] and set(asked["evidence"]) <= early
    ]
    return Conversation(messages, questions[:QUESTIONS])


def read_chitchat() -> Conversation:
    package = importlib.util.find_spec("chitchat_dataset")
    assert package is not None
    assert package.origin is not None
    dataset = json.loads((Path(package.origin).parent / "dataset.json").read_bytes())
    turns = max(
        (entry["messages"] for entry in dataset.values() if 300 <= len(entry["messages"]) <= 600),
        key=len,
    )
    texts = [" ".join(message["text"] for message in turn) or "ok" for turn in turns]
    messages: list[Message] = [
        {
            "id": f"t{number}",
            "role": "user" if number % 2 == 0 else "assistant",
            "parts": [{"type": "text", "text": text}],
        }
        for number, text in enumerate(texts)
    ]
    words = Counter(word for text in texts for word in set(re.findall(r"[a-z]{5,}", text.lower())))
    questions: list[tuple[str, set[str]]] = []
    for number, text in enumerate(texts[: len(texts) // 2]):
        rare = [word for word in re.findall(r"[a-z]{5,}", text.lower()) if words[word] == 1]
        if len(rare) >= 3:
            questions.append((" ".join(rare[:4]), {f"t{number}"}))
    return Conversation(messages, questions[:QUESTIONS])


def send(running: Workerd, operation: str, body: Any = None, **query: str) -> Any:
    text = "".join(f"&{key}={quote(value)}" for key, value in query.items())
    url = f"{running.url}/agents/remembering/one?op={operation}{text}"
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=60) as response:
        return json.loads(response.read())


def wait_until_compacted(running: Workerd) -> dict[str, Any]:
    """Only looks: no connection, no write. What happens meanwhile is the alarm's doing."""
    deadline = time.monotonic() + 60
    while True:
        state = send(running, "overview")
        if state["tokens"] <= THRESHOLD:
            return state
        assert time.monotonic() < deadline, state
        time.sleep(0.25)


def test_real_conversation_is_compacted_and_remembered(start_worker: StartWorker) -> None:
    path = locomo_path()
    conversation = read_locomo(path) if path.is_file() else read_chitchat()
    messages = conversation.messages
    assert len(messages) > 300
    assert len(conversation.questions) == QUESTIONS
    running = start_worker(WORKER)
    for start in range(0, len(messages), 60):
        send(running, "append", messages[start : start + 60])
        wait_until_compacted(running)

    state = wait_until_compacted(running)
    assert state["connections"] == 0
    assert len(state["overlays"]) > 1, "it was compacted several times"
    assert state["context"][-1] == messages[-1]["id"]
    assert any(shown.startswith("compaction_") for shown in state["context"])
    assert send(running, "originals") == messages

    hidden = {message["id"] for message in messages} - set(state["context"])
    found = [
        evidence <= hidden and bool(evidence & set(send(running, "search", q=question)))
        for question, evidence in conversation.questions
    ]
    assert found[0]
    assert sum(found) >= 0.6 * len(found), conversation.questions

    running.kill()
    running.start("/agents/remembering/one?op=overview")
    assert send(running, "overview") == state
    assert send(running, "originals") == messages
    for (question, evidence), was_found in zip(conversation.questions, found, strict=True):
        again = evidence <= hidden and bool(evidence & set(send(running, "search", q=question)))
        assert again == was_found
