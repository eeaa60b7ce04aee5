"""What storing and reading a conversation costs, beside npm ``agents`` 0.22 and 0.32.

The three run in the same workerd binary and are measured in turn, from outside, on loopback. An
operation's time is that of a request that carries it out many times, less that of one that does
so few times, so that the cost of a request does not enter. A cold read is the first request to an
object in a new process: one that has served another object for a while, or one that has just
started, in which code runs before it is optimized. Messages have about 240 characters; those of
the large conversation about 2,000.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from support.bench import Bench
from support.js_worker import bundle_worker
from support.worker_config import define_worker
from support.workerd import Workerd

WORKERS = Path(__file__).parent / "workers"
OURS = "palimpsest"
OLD = "npm agents 0.22"
NEW = "npm agents 0.32"

PHRASE = "copper lantern"
QUESTION = "What did we decide about the copper lantern last week?"
RECENT_BYTES = 64 * 1024
LARGE_CHARACTERS = 2_000
IDLE_SECONDS = 3.0
"""After this long without a request the server may have closed a connection."""

EVICTION_SECONDS = 13.0
"""After this long without a request an object is evicted and its database closed."""

WARMING = 30
"""Rounds of requests to another object before a cold read: code is compiled as it is used."""

FEW, MANY = 10, 110
"""How many appends the two requests carry out that are compared."""

APPEND_ROUNDS = 15
"""Appends are so short that whatever else the machine does shows in a single round."""

_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
_WORDS = [a + b for a in _SYLLABLES for b in _SYLLABLES[:30]]


def message(number: int, characters: int = 236) -> dict[str, Any]:
    """A message of made-up words, few of them frequent; every 500th holds :data:`PHRASE`."""
    chance = random.Random(number)
    words = [f"Note {number}:"]
    if number % 500 == 250:
        words.append(PHRASE)
    length = sum(map(len, words))
    while length < characters:
        words.append(_WORDS[int(len(_WORDS) * chance.random() ** 2)])
        length += len(words[-1]) + 1
    return {
        "id": f"m{number}",
        "role": "assistant" if number % 2 else "user",
        "parts": [{"type": "text", "text": " ".join(words)}],
    }


class Peer:
    """One of the Workers that are compared, and how many messages its objects hold."""

    def __init__(self, running: Workerd) -> None:
        self.running = running
        self._sizes: dict[str, int] = {}
        self._connection: http.client.HTTPConnection | None = None
        self._used = 0.0

    def send(self, name: str, operation: str, body: Any = None, **query: Any) -> dict[str, Any]:
        """Carry out one operation on the object ``name``."""
        if self._connection is None or time.monotonic() - self._used > IDLE_SECONDS:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.running.port)
        data = None if body is None else json.dumps(body, separators=(",", ":"))
        path = f"/agents/bench/{name}?{urlencode({'op': operation, **query})}"
        self._connection.request("GET" if data is None else "POST", path, data)
        response = self._connection.getresponse()
        text = response.read()
        self._used = time.monotonic()
        if response.status != 200:
            raise RuntimeError(f"{operation}: {response.status} {text[:500]!r}")
        return json.loads(text)

    def timed(self, name: str, operation: str, **query: Any) -> float:
        """Milliseconds of one request."""
        began = time.perf_counter()
        self.send(name, operation, **query)
        return (time.perf_counter() - began) * 1000

    def fill(self, name: str, size: int, characters: int = 236) -> None:
        """Bring an object to ``size`` messages."""
        held = self._sizes.get(name, 0)
        batch = max(1, min(500, 1_000_000 // characters))
        for start in range(held, size, batch):
            self.load(name, min(batch, size - start), characters)
            self.send(name, "fill")

    def load(self, name: str, count: int, characters: int = 236) -> None:
        """Hand over the next messages, to be appended by a later request."""
        held = self._sizes.get(name, 0)
        self.send(name, "load", [message(held + n, characters) for n in range(count)])
        self._sizes[name] = held + count

    def append(self, name: str, characters: int = 236) -> float:
        """Milliseconds of one append."""
        times: list[float] = []
        for count in (FEW, MANY):
            self.load(name, count, characters)
            times.append(self.timed(name, "append"))
        return (times[1] - times[0]) / (MANY - FEW)

    def read(self, name: str, operation: str, times: int, **query: Any) -> float:
        """Milliseconds of one read."""
        one = self.timed(name, operation, times=1, **query)
        return (self.timed(name, operation, times=times + 1, **query) - one) / times

    def rows(self, name: str, operation: str, **query: Any) -> tuple[int, int]:
        """Rows that one operation reads and writes, as Cloudflare bills them."""
        if operation == "append":
            self.load(name, 1)
        answer = self.send(name, operation, rows=1, **query)
        return int(answer["read"]), int(answer["written"])

    def heap(self, name: str) -> float:
        """MiB of WebAssembly memory of the process."""
        return int(self.send(name, "heap")["count"]) / 2**20

    def restart(self, warming: int = WARMING) -> None:
        """A new process, warmed by another object than those that are measured."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.running.kill()
        self.running.start()
        for _ in range(warming):
            self.load("warm", 10)
            for operation in ("append", "history"):
                self.send("warm", operation)
            self.send("warm", "recent", bytes=RECENT_BYTES)
            self.send("warm", "search", q=PHRASE)

    def cold(self, name: str, operation: str, warming: int = WARMING, **query: Any) -> float:
        """Milliseconds of the first read of an object, less those of an empty request."""
        self.restart(warming)
        empty = statistics.median(self.timed("warm", "empty") for _ in range(9))
        return self.timed(name, operation, **query) - empty


