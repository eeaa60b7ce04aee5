"""The load test: a short form in every run, thirty minutes in the nightly one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def figures(tmp_path: Path, *options: str, minutes: str = "2") -> dict[str, dict[str, float]]:
    file = tmp_path / "load.json"
    subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "bench"), "load", "--json", str(file), *options],
        check=True,
        env={**os.environ, "PALIMPSEST_LOAD_MINUTES": minutes},
    )
    return {entry["figure"]: entry for entry in json.loads(file.read_text())}


def check(found: dict[str, dict[str, float]]) -> None:
    assert found["load: lost frames"]["value"] == 0
    assert found["load: heap"]["ratio"] <= 1.05
    assert found["load: resident memory"]["ratio"] <= 1.5


def test_fifty_sockets_lose_nothing(tmp_path: Path) -> None:
    check(figures(tmp_path, "--quick"))


@pytest.mark.nightly
def test_five_hundred_sockets_for_half_an_hour(tmp_path: Path) -> None:
    check(figures(tmp_path, minutes="30"))
