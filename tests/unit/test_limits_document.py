"""docs/limits.md names constants that exist, with the values that they have."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, cast

import pytest

TEXT = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")


def rows() -> list[tuple[str, str]]:
    """Value and constant of each row that names a constant of a module."""
    default = "hosts.interface"
    found: list[tuple[str, str]] = []
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| ") or len(cells) != 3:
            continue
        names = re.findall(r"`((?:[a-z_]+\.)*[A-Z_]{4,}|(?:Chat)?Agent\.\w+)`", cells[2])
        module = default
        for name in names:
            path, _, constant = name.rpartition(".")
            module = path or module
            found.append((cells[1], f"{module}.{constant}"))
    return found


def value_of(name: str) -> Any:
    path, _, constant = name.rpartition(".")
    if path in ("Agent", "ChatAgent"):
        owner: Any = getattr(importlib.import_module("palimpsest"), path)
    else:
        owner = importlib.import_module(f"palimpsest.{path}")
    return getattr(owner, constant)


def test_there_are_rows() -> None:
    assert len(rows()) > 40


@pytest.mark.parametrize(("said", "name"), rows(), ids=lambda value: str(value)[:60])
def test_the_value_is_the_constants(said: str, name: str) -> None:
    value = value_of(name)
    numbers = {float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*\d|\d", said)}
    if "2^53" in said:
        numbers.add(2**53 - 1)
    unit = 1.0
    for word, factor in (
        ("MiB", 2**20),
        ("minutes", 60_000),
        ("hours", 3_600_000),
        ("days", 86_400),
        ("years", 31_536_000),
        ("%", 0.01),
    ):
        unit = factor if word in said else unit
    values: list[float]
    if isinstance(value, tuple):
        values = [float(item) for item in cast("tuple[float, ...]", value)]
    elif isinstance(value, int | float):
        values = [float(value)]
    else:
        values = [value.burst, value.per_second]
    known = {number * factor for number in numbers for factor in (1, unit, 1_000)}
    for item in values:
        assert any(abs(item - number) < 1e-6 for number in known), (name, item, said)
