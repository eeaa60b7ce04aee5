"""What survives a long real conversation that is compacted without a model.

1,000 turns of the chitchat dataset, 100 facts planted as exact strings in what is later compacted:
most stand in the context that the next turn sees, and search finds every one.
"""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from palimpsest.messages import text_message, text_of
from palimpsest.session.session import Session
from palimpsest.testing import LocalHost

TURNS = 1_000
FACTS = 100
NAMES = ["Ada", "Ravi", "Mei", "Olu", "Sven", "Carla", "Dmitri", "Yuki", "Noor", "Tomas"]
THINGS = ["kettle", "bridge", "ledger", "turbine", "garden", "violin", "server", "parcel"]


def real_turns(seed: int) -> list[str]:
    """Turns of real conversations, one after the other."""
    package = importlib.util.find_spec("chitchat_dataset")
    assert package is not None
    assert package.origin is not None
    # The package's own loader leaves the file open, which is an error here.
    dataset = json.loads((Path(package.origin).parent / "dataset.json").read_bytes())
    keys = sorted(dataset)
    random.Random(seed).shuffle(keys)
    turns: list[str] = []
    for key in keys:
        for turn in dataset[key]["messages"]:
            turns.append(" ".join(message["text"] for message in turn) or "ok")
            if len(turns) == TURNS:
                return turns
    raise AssertionError("the dataset is too small")


def codes(randomness: random.Random) -> list[str]:
    return [
        f"The access code of the {randomness.choice(THINGS)} of {randomness.choice(NAMES)} is "
        f"{randomness.choice('ABCDEF')}{randomness.randint(1000, 9999)}-{number:02d}."
        for number in range(FACTS)
    ]


def mixed(randomness: random.Random) -> list[str]:
    """Decisions, dates, paths, preferences and amounts."""
    facts: list[str] = []
    for number in range(FACTS):
        name, thing = randomness.choice(NAMES), randomness.choice(THINGS)
        day, amount = randomness.randint(1, 28), randomness.randint(100, 9999)
        facts.append(
            [
                f"We decided to name the {thing} of {name} Project Heron-{number}.",
                f"The inspection of the {thing} is on {day} October, said {name} ({number}).",
                f"The settings live in /srv/{thing}/{name.lower()}-{number}.toml.",
                f"{name} is allergic to gluten and gets menu {number} by the {thing}.",
                f"The budget for {thing} number {number} is {amount} euros.",
            ][number % 5]
        )
    return facts


@pytest.mark.parametrize("threshold", [5_000, 12_000])
@pytest.mark.parametrize("facts_of", [codes, mixed])
async def test_facts_survive(
    facts_of: Callable[[random.Random], list[str]], threshold: int
) -> None:
    randomness = random.Random(7)
    facts = facts_of(randomness)
    turns = real_turns(1)
    places = sorted(randomness.sample(range(5, 600), FACTS))
    for fact, place in zip(facts, places, strict=True):
        turns[place] = f"{turns[place]} {fact}"
    host = LocalHost()
    session = Session.create(host).compact_after(threshold)
    for number, text in enumerate(turns):
        role = "user" if number % 2 == 0 else "assistant"
        await session.append_message(text_message(f"m{number}", role, text))
        if number % 20 == 19:
            await host.advance(1)
    history = await session.get_history()
    context = "\n".join(text_of(message) for message in history)
    assert session.context_tokens() <= threshold
    hidden = {f"m{place}" for place in places} - {message["id"] for message in history}
    assert len(hidden) == FACTS, "every planted message was compacted"
    kept = sum(fact in context for fact in facts)
    assert kept >= 60, f"{kept} of {FACTS} facts stand in the context"
    for fact, place in zip(facts, places, strict=True):
        found = await session.search(fact, limit=20)
        assert f"m{place}" in [result.id for result in found], fact
    assert len(await session.get_originals()) == TURNS
    host.close()
