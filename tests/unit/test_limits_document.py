"""``docs/limits.md`` names the constants of the code, with their values."""

from __future__ import annotations

import importlib
import re
from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

import pytest

import palimpsest
from palimpsest.actor.rate import RateLimit

DOCUMENT = Path(__file__).parents[2] / "docs" / "limits.md"
DEFAULT_MODULE = "palimpsest.hosts.interface"


def _rows() -> list[tuple[str, str]]:
    """Each constant of the tables with the row that it stands in."""
    rows: list[tuple[str, str]] = []
    for line in DOCUMENT.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) != 3 or not line.startswith("|") or cells[1] == "Value":
            continue
        module = DEFAULT_MODULE
        for name in re.findall(r"`([\w.]*[A-Za-z_])`", cells[2]):
            if "." in name and not name[0].isupper():
                module = f"palimpsest.{name.rpartition('.')[0]}"
            rows.append(
                (
                    name
                    if name[0].isupper() and "." in name
                    else f"{module}.{name.rpartition('.')[2]}",
                    cells[1],
                )
            )
    return rows


def _value(name: str) -> Any:
    if name[0].isupper():
        holder, _, attribute = name.partition(".")
        return getattr(getattr(palimpsest, holder), attribute)
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def _figures(value: Any) -> tuple[Any, ...]:
    if isinstance(value, RateLimit):
        return astuple(value)
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)


def _renderings(value: Any) -> set[str]:
    """How a document may write a value; times may be in ms or in s."""
    number = float(value)
    written = {f"{number:,.0f}", f"{number * 100:.0f} %", f"{number / 2**20:.0f} MiB"}
    if number == 2**53 - 1:
        written.add("2^53 - 1")
    for seconds in (number, number / 1000):
        units = {"s": 1, "minutes": 60, "hours": 3600, "days": 86_400, "years": 31_536_000}
        written |= {f"{seconds / size:,.0f} {unit}" for unit, size in units.items()}
        written.add(f"{seconds:,.0f}")
    return written


@pytest.mark.parametrize(("name", "row"), _rows())
def test_a_limit_is_written_as_it_is(name: str, row: str) -> None:
    for figure in _figures(_value(name)):
        assert any(text in row for text in _renderings(figure)), (name, figure, row)


def test_the_tables_are_read() -> None:
    names = [name for name, _ in _rows()]
    assert len(names) > 40
    assert "palimpsest.hosts.interface.MAX_VALUE_BYTES" in names
    assert "palimpsest.store.reads.MAX_ROWS" in names
