"""Whether a summarizer's answer may stand in for the messages it was given."""

from __future__ import annotations

import re

from palimpsest.compaction.delimiters import strip_frames
from palimpsest.errors import SummaryRefusedError
from palimpsest.tokens import count_string_tokens

_ERROR_LIKE = re.compile(
    r"""^\W*(?:
        (?:internal\ server\ error|bad\ gateway|service\ unavailable|gateway\ time-?out
          |too\ many\ requests|request\ timed?\ out|rate\ limit(?:ed)?\ (?:exceeded|reached)
          |upstream\ (?:error|connect)|overloaded(?:_error)?)\b
      | (?:http|status|error)\W{0,3}(?:code\W{0,2})?[45]\d\d\b
      | [45]\d\d\W{1,3}(?:internal|bad|service|gateway|too|error|not\ found|unauthorized|forbidden)
      | error\s*:
      | <!doctype\b | <html\b
      | \{\s*"(?:error|errors|detail|message)"\s*:
      | (?:i['’]?m\ (?:sorry|unable|afraid)|i\ am\ (?:sorry|unable)|sorry,|i\ can(?:no|['’])t
          |i\ apologi[sz]e|as\ an?\ (?:ai|language\ model))
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How answers begin that are a failure's text and not a summary."""

_OBEYED_INSTRUCTION = re.compile(
    r"\b(?:ignor|disregard|forget)(?:e|ing|ed|ting)?\s+(?:\w+\s+){0,3}?"
    r"(?:transcript|instructions?|conversation|messages|prompts?|record)\b",
    re.IGNORECASE,
)

_THINKING = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.IGNORECASE | re.DOTALL)
_SHORT_ANSWER_TOKENS = 80
"""Answers longer than this are not judged by how they begin."""


def check_summary(answer: object, source_tokens: int | None = None) -> str:
    """The summary, cleaned: no frame tags, no thinking block, no blanks around it.

    :param source_tokens: tokens of what it replaces; a summary as large gains nothing.
    :raises SummaryRefusedError: it is no text, blank, reasoning only, an error's or a refusal's
        text, an order to ignore the conversation, or not smaller than its source.
    """
    if not isinstance(answer, str):
        raise SummaryRefusedError(f"the summarizer gave {type(answer).__name__}, not a text")
    without_thinking = _THINKING.sub("", answer)
    summary = strip_frames(without_thinking)
    if not summary:
        reason = "is empty" if not answer.strip() else "holds nothing besides reasoning or tags"
        raise SummaryRefusedError(f"the summary {reason}")
    tokens = count_string_tokens(summary)
    if tokens <= _SHORT_ANSWER_TOKENS:
        if _ERROR_LIKE.match(summary):
            raise SummaryRefusedError(f"the summary reads like an error: {summary[:120]!r}")
        if _OBEYED_INSTRUCTION.search(summary) and "##" not in summary:
            raise SummaryRefusedError(
                "the summary orders to ignore the conversation instead of describing it"
            )
    if source_tokens is not None and tokens >= source_tokens:
        raise SummaryRefusedError(
            f"the summary has {tokens} tokens and replaces {source_tokens}: nothing is gained"
        )
    return summary
