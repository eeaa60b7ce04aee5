"""The offline model: it needs no key and no network, and answers from the conversation's memory.

It is an ordinary model with a very small mind. It tells questions from statements. A statement it
acknowledges. For a question it first calls the tool ``session_search`` and then quotes, word for
word, the sentence of the results that fits the question best; where nothing fits it says so. It
makes nothing up and follows no instructions found in what it reads. A message ``/name arguments``
calls the tool of that name, so that tools can be tried without a key.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from palimpsest.messages import Message, is_tool_part, text_of, tool_name, tool_parts
from palimpsest.models.interface import (
    Finish,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
)
from palimpsest.models.recall import (
    Passage,
    best_answer,
    failure_of,
    is_question,
    read_passages,
    search_terms,
)
from palimpsest.models.tool_commands import describe_outcome, read_command

SEARCH_TOOL = "session_search"
"""The tool that the offline model asks; ``search_context`` it does not need."""

_WORDS = re.compile(r"\s*\S+|\s+$")


class OfflineModel:
    """Remembers and finds; see the module.

    :param name: the name that steps are stamped with.
    :param delay: seconds between two words, to make streaming visible; 0 for none.
    :param context_window: tokens that a request may have.
    """

    def __init__(
        self,
        *,
        name: str = "offline",
        delay: float = 0.0,
        context_window: int = 128_000,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self.max_output_tokens = 1_000
        self._delay = delay

    @property
    def max_input_tokens(self) -> int:
        """Tokens that a request may have."""
        return self.context_window - self.max_output_tokens

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Answer the newest user message. See :meth:`palimpsest.models.interface.Model.stream`.

        :raises AbortedError: ``request.abort`` was set.
        """
        request.abort.raise_if_aborted()
        messages = list(request.messages)
        asked = _newest_user_message(messages)
        question = text_of(messages[asked]) if asked is not None else ""
        command = read_command(question, request.tools)
        if command is not None and asked is not None and request.tool_choice != "none":
            outcome = _command_outcome(messages[asked + 1 :], command.name)
            events = _say(outcome) if outcome else _call(messages, command.name, command.arguments)
            for event in events:
                yield event
            return
        searched = _search_results(messages[asked + 1 :]) if asked is not None else []
        may_search = request.tool_choice != "none" and SEARCH_TOOL in request.tools
        if is_question(question) and not searched and may_search:
            for event in _call(messages, SEARCH_TOOL, {"query": search_terms(question)}):
                yield event
            return
        earlier = messages[:asked] if asked is not None else []
        for word in _WORDS.findall(_answer(question, searched, earlier)):
            request.abort.raise_if_aborted()
            yield TextDelta(word)
            await asyncio.sleep(self._delay)
        yield Finish("stop")


def _call(messages: Sequence[Message], name: str, arguments: dict[str, Any]) -> list[ModelEvent]:
    """The events of a step that calls one tool; the id is the same whenever it is made again."""
    written = json.dumps(arguments, ensure_ascii=False)
    asked = _newest_user_message(messages)
    text = text_of(messages[asked]) if asked is not None else ""
    call_id = f"offline-{len(messages)}-{abs(_stable_hash(text)):08x}"
    return [
        ToolCallStart(call_id, name),
        ToolCallDelta(call_id, written),
        ToolCall(call_id, name, arguments),
        Finish("tool-calls"),
    ]


def _say(text: str) -> list[ModelEvent]:
    return [TextDelta(text), Finish("stop")]


def _command_outcome(messages: Sequence[Message], name: str) -> str | None:
    """What the called tool gave, once it did."""
    for message in reversed(messages):
        for part in tool_parts(message):
            if tool_name(part) == name and _is_settled(part):
                return describe_outcome(part) or "The tool gave nothing."
    return None


def _answer(question: str, searched: Sequence[Any], earlier: Sequence[Message]) -> str:
    if not question.strip():
        return "There is no text in your message that I could answer. I read text only."
    if not is_question(question):
        quoted = " ".join(question.split())
        if len(quoted) > 300:
            quoted = quoted[:300].rstrip() + "…"
        return f"I will remember that: “{quoted}” Ask me about it whenever you like."
    passages: list[Passage] = []
    failures: list[str] = []
    for result in searched:
        failure = failure_of(result)
        if failure is None:
            passages.extend(read_passages(result))
        else:
            failures.append(failure)
    for message in earlier:
        passages.append(Passage(str(message.get("role", "")), text_of(message)))
    found = best_answer(question, passages)
    if found is None and failures:
        return f"I could not search our conversation: {failures[0]}"
    if found is None:
        return (
            f"I searched our conversation for “{search_terms(question)}” and found nothing that "
            "answers this. I am the offline model: I only know what was said here."
        )
    speaker = {"user": "you told me", "assistant": "I said"}.get(found.role, "our history says")
    if found.complete:
        return f"{speaker[0].upper()}{speaker[1:]}: “{found.text}”"
    return f"I do not know exactly. The closest that I found is that {speaker}: “{found.text}”"


def _newest_user_message(messages: Sequence[Message]) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            return index
    return None


def _search_results(messages: Sequence[Message]) -> list[Any]:
    """Outputs of the searches made since the question; of those that failed, the error."""
    results: list[Any] = []
    for message in messages:
        for part in tool_parts(message):
            if tool_name(part) == SEARCH_TOOL and _is_settled(part):
                failed = f"Error: {part.get('errorText') or 'the search failed'}"
                results.append(part.get("output", failed))
    return results


def _is_settled(part: Mapping[str, Any]) -> bool:
    return is_tool_part(part) and str(part.get("state", "")).startswith("output-")


def _stable_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) & 0xFFFFFFFF
    return value