def medians(rounds: int, measures: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Medians of measurements that take turns."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(rounds):
        for name in list(measures)[:: 1 if number % 2 == 0 else -1]:
            found[name].append(measures[name]())
    return {name: statistics.median(values) for name, values in found.items()}


@contextmanager
def peers(bench: Bench) -> Generator[dict[str, Peer]]:
    """The three Workers, running."""
    ours = define_worker(
        WORKERS / "storage_worker.py", object_classes={"Bench": "Bench"}, assets=False
    )
    classes = {"Bench": "Bench"}
    with ExitStack() as stack:
        yield {
            OURS: Peer(stack.enter_context(bench.worker(ours))),
            OLD: Peer(
                stack.enter_context(
                    bench.worker(
                        bundle_worker(WORKERS / "sessions_022.mjs", classes), snapshot=False
                    )
                )
            ),
            NEW: Peer(
                stack.enter_context(
                    bench.worker(
                        bundle_worker(WORKERS / "sessions_032.mjs", classes), snapshot=False
                    )
                )
            ),
        }


def run(bench: Bench) -> None:
    """Record all figures."""
    scale = 10 if bench.quick else 1
    with peers(bench) as all_peers:
        measure_appends(bench, all_peers, scale)
        measure_reads(bench, all_peers, scale)
        measure_rows(bench, all_peers, scale)
        measure_cold(bench, all_peers, scale)
        measure_large(bench, all_peers[OURS], scale)


def _sizes(scale: int) -> tuple[int, int, int, int, int]:
    return 100, 1_000 // scale, 4_000 // scale, 10_000 // scale, 100_000 // scale


def measure_appends(bench: Bench, found: dict[str, Peer], scale: int) -> None:
    """One append at every size, each against ours at 100, and at 4,000 against the others."""
    ours, old, new = found[OURS], found[OLD], found[NEW]
    sizes = _sizes(scale)
    for size in sizes[1:4]:
        name = f"append{size}"
        ours.fill(name, size)
        compare_with_small(bench, ours, name, size)
    middle = sizes[2]
    name = f"append{middle}"
    for peer in (old, new):
        peer.fill(name, middle)
    rounds = _append_rounds(bench)
    result = medians(rounds, {OURS: lambda: ours.append(name), NEW: lambda: new.append(name)})
    bench.record(
        f"append at {middle:,}", result[OURS], "ms",
        against=f"{NEW} before its first search", compared=result[NEW],
    )  # fmt: skip
    new.send(name, "search", q=PHRASE)
    result = medians(rounds, {OURS: lambda: ours.append(name), NEW: lambda: new.append(name)})
    bench.record(
        f"append at {middle:,}", result[OURS], "ms",
        against=f"{NEW} with its search index in use", compared=result[NEW],
    )  # fmt: skip
    theirs = statistics.median(slow_append(old, name) for _ in range(3))
    mine = statistics.median(ours.append(name) for _ in range(rounds))
    bench.record(f"append at {middle:,}", mine, "ms", against=OLD, compared=theirs)


def _append_rounds(bench: Bench) -> int:
    return 3 if bench.quick else APPEND_ROUNDS


def compare_with_small(bench: Bench, ours: Peer, name: str, size: int) -> None:
    """An append to an object of ``size`` against one to objects of 100 messages."""
    numbers = itertools.count()

    def small() -> float:
        chosen = f"{name}-small{next(numbers)}"
        ours.fill(chosen, 100)
        return ours.append(chosen)

    result = medians(_append_rounds(bench), {"large": lambda: ours.append(name), "small": small})
    bench.record(
        f"append at {size:,}", result["large"], "ms",
        against="append at 100", compared=result["small"],
    )  # fmt: skip


def slow_append(peer: Peer, name: str) -> float:
    """Milliseconds of one append where it takes so long that a request counts for nothing."""
    peer.load(name, 3)
    return peer.timed(name, "append") / 3


def measure_reads(bench: Bench, found: dict[str, Peer], scale: int) -> None:
    """Warm reads of one history, and searches in it."""
    size = _sizes(scale)[2]
    name = f"n{size}"
    for peer in found.values():
        peer.fill(name, size)
        peer.send(name, "search", q=PHRASE)  # 0.32 makes its index with the first search
    reads: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
        (f"history of {size:,}, warm", "history", 3, {}),
        (f"recent context of 64 KiB of {size:,}, warm", "recent", 10, {"bytes": RECENT_BYTES}),
        (f"search for a phrase in {size:,}", "search", 200, {"q": f'"{PHRASE}"'}),
        (f"search for a question in {size:,}", "search", 20, {"q": QUESTION}),
    )
    for figure, operation, times, query in reads:
        measure_read(bench, found, name, figure, operation, times, query)


