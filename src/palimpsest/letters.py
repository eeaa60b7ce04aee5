"""What kinds of signs a text is made of, by tables that C code applies to a whole text at once.

Counting tokens and indexing ask the same simple questions of every message that is written: how
many words, how many digits, a small letter before a capital one? Asked with a regular expression
for each they were most of what Python does for an append. The tables are for
``text.encode(errors="replace").translate(TABLE)``; a letter, digit or blank is one of ASCII.
"""

from __future__ import annotations


def _class_of(byte: int) -> str:
    sign = chr(byte)
    if byte >= 128:
        return "."
    if sign.isspace():
        return " "
    if sign.isdigit():
        return "0"
    return ("A" if sign.isupper() else "a") if sign.isalpha() else "."


LETTER_CLASSES = "".join(map(_class_of, range(256))).encode()
"""Gives for each byte ``a``, ``A``, ``0``, a blank, or ``.`` for all else."""

WORD_CLASSES = bytes(32 if _class_of(byte) == " " else ord("x") for byte in range(256))
"""Gives for each byte a blank, or ``x``: an ASCII text has a word at each ``x`` behind a blank."""

LOWERED = bytes(ord(chr(byte).lower()) if _class_of(byte) in "aA0" else 32 for byte in range(256))
"""Gives each letter in lower case, digits as they are, and a blank for all else."""
