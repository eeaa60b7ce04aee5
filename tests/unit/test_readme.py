"""The README's figures stand in docs/figures.md, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIGURES = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?")


def claims() -> list[list[str]]:
    section = README.split("## What it is better at")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if "`" in line]
    return [row for row in rows if len(row) == 3]


def test_every_figure_stands_in_the_figures() -> None:
    known = set(NUMBER.findall(FIGURES))
    assert len(claims()) >= 5
    for title, figure, _ in claims():
        for number in NUMBER.findall(figure):
            assert number in known, f"{title}: {number}"


def test_every_figure_names_a_command_or_test_that_exists() -> None:
    for title, _, shown in claims():
        (name,) = re.findall(r"`([^`]+)`", shown)
        if name.startswith("scripts/bench "):
            assert (ROOT / "bench" / f"{name.split()[1]}.py").is_file(), title
        else:
            assert (ROOT / name).is_file(), title
        assert name in FIGURES, f"{title}: {name} does not stand in the figures"


def test_named_commands_and_pictures_exist() -> None:
    for name in re.findall(r"scripts/(\w+)", README):
        assert (ROOT / "scripts" / name).is_file()
    for picture in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README):
        assert (ROOT / picture).stat().st_size < 300_000


def test_every_document_is_linked_from_the_readme() -> None:
    for path in (ROOT / "docs").glob("*.md"):
        assert f"docs/{path.name}" in README, path.name
