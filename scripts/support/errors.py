"""The errors that the commands report without a traceback."""

from __future__ import annotations


class SetupError(Exception):
    """Something is missing or does not fit; the message says what to do about it."""
