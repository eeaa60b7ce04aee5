"""A model whose answers are written down beforehand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from palimpsest.models.interface import Finish, ModelEvent, ModelRequest, TextDelta, ToolCall

Step = str | Exception | Iterable[ModelEvent] | Callable[[ModelRequest], "Step"]
"""One answer: text, an error to raise, events, or a function of the request giving one."""


class ScriptedModel:
    """Answers each request with the next step of a script and remembers the requests.

    :param steps: see :data:`Step`; text is streamed word by word.
    :param context_window: tokens of a request and its answer together.
    :param max_output_tokens: tokens of an answer.
    """

    def __init__(
        self,
        *steps: Step,
        context_window: int = 128_000,
        max_output_tokens: int = 4_096,
    ) -> None:
        self._steps = list(steps)
        self.name = "scripted"
        self.context_window = context_window
        self.max_output_tokens = max_output_tokens
        self.requests: list[ModelRequest] = []
        """Every request that came, oldest first."""

    @property
    def max_input_tokens(self) -> int:
        """Tokens that a request may have."""
        return self.context_window - self.max_output_tokens

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Play the next step.

        :raises AssertionError: the script has no further step.
        """
        self.requests.append(request)
        if not self._steps:
            raise AssertionError(f"request {len(self.requests)} has no step in the script")
        for event in _events(self._steps.pop(0), request):
            yield event


def _events(step: Step, request: ModelRequest) -> Iterable[ModelEvent]:
    if isinstance(step, Exception):
        raise step
    if isinstance(step, str):
        return [*(TextDelta(word) for word in _words(step)), Finish("stop")]
    if callable(step):
        return _events(step(request), request)
    events = list(step)
    if events and isinstance(events[-1], Finish):
        return events
    called = any(isinstance(event, ToolCall) for event in events)
    return [*events, Finish("tool-calls" if called else "stop")]


def _words(text: str) -> list[str]:
    words = text.split(" ")
    return [word if index == 0 else f" {word}" for index, word in enumerate(words)]
