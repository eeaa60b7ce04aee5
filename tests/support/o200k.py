"""True token counts, with OpenAI's o200k vocabulary: what estimates are measured against."""

from __future__ import annotations

import functools
import warnings
from typing import Any


@functools.cache
def _encoding() -> Any:
    with warnings.catch_warnings():
        # The package opens its data in a way that Python 3.11 calls deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        import bpe_openai
    return bpe_openai.get_encoding("o200k_base")


def count_o200k(text: str) -> int:
    """Tokens of a text."""
    return len(_encoding().encode(text))
