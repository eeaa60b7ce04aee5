"""Text from conversations as a terminal may show it."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")


def shown(text: str) -> str:
    """The text with every control character made visible as a replacement character.

    What a model or another person wrote could otherwise move the cursor, change the title, or
    write into the clipboard of whoever reads it.
    """
    if text.isprintable():
        return text
    return "".join(
        "\ufffd"
        if unicodedata.category(character) == "Cc" and character not in _KEPT
        else character
        for character in text
    )
