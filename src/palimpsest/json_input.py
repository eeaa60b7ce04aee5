"""JSON from outside: parsed only if it is not nested too deeply.

The interpreter in a Worker has no guard for its own stack: a text of a few thousand brackets, which
any client can send, would end the whole process instead of raising an error.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from math import inf
from typing import Any

MAX_JSON_DEPTH = 256
"""How deeply arrays and objects may be nested in JSON from outside."""

# A string without its end reaches to the end of the text, so that no text is scanned twice.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKET = re.compile(r"[^\[\]{}]+")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}


def load_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    :raises ValueError: it is no JSON, nested more than :data:`MAX_JSON_DEPTH` deep, or holds a
        number that is none (``NaN``, ``1e999``): Python reads these, and JSON cannot write them.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    if text.count("[") + text.count("{") > MAX_JSON_DEPTH and depth_of(text) > MAX_JSON_DEPTH:
        raise ValueError(f"arrays and objects are nested more than {MAX_JSON_DEPTH} deep")
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("arrays and objects are nested too deeply") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (inf, -inf):
        raise ValueError(f"the number {digits:.40} is too large")
    return value


def depth_of(text: str) -> int:
    """How deeply the brackets of a JSON text are nested, those in strings left out."""
    brackets = _NO_BRACKET.sub("", _STRING.sub("", text))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