def measure_read(
    bench: Bench,
    found: dict[str, Peer],
    name: str,
    figure: str,
    operation: str,
    times: int,
    query: dict[str, Any],
) -> None:
    """One kind of warm read, beside both others."""
    ours = found[OURS]

    def reading(peer: Peer) -> Callable[[], float]:
        return lambda: peer.read(name, operation, times, **asked(peer, ours, query))

    result = medians(3 if bench.quick else 5, {peer: reading(one) for peer, one in found.items()})
    for other in (OLD, NEW):
        suffix = ""
        if operation == "search":
            hits = found[other].send(name, operation, **asked(found[other], ours, query))
            suffix = f", which finds {hits['count']}"
        bench.record(figure, result[OURS], "ms", against=other + suffix, compared=result[other])


def asked(peer: Peer, ours: Peer, query: dict[str, Any]) -> dict[str, Any]:
    """A query as a peer takes it: the others take every query for a phrase, without quotes."""
    if peer is ours or "q" not in query:
        return query
    return {"q": str(query["q"]).strip('"')}


def measure_rows(bench: Bench, found: dict[str, Peer], scale: int) -> None:
    """Rows that are billed, per append and per turn, with every search index in use."""
    size = _sizes(scale)[2]
    name = f"n{size}"
    for peer in found.values():
        peer.send(name, "search", q=PHRASE)
        lay_overlay(peer, name, size)
        peer.rows(name, "append")
        peer.rows(name, "history")
    appended = {peer: one.rows(name, "append") for peer, one in found.items()}
    context = {peer: one.rows(name, "history") for peer, one in found.items()}
    for other in (OLD, NEW):
        for kind, index in (("read", 0), ("written", 1)):
            bench.record(
                f"rows {kind} per append at {size:,}", appended[OURS][index], "rows",
                against=other, compared=appended[other][index],
            )  # fmt: skip
        for kind, index in (("read", 0), ("written", 1)):
            turn = {
                peer: 2 * appended[peer][index] + context[peer][index] for peer in (OURS, other)
            }
            bench.record(
                f"rows {kind} per turn at {size:,}", turn[OURS], "rows",
                against=other, compared=turn[other],
            )  # fmt: skip


