"""Random histories through the engine: pairs, order, originals, the newest user message, budgets.

The full run of 2,000 stands in ``tests/faults/test_many_compaction_histories.py``.
"""

from __future__ import annotations

import pytest

from tests.support.compaction_histories import live


@pytest.mark.parametrize("block", range(4))
async def test_random_histories(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        try:
            await live(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
