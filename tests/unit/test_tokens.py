"""The documented heuristic exactly; the default counter against real o200k counts."""

from __future__ import annotations

import argparse
import ast
import base64
import functools
import http.client
import inspect
import json
import logging
import math
import random
import statistics
import struct
import sys
import time
import tracemalloc
import uuid
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chatterbot_corpus
import pytest

from palimpsest.token_text import count_words, slices_of
from palimpsest.tokens import (
    Calibration,
    TokenCounter,
    count_message_tokens,
    count_part_tokens,
    count_string_tokens,
    count_tools_tokens,
    estimate_message_tokens,
    estimate_string_tokens,
)
from palimpsest.tools import Tool
from tests.support.o200k import count_o200k

CORPUS = Path(chatterbot_corpus.__file__).parent / "data"


true_count = functools.cache(count_o200k)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 2),  # one word: 1.3, rounded up
        ("hello world", 3),  # 11 / 4 = 2.75
        ("a b c d e f g h i j", 13),  # ten words
        ("x" * 400, 100),
        ("你好" * 100, 50),
        ("😀" * 8, 4),  # JavaScript's length counts two units each
    ],
)
def test_the_documented_heuristic_is_exact(text: str, tokens: int) -> None:
    assert estimate_string_tokens(text) == tokens


def test_the_documented_message_estimate_is_exact() -> None:
    message = {
        "id": "m",
        "role": "assistant",
        "parts": [
            {"type": "text", "text": "x" * 40},
            {"type": "reasoning", "text": "y" * 80},
            {"type": "tool-search", "input": {"q": "abcd"}, "output": "z" * 400},
            {"type": "step-start"},
        ],
    }
    tool_tokens = estimate_string_tokens('{"q":"abcd"}') + 100
    assert estimate_message_tokens(message) == 4 + 10 + 20 + tool_tokens
    assert estimate_message_tokens([message, message]) == 2 * estimate_message_tokens(message)
    assert estimate_message_tokens({"id": "m", "role": "user", "parts": []}) == 4


def spoken(language: str) -> list[str]:
    texts: list[str] = []
    for path in sorted((CORPUS / language).glob("*.yml")):
        lines = [
            line.strip(" -\n'\"")
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.startswith(("- -", "  -"))
        ]
        texts += ["\n".join(lines[start : start + 5]) for start in range(0, len(lines) - 4, 5)]
    return texts


def code() -> list[str]:
    sources = [inspect.getsource(module) for module in (argparse, http.client, ast, logging)]
    return [
        source[start : start + 1500]
        for source in sources
        for start in range(0, len(source) - 1500, 1500)
    ]


def tool_json() -> list[str]:
    chance = random.Random(7)
    keys = [
        "id",
        "name",
        "created_at",
        "value",
        "items",
        "status",
        "price",
        "description",
        "tags",
        "owner",
    ]
    names = ["alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"]

    def value(depth: int) -> Any:
        made: list[Any] = [
            chance.randint(1, 9999),
            round(chance.random() * 100, 2),
            chance.choice(names),
            True,
            None,
            f"2026-11-{chance.randint(10, 28)}T10:{chance.randint(10, 59)}:00Z",
            f"the {chance.choice(names)} of {chance.choice(names)} is fine",
        ]
        if depth < 2:
            made += [record(depth + 1), [record(depth + 1) for _ in range(3)]]
        return chance.choice(made)

    def record(depth: int) -> Any:
        return {chance.choice(keys): value(depth) for _ in range(chance.randint(3, 7))}

    records = [[record(0) for _ in range(3)] for _ in range(40)]
    return [json.dumps(made, separators=(",", ":")) for made in records[:20]] + [
        json.dumps(made, indent=2) for made in records[20:]
    ]


def noise(write: Callable[[bytes], str]) -> list[str]:
    chance = random.Random(3)
    return [write(chance.randbytes(size)) for size in (16, 20, 32, 64, 128, 512, 3000) * 4]


