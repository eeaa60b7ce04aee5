"""docs/reference.md is what the sources say, and leaves no public name out."""

from __future__ import annotations

import re

import pytest
from support.reference import TARGET, as_markdown, find, public_names, reference, render

import palimpsest
import palimpsest.testing
from palimpsest.compaction import budget_ratio, head_tail

TEXT = TARGET.read_text(encoding="utf-8")
ENTRIES = set(re.findall(r"^### `(\w+)`$", TEXT, re.M))


def test_it_is_up_to_date() -> None:
    assert reference() == TEXT, "run scripts/reference"


@pytest.mark.parametrize("module", [palimpsest, palimpsest.testing, budget_ratio, head_tail])
def test_every_public_name_has_an_entry(module: object) -> None:
    names: list[str] = getattr(module, "__all__", [])
    assert names
    assert set(names) <= ENTRIES
    assert public_names(getattr(module, "__name__", "")) == names


def test_every_entry_says_something() -> None:
    for entry in re.split(r"^### ", TEXT, flags=re.M)[1:]:
        name = entry.split("`")[1]
        described = re.sub(r"```.*?```", "", entry, flags=re.S).splitlines()[1:]
        words = [line for line in described if line and not line.startswith(("From `", "## "))]
        assert words, f"{name} has no docstring"


def test_fields_of_docstrings_become_lists() -> None:
    text = as_markdown(
        """Do it, see :class:`~palimpsest.errors.LimitError`.

        :param x: how often,
            in all
        :raises ValueError: never
        """
    )
    assert text == (
        "Do it, see `palimpsest.errors.LimitError`.\n\n"
        "- `x`: how often, in all\n- raises `ValueError`: never"
    )


def test_signatures_leave_self_out_and_mark_async() -> None:
    text = "\n".join(render(find("palimpsest", "Session")))
    assert "async append_message(message: Any, parent_id" in text
    assert "(self" not in text


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(LookupError, match="does not define"):
        find("palimpsest.errors", "NoSuchName")
