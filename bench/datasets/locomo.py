"""Conversations of LoCoMo as messages and questions (the data is read by path, never kept here)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palimpsest.messages import Message
from palimpsest.store.search_times import parse_moment

_TURN = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Question:
    """One question and the turns that hold its answer."""

    text: str
    evidence: frozenset[str]
    category: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of two people over many sittings."""

    name: str
    turns: list[dict[str, Any]]
    """``id``, ``speaker``, ``text``, ``caption`` ('' for none), ``at`` (ms since 1970)."""

    questions: list[Question]


def load(path: Path) -> list[Conversation]:
    """Read the data set: a JSON array of conversations, or an object with one.

    A question counts if at least one of its evidence ids is a turn of the conversation.
    """
    return [_conversation(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(entry: dict[str, Any]) -> Conversation:
    told = entry["conversation"]
    turns: list[dict[str, Any]] = []
    sittings = sorted(
        int(key.split("_")[1]) for key in told if re.fullmatch(r"session_\d+", key) and told[key]
    )
    for number in sittings:
        at = parse_moment(told.get(f"session_{number}_date_time"))
        turns += (
            {
                "id": turn["dia_id"], "speaker": turn["speaker"], "text": turn["text"],
                "caption": turn.get("blip_caption") or "", "at": at,
            }
            for turn in told[f"session_{number}"]
        )  # fmt: skip
    known = {turn["id"] for turn in turns}
    questions = [
        Question(asked["question"], evidence, asked["category"])
        for asked in entry["qa"]
        if (
            evidence := frozenset(
                identifier
                for text in asked.get("evidence") or ()
                for identifier in _TURN.findall(text)
                if identifier in known
            )
        )
    ]
    return Conversation(str(entry.get("sample_id", "")), turns, questions)


def messages(conversation: Conversation, form: str) -> list[Message]:
    """Every turn as one message, in one of these forms:

    - ``metadata``: the text (and the caption of a shared picture in brackets); the speaker and the
      time of the sitting in the metadata.
    - ``named``: "Speaker: text", without captions and times.
    - ``bare``: the text only; the speakers are user and assistant.
    """
    first = conversation.turns[0]["speaker"]
    made: list[Message] = []
    for turn in conversation.turns:
        text, metadata = turn["text"], {}
        if form == "metadata":
            metadata = {"speaker": turn["speaker"], "createdAt": turn["at"]}
            if turn["caption"]:
                text += f"\n[shares {turn['caption']}]"
        elif form == "named":
            text = f"{turn['speaker']}: {text}"
        message: Message = {
            "id": turn["id"],
            "role": "user" if turn["speaker"] == first else "assistant",
            "parts": [{"type": "text", "text": text}],
        }
        if metadata:
            message["metadata"] = metadata
        made.append(message)
    return made