def emoji() -> list[str]:
    chance = random.Random(5)
    listed = list("😂❤️🤣👍😭🙏😘🥰😍😊🎉😁💕🥺😅🔥🤦🤷🙄😆🤗😉🎂🤔👏🙂😳🥳😎👌💜😔💪✨💖👀😋")
    return ["".join(chance.choice(listed) for _ in range(20)) for _ in range(40)]


KINDS: dict[str, Callable[[], list[str]]] = {
    "English": lambda: spoken("english"),
    "code": code,
    "JSON": tool_json,
    "Chinese": lambda: spoken("chinese"),
    "traditional Chinese": lambda: spoken("traditionalchinese"),
    "Japanese": lambda: spoken("japanese"),
    "Korean": lambda: spoken("korean"),
    "Russian": lambda: spoken("russian"),
    "hex": lambda: noise(bytes.hex),
    "UUIDs": lambda: [
        "\n".join(str(uuid.UUID(int=random.Random(n).getrandbits(128))) for n in range(count))
        for count in (1, 5, 50)
    ],
    "base64": lambda: noise(lambda data: base64.b64encode(data).decode()),
    "base64 of text": lambda: [
        base64.b64encode(text.encode()).decode() for text in spoken("english")[:40]
    ],
    "emoji": emoji,
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_counter_is_near_the_true_count(kind: str) -> None:
    texts = [text for text in KINDS[kind]() if true_count(text) >= 8]
    ratio = statistics.median(count_string_tokens(text) / true_count(text) for text in texts)
    print(f"{kind}: {ratio:.2f} of o200k_base (median of {len(texts)})")
    assert 0.8 <= ratio <= 1.35


def test_plain_text_counts_as_the_heuristic_says() -> None:
    for text in spoken("english")[:100]:
        assert count_string_tokens(text) >= estimate_string_tokens(text)
    plain = "The quick brown fox jumps over the lazy dog, and nobody minds. " * 5
    assert count_string_tokens(plain) == estimate_string_tokens(plain)


def test_names_and_addresses_are_no_random_runs() -> None:
    text = "see MyClassNameVersion2 and test_some_long_function_name_3 in utf8_decoder"
    assert count_string_tokens(text) <= true_count(text) * 1.5


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        "a1" * 150_000,
        "-" * 300_000,
        " " * 300_000,
        "_9" * 150_000,
        "你" * 300_000,
        "a1 " * 100_000,
        "😀" * 100_000,
        "/" * 299_999 + "1",
    ],
)
def test_counting_takes_linear_time(text: str) -> None:
    began = time.perf_counter()
    count_string_tokens(text[: len(text) // 10])
    small = time.perf_counter() - began
    began = time.perf_counter()
    count_string_tokens(text)
    assert time.perf_counter() - began < max(small * 40, 0.5)


def png(width: int, height: int) -> str:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk
    data += struct.pack(">I", zlib.crc32(chunk)) + bytes(3_000_000)
    return "data:image/png;base64," + base64.b64encode(data).decode()


def image(url: str, kind: str = "image/png") -> int:
    return count_part_tokens({"type": "file", "mediaType": kind, "url": url})


def test_an_image_counts_by_its_size_and_not_by_its_base64() -> None:
    assert image(png(1000, 750)) == 1000
    assert image(png(20, 20)) == 85
    assert image(png(8000, 6000)) == 1600
    assert image("https://example.com/a.png") == 1200
    assert image("data:image/png;base64,!!!") == 1200
    gif = base64.b64encode(b"GIF89a" + struct.pack("<HH", 300, 200)).decode()
    assert image(f"data:image/gif;base64,{gif}", "image/gif") == 85
    frame = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 750, 1000)
    jpeg = base64.b64encode(frame + bytes(20)).decode()
    assert image(f"data:image/jpeg;base64,{jpeg}", "image/jpeg") == 1000
    webp = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + struct.pack("<I", 999)[:3]
    encoded = base64.b64encode(webp + struct.pack("<I", 749)[:3] + bytes(10)).decode()
    assert image(f"data:image/webp;base64,{encoded}", "image/webp") == 1000


def test_other_files_count_by_kind_and_size() -> None:
    pdf = "data:application/pdf;base64," + "A" * 4_000_000
    assert 10_000 <= image(pdf, "application/pdf") <= 200_000
    assert image("https://x/y.pdf", "application/pdf") == 6000
    note = "data:text/plain;base64," + base64.b64encode(b"word " * 800).decode()
    assert 1000 <= image(note, "text/plain") <= 1100
    assert image("data:,x", "application/x-tar") == 24


def test_a_message_counts_what_a_request_shows() -> None:
    part: dict[str, Any] = {
        "type": "tool-read",
        "toolCallId": "c",
        "input": {},
        "output": "word " * 100_000,
    }
    message: dict[str, Any] = {"id": "m", "role": "assistant", "parts": [part]}
    assert count_message_tokens(message) < 5_000
    assert estimate_message_tokens(message) > 100_000
    failed: dict[str, Any] = {
        "type": "tool-read",
        "toolCallId": "c",
        "input": {},
        "errorText": "no " * 50,
    }
    assert count_part_tokens(failed) > 50


def test_tool_declarations_count() -> None:
    async def execute(arguments: dict[str, Any], context: Any) -> None: ...

    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    made = Tool(name="weather", description="The weather.", parameters=schema, execute=execute)
    assert 15 <= count_tools_tokens([made]) <= 40


def mixed_conversation(turns: int) -> list[str]:
    kinds = [KINDS[kind]() for kind in ("English", "code", "JSON", "Chinese", "hex", "English")]
    return [kinds[turn % 6][turn % len(kinds[turn % 6])] for turn in range(turns)]


def test_the_learned_estimate_is_within_ten_percent_after_twenty_turns() -> None:
    counter = TokenCounter()
    context: list[dict[str, Any]] = []
    true = estimated = 0
    # A model whose vocabulary needs a third more tokens than o200k.
    for number, text in enumerate(mixed_conversation(40)):
        context.append(
            {"id": str(number), "role": "user", "parts": [{"type": "text", "text": text}]}
        )
        true += round((true_count(text) + 4) * 1.33)
        estimated += count_message_tokens(context[-1])
        if number >= 20:
            assert abs(counter.scale(estimated) / true - 1) < 0.10
            assert counter.upper(estimated) >= true
        counter.calibration.observe(estimated, true)
    assert counter.count(context) == counter.scale(estimated)


def test_calibration_keeps_its_bounds_and_ignores_empty_reports() -> None:
    calibration = Calibration()
    for reported in (0, None, -5):
        calibration.observe(1000, reported)
    assert (calibration.ratio, calibration.samples) == (1.0, 0)
    calibration.observe(0, 10)
    assert calibration.samples == 0
    for _ in range(50):
        calibration.observe(1000, 1_000_000)
    assert calibration.ratio == 2.0
    for _ in range(50):
        calibration.observe(1000, 1)
    assert calibration.ratio == pytest.approx(0.5, abs=0.01)
    again = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    assert again.to_json() == calibration.to_json()
    listed: list[Any] = [None, [], {}, {"ratio": "x"}, {"ratio": 1.0}]
    for broken in listed:
        assert Calibration.from_json(broken).ratio == 1.0


def test_long_texts_are_counted_in_little_memory() -> None:
    text = "lorem ipsum, dolor sit.\n" * 40_000 + "x" * 200_000 + " 我们 " * 20_000
    tracemalloc.start()
    estimated, counted = estimate_string_tokens(text), count_string_tokens(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * sys.getsizeof(text)
    words = len(text.split())
    assert estimated == math.ceil(max(len(text) / 4, words * 1.3)), "exact, whatever the length"
    halves = count_string_tokens(text[:960_000]) + count_string_tokens(text[960_000:])
    assert counted == pytest.approx(halves, rel=0.01)


@pytest.mark.parametrize("text", ["", " ", "a", "a b", "ab" * 70_000, " \u2003\x1c" * 50_000])
@pytest.mark.parametrize("tail", ["", " ", "b", " b\n"])
def test_words_of_slices_are_the_words_of_the_text(text: str, tail: str) -> None:
    assert count_words(text + tail) == len((text + tail).split())
    assert "".join(slices_of(text + tail)) == text + tail
