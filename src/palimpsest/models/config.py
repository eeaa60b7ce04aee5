"""The model that a deployment's variables name.

``PALIMPSEST_MODEL``
    ``offline`` (no key, no network; what a fresh checkout has), ``openai:NAME``,
    ``anthropic:NAME`` or ``workers-ai:@cf/NAME``.
``PALIMPSEST_MODEL_URL``
    Another address for ``openai:`` and ``anthropic:``: any server that speaks their format.
``OPENAI_API_KEY``, ``ANTHROPIC_API_KEY``, ``PALIMPSEST_MODEL_KEY``
    Secrets; the last one is for servers with a key of their own.
``PALIMPSEST_CONTEXT_WINDOW``, ``PALIMPSEST_MAX_OUTPUT_TOKENS``
    Tokens; by default what is known of the model, see :data:`KNOWN_WINDOWS`.
``PALIMPSEST_MODEL_TIMEOUT``
    Seconds to wait for an answer, and for each next piece of it; 120 by default.
``PALIMPSEST_MODEL_ATTEMPTS``
    Tries in all when a provider is busy; 4 by default.
``PALIMPSEST_AI_BINDING``, ``PALIMPSEST_AI_GATEWAY``
    The name of the Workers AI binding (``AI``), and an AI Gateway to send its requests through.
``PALIMPSEST_OFFLINE_DELAY``
    Seconds between two words of the offline model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palimpsest.errors import ConfigurationError
from palimpsest.hosts.interface import Host
from palimpsest.models.anthropic import ANTHROPIC_URL, AnthropicModel
from palimpsest.models.interface import Model
from palimpsest.models.offline import OfflineModel
from palimpsest.models.openai_chat import OPENAI_URL, OpenAIChatModel
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.transport import Secret, TimeLimits
from palimpsest.models.workers_ai import WorkersAIModel

MODEL_VARIABLE = "PALIMPSEST_MODEL"
FORMS = "offline, openai:NAME, anthropic:NAME or workers-ai:@cf/NAME"

KNOWN_WINDOWS: tuple[tuple[str, int, int], ...] = (
    ("gpt-5.6", 1_050_000, 128_000),
    ("gpt-5", 400_000, 128_000),
    ("gpt-4.1", 1_047_576, 32_768),
    ("gpt-4o", 128_000, 16_384),
    ("o3", 200_000, 100_000),
    ("o4", 200_000, 100_000),
    ("claude-opus-5", 1_000_000, 32_000),
    ("claude-sonnet-5", 1_000_000, 32_000),
    ("claude", 200_000, 16_384),
    ("@cf/moonshotai/kimi-k2", 262_144, 32_768),
    ("@cf/zai-org/glm-5", 262_144, 32_768),
    ("@cf/", 24_000, 4_096),
)
"""Beginnings of models' names, with context window and longest answer in tokens."""

UNKNOWN_WINDOW = (32_768, 4_096)
"""What is assumed of a model that is not listed: too small is safe, too large is not."""


def model_from_environment(host: Host) -> Model:
    """The model that the host's variables name.

    :raises ConfigurationError: a variable is missing or wrong; the text names it, and never shows
        a secret.
    """
    variables = _Variables(host.environment)
    given = variables.text(MODEL_VARIABLE) or "offline"
    provider, _colon, name = given.partition(":")
    if provider == "offline" and not name:
        window = variables.whole_number("PALIMPSEST_CONTEXT_WINDOW")
        delay = variables.number("PALIMPSEST_OFFLINE_DELAY") or 0.0
        return OfflineModel(delay=delay, context_window=window or 128_000)
    if provider not in ("openai", "anthropic", "workers-ai") or not name:
        raise ConfigurationError(f"{MODEL_VARIABLE} is {given!r}; it can be {FORMS}")
    options = _common_options(variables, name)
    address = variables.text("PALIMPSEST_MODEL_URL")
    if address and not address.startswith(("https://", "http://")):
        raise ConfigurationError("PALIMPSEST_MODEL_URL must begin with https:// or http://")
    if provider == "openai":
        key = variables.key("OPENAI_API_KEY", needed=not address)
        url = address or OPENAI_URL
        return OpenAIChatModel(host, name, api_key=key, base_url=url, **options)
    if provider == "anthropic":
        key = variables.key("ANTHROPIC_API_KEY", needed=not address)
        url = address or ANTHROPIC_URL
        return AnthropicModel(host, name, api_key=key, base_url=url, **options)
    binding_name = variables.text("PALIMPSEST_AI_BINDING") or "AI"
    binding = host.environment.get(binding_name)
    if binding is None or not hasattr(binding, "run"):
        raise ConfigurationError(
            f"{MODEL_VARIABLE} is {given!r}, but there is no Workers AI binding {binding_name!r}"
        )
    gateway = variables.text("PALIMPSEST_AI_GATEWAY")
    extra = {"gateway": {"id": gateway}} if gateway else None
    return WorkersAIModel(binding, name, options=extra, **options)


def _common_options(variables: _Variables, model: str) -> dict[str, Any]:
    window, answer = next(
        (
            (window, answer)
            for beginning, window, answer in KNOWN_WINDOWS
            if model.startswith(beginning)
        ),
        UNKNOWN_WINDOW,
    )
    window = variables.whole_number("PALIMPSEST_CONTEXT_WINDOW") or window
    given = variables.whole_number("PALIMPSEST_MAX_OUTPUT_TOKENS")
    answer = given or min(answer, window // 2)
    if answer >= window:
        raise ConfigurationError(
            f"PALIMPSEST_MAX_OUTPUT_TOKENS is {answer}, but the context window is {window} tokens"
        )
    seconds = variables.number("PALIMPSEST_MODEL_TIMEOUT")
    attempts = variables.whole_number("PALIMPSEST_MODEL_ATTEMPTS")
    return {
        "context_window": window,
        "max_output_tokens": answer,
        "limits": TimeLimits(seconds, seconds) if seconds else TimeLimits(),
        "retries": RetryPolicy(attempts=attempts) if attempts else RetryPolicy(),
    }


class _Variables:
    """Variables as a deployment gives them: text, or numbers where wrangler.toml has numbers."""

    def __init__(self, environment: Mapping[str, Any]) -> None:
        self._environment = environment

    def text(self, name: str) -> str:
        """A variable's text; '' where it is not set."""
        value = self._environment.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigurationError(f"{name} must be text, not {type(value).__name__}")
        return value.strip()

    def number(self, name: str) -> float | None:
        """A positive number; None where the variable is not set."""
        value = self._environment.get(name)
        if value is None or value == "":
            return None
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ConfigurationError(f"{name} must be a number, not {value!r:.40}") from None
        if not 0 <= number < 1e9:
            raise ConfigurationError(f"{name} must be a positive number, not {value!r:.40}")
        return number

    def whole_number(self, name: str) -> int | None:
        """A whole number of at least 1; None where the variable is not set."""
        number = self.number(name)
        if number is None:
            return None
        if number != int(number) or number < 1:
            raise ConfigurationError(f"{name} must be a whole number of at least 1")
        return int(number)

    def key(self, name: str, *, needed: bool) -> Secret:
        """The secret ``name``, or the general one.

        :param needed: whether the server answers nobody without a key.
        """
        value = self.text("PALIMPSEST_MODEL_KEY") or self.text(name)
        if needed and not value:
            raise ConfigurationError(
                f"{name} is not set: put it into .dev.vars, or deploy it with "
                f"'npx wrangler secret put {name}'"
            )
        return Secret(value)
