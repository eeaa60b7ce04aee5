"""Frames around text that is data: nothing inside can close them or pass for an instruction.

Transcripts are given to a summarizer inside ``<transcript>`` tags, and a summary is given to a
model inside ``<conversation-summary>`` tags. Look-alikes of these tags inside the framed text are
defused first, so that neither a user's message nor a summary can escape its frame.
"""

from __future__ import annotations

import re

TRANSCRIPT_TAG = "transcript"
"""Encloses the conversation that a summarizer is to summarize."""

PREVIOUS_SUMMARY_TAG = "previous-summary"
"""Encloses the summaries that a summarizer is to bring up to date."""

SUMMARY_TAG = "conversation-summary"
"""Encloses a summary where a model reads it in place of the messages."""

_LOOK_ALIKE = re.compile(
    # Possessive: blanks behind a "<" are tried once, not in every split over the two stretches.
    r"<\s*+/?+\s*+(?:transcript|previous[-_\s]*summary|conversation[-_\s]*summary)\b[^<>]*>?",
    re.IGNORECASE,
)


def defuse(text: str) -> str:
    """``text`` with every look-alike of the frames' tags turned into square brackets."""
    return _LOOK_ALIKE.sub(lambda found: f"[{found.group().strip('<>').strip()}]", text)


def strip_frames(text: str) -> str:
    """``text`` without any look-alike of the frames' tags, and without surrounding blanks."""
    return _LOOK_ALIKE.sub("", text).strip()


def frame(tag: str, text: str) -> str:
    """``text`` between opening and closing tags, look-alikes inside defused."""
    return f"<{tag}>\n{defuse(text)}\n</{tag}>"


def unframe(tag: str, text: str) -> str | None:
    """The text inside the first frame of this kind, or None."""
    start = text.find(f"<{tag}>\n")
    if start < 0:
        return None
    start += len(tag) + 3
    end = text.find(f"\n</{tag}>", start)
    return text[start:] if end < 0 else text[start:end]
