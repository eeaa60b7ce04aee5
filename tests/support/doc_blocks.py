"""Code blocks of the documentation, by their label."""

from __future__ import annotations

import re
from pathlib import Path


def blocks_labelled(path: Path, label: str) -> list[tuple[int, str]]:
    """Line number and text of each block of a document that begins with ```` ```label ````."""
    text = path.read_text(encoding="utf-8")
    pattern = re.compile(rf"^```{re.escape(label)}\n(.*?)^```$", re.M | re.S)
    return [(text.count("\n", 0, found.start(1)) + 1, found[1]) for found in pattern.finditer(text)]
