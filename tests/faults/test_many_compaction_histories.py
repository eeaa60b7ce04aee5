"""2,000 more random histories through the compaction engine (see tests/unit for the quick part)."""

from __future__ import annotations

import pytest

from tests.support.compaction_histories import live

HISTORIES = 2_000
BLOCKS = 20


@pytest.mark.parametrize("block", range(BLOCKS))
async def test_random_histories(block: int) -> None:
    size = HISTORIES // BLOCKS
    for seed in range(10_000 + block * size, 10_000 + (block + 1) * size):
        try:
            await live(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
