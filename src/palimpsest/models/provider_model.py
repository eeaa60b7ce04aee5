"""What the models behind providers have in common: names, sizes, time limits and retries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator
from typing import ClassVar

from palimpsest.models.interface import ModelEvent, ModelRequest
from palimpsest.models.retry import RetryPolicy, stream_with_retries
from palimpsest.models.transport import TimeLimits


class ProviderModel:
    """A model that a provider serves; a subclass has :meth:`_answer`."""

    provider: ClassVar[str]
    """The provider's name, in the model's own name and in errors."""

    def __init__(
        self,
        model: str,
        *,
        context_window: int,
        max_output_tokens: int,
        limits: TimeLimits | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        """A model of this provider.

        :param model: the provider's name of the model.
        :param context_window: tokens that a request and its answer may have together.
        :param max_output_tokens: tokens kept free for the answer.
        :param limits: how long to wait for an answer's beginning and for more of it.
        :param retries: how often a request is tried again.
        """
        self.name = f"{self.provider}:{model}"
        self.context_window = context_window
        self.max_output_tokens = max_output_tokens
        self._model = model
        self._limits = limits or TimeLimits()
        self._retries = retries or RetryPolicy()

    @property
    def max_input_tokens(self) -> int:
        """Tokens that a request may have, room for the answer being kept."""
        return self.context_window - self.max_output_tokens

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See :meth:`palimpsest.models.interface.Model.stream`."""
        return stream_with_retries(lambda: self._answer(request), self._retries, request.abort)

    @abstractmethod
    def _answer(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One attempt at an answer."""
        ...
