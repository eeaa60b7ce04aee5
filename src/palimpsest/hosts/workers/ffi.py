"""Crossing between Python and JavaScript: the few conversions that everything here needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import js
from pyodide.ffi import jsnull, to_js


def to_object(values: Mapping[str, Any]) -> Any:
    """A plain JavaScript object."""
    return to_js(dict(values), dict_converter=js.Object.fromEntries)


def is_nothing(value: Any) -> bool:
    """Whether JavaScript answered null or undefined."""
    return value is None or value is jsnull


_BUFFERS = frozenset({bytes, bytearray, memoryview})


def bytes_of(value: Any) -> bytes:
    """The bytes of a JavaScript buffer or typed array, or of a Python one."""
    # Asked of the Python types: whether something is a JsProxy takes Pyodide 5 microseconds.
    return bytes(value) if type(value) in _BUFFERS else value.to_bytes()


def json_to_js(value: Any) -> Any:
    """A JSON value as JavaScript's own objects."""
    return js.JSON.parse(json.dumps(value))


def json_from_js(value: Any) -> Any:
    """A JavaScript value that JSON can express, as Python values."""
    return json.loads(js.JSON.stringify(value))
