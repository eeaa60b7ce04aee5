"""JSON from outside: what is too deep is refused before it is parsed."""

from __future__ import annotations

import json
import time

import pytest

from palimpsest.json_input import MAX_JSON_DEPTH, depth_of, load_json


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_json_is_read_as_always() -> None:
    value = {"a": [1, 2.5, None, '[[[\\"{{', {"b": "]"}], "é": "\ud800", "n": 2**70}
    assert load_json(json.dumps(value)) == value
    assert load_json(json.dumps(value).encode()) == value
    assert load_json(nested(MAX_JSON_DEPTH)) is not None
    many = [{"parts": [{"n": n}]} for n in range(1000)]
    assert load_json(json.dumps(many)) == many


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 2_000, 100_000, 1_000_000])
@pytest.mark.parametrize("wrap", ["{}", '{{"a":"\\"","b":{}}}', "[[],{}]"], ids=range(3))
def test_what_is_too_deep_is_refused(depth: int, wrap: str) -> None:
    with pytest.raises(ValueError, match="nested"):
        load_json(wrap.format(nested(depth)))
    with pytest.raises(ValueError, match="nested"):
        load_json('{"a":' * depth)


def test_brackets_in_texts_do_not_count() -> None:
    text = "[" * 10_000 + '"' + "\\" + "{" * 10_000
    assert load_json(json.dumps([text])) == [text]
    assert depth_of(json.dumps([text])) == 1


@pytest.mark.parametrize("text", ['"' + '\\"' * 1_000_000, '"' * 1_000_001, "[" + '"\\' * 500_000])
def test_odd_texts_take_no_more_time_than_long_ones(text: str) -> None:
    began = time.perf_counter()
    depth_of(text)
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize("text", ["", "{", "nul", b"\xff\xfe\xfd", "[1,]"])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        load_json(text)