def measure_cold(bench: Bench, found: dict[str, Peer], scale: int) -> None:
    """First reads of an object in a new process."""
    ours, new = found[OURS], found[NEW]
    small, _, _, large, _ = _sizes(scale)
    for size in (small, large):
        ours.fill(f"turn{size}", size)
        lay_overlay(ours, f"turn{size}", size)
    name = f"n{large}"
    for peer in (ours, new):
        peer.fill(name, large)
    settle()
    query = {"bytes": RECENT_BYTES}
    for warming, state in ((WARMING, "cold"), (0, "cold, process just started")):
        rounds = 2 if bench.quick else 3 if warming else 9
        result = medians(
            rounds,
            {
                "large": lambda w=warming: ours.cold(f"turn{large}", "history", w),
                "small": lambda w=warming: ours.cold(f"turn{small}", "history", w),
            },
        )
        bench.record(
            f"context of a turn at {large:,}, {state}", result["large"], "ms",
            against=f"at {small:,}", compared=result["small"],
        )  # fmt: skip
        result = medians(
            rounds,
            {
                OURS: lambda w=warming: ours.cold(name, "recent", w, **query),
                NEW: lambda w=warming: new.cold(name, "recent", w, **query),
            },
        )
        bench.record(
            f"recent context of 64 KiB of {large:,}, {state}", result[OURS], "ms",
            against=NEW, compared=result[NEW],
        )  # fmt: skip
    for peer in (ours, new):
        peer.restart()
    result = medians(
        rounds,
        {
            OURS: lambda: ours.read(name, "recent", 10, **query),
            NEW: lambda: new.read(name, "recent", 3, **query),
        },
    )
    bench.record(
        f"recent context of 64 KiB of {large:,}, warm", result[OURS], "ms",
        against=NEW, compared=result[NEW],
    )  # fmt: skip


def settle() -> None:
    """Let all objects be evicted.

    Otherwise the first read after a process was killed would also replay what was written last,
    and how much that is depends on chance.
    """
    time.sleep(EVICTION_SECONDS)


def lay_overlay(peer: Peer, name: str, size: int) -> None:
    """Cover all but the first three and the last twenty of an object's messages."""
    peer.send(name, "overlay", **{"from": "m3", "to": f"m{size - 21}"})


def measure_large(bench: Bench, ours: Peer, scale: int) -> None:
    """A conversation of 100,000 messages and 200 MB: its context, an append, and the heap."""
    small, large = _sizes(scale)[1], _sizes(scale)[4]
    rounds = 3 if bench.quick else 5
    ours.restart()
    for name, size in (("small", small), ("large", large)):
        ours.fill(name, size, LARGE_CHARACTERS)
    heaps = [ours.heap("large")]
    for query in (QUESTION, f'"{PHRASE}"', "note 77777"):
        ours.send("large", "search", q=query)
    count = int(ours.send("large", "scan")["count"])
    if count != large:
        raise RuntimeError(f"{count} messages were read of {large}")
    ours.send("large", "recent", bytes=RECENT_BYTES)
    heaps.append(ours.heap("large"))
    ours.restart()
    for name, size in (("small", small), ("large", large)):
        lay_overlay(ours, name, size)
    settle()

    def turn(name: str) -> float:
        return ours.read(name, "history", 20)

    def first_turn(name: str) -> float:
        return ours.cold(name, "history", 0)

    for state, times, read in (
        ("", 3 * rounds, turn),
        (", process just started", 2 * rounds, first_turn),
    ):
        both = {name: partial(read, name) for name in ("large", "small")}
        medians(1, both)  # whoever is measured first must not pay for what both use first
        result = medians(times, both)
        bench.record(
            f"context of a turn at {large:,}{state}", result["large"], "ms",
            against=f"at {small:,}", compared=result["small"],
        )  # fmt: skip
    ours.restart()
    compare_with_small(bench, ours, "large", large)
    megabytes = large * LARGE_CHARACTERS // 1_000_000
    bench.record(
        f"heap with a conversation of {large:,} messages, {megabytes} MB", max(heaps), "MiB"
    )
