"""docs/security.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w./]+)(?:::(\w+))?`", TEXT)))


def test_every_claim_names_a_test() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ")]
    claims = [row for row in rows if not row.startswith(("| Claim", "| ---"))]
    assert len(claims) > 20
    for claim in claims:
        assert "`tests/" in claim, claim


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_named_test_exists(path: str, name: str) -> None:
    source = (ROOT / path).read_text(encoding="utf-8")
    if name:
        assert re.search(rf"^(?:async )?def {name}\(", source, re.M)
    else:
        assert "test" in source
