"""Which model answers: one variable of the deployment, ``PALIMPSEST_MODEL``.

``offline`` (the default), ``openai:gpt-5.6-terra``, ``anthropic:claude-sonnet-5`` or
``workers-ai:@cf/meta/llama-3.3-70b-instruct``. Keys are secrets of the provider's usual name;
``PALIMPSEST_MODEL_URL`` points ``openai:`` or ``anthropic:`` to another server that speaks the
same protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from palimpsest.errors import ModelConfigurationError
from palimpsest.hosts.interface import Host
from palimpsest.models.anthropic import ANTHROPIC_URL, AnthropicModel
from palimpsest.models.interface import Model
from palimpsest.models.offline import OfflineModel
from palimpsest.models.openai_chat import OPENAI_URL, OpenAIChatModel
from palimpsest.models.workers_ai import WorkersAIModel

MODEL_VARIABLE = "PALIMPSEST_MODEL"
"""``provider:model``, or ``offline``."""

URL_VARIABLE = "PALIMPSEST_MODEL_URL"
"""The address of the server, where it is not the provider's own."""

CONTEXT_VARIABLE = "PALIMPSEST_CONTEXT_WINDOW"
"""Tokens that a request and its answer may have together."""

OUTPUT_VARIABLE = "PALIMPSEST_MAX_OUTPUT_TOKENS"
"""Tokens kept free for the answer."""

KEY_VARIABLES = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
"""The secrets that hold the providers' keys."""

AI_BINDING = "AI"
"""The name of the Workers AI binding."""


class _Limits(TypedDict, total=False):
    context_window: int
    max_output_tokens: int


def model_from_environment(host: Host) -> Model:
    """The model that the deployment's variables name.

    :raises ModelConfigurationError: a variable is missing or cannot be understood. Its text names
        the variable and never holds a secret.
    """
    environment = host.environment
    named = str(environment.get(MODEL_VARIABLE) or "offline").strip()
    limits = _limits(environment)
    if named == "offline":
        window = limits.get("context_window")
        return OfflineModel() if window is None else OfflineModel(context_window=window)
    provider, _, model = named.partition(":")
    makers: Mapping[str, Callable[..., Model]] = {
        "openai": _openai,
        "anthropic": _anthropic,
        "workers-ai": _workers_ai,
    }
    if provider not in makers or not model:
        raise ModelConfigurationError(
            f"{MODEL_VARIABLE} is 'offline' or provider:model with a provider of "
            f"{', '.join(makers)}; got {named!r:.100}"
        )
    made = makers[provider](host, model, limits)
    if made.max_input_tokens <= 0:
        raise ModelConfigurationError(
            f"{OUTPUT_VARIABLE} ({made.max_output_tokens}) leaves no room for a request in "
            f"{CONTEXT_VARIABLE} ({made.context_window})"
        )
    return made


def _openai(host: Host, model: str, limits: _Limits) -> Model:
    url = _url(host.environment) or OPENAI_URL
    return OpenAIChatModel(
        host, model, api_key=_key(host, "openai", url == OPENAI_URL), base_url=url, **limits
    )


def _anthropic(host: Host, model: str, limits: _Limits) -> Model:
    url = _url(host.environment) or ANTHROPIC_URL
    return AnthropicModel(
        host, model, api_key=_key(host, "anthropic", url == ANTHROPIC_URL), base_url=url, **limits
    )


def _workers_ai(host: Host, model: str, limits: _Limits) -> Model:
    binding = host.environment.get(AI_BINDING)
    if binding is None:
        raise ModelConfigurationError(
            f"a workers-ai model needs the binding {AI_BINDING} in wrangler.toml: [ai] binding"
        )
    return WorkersAIModel(binding, model, **limits)


def _key(host: Host, provider: str, required: bool) -> str:
    variable = KEY_VARIABLES[provider]
    key = host.environment.get(variable)
    if isinstance(key, str) and key.strip():
        return key.strip()
    if required:
        raise ModelConfigurationError(f"the secret {variable} is not set")
    return ""


def _url(environment: Mapping[str, Any]) -> str | None:
    url = str(environment.get(URL_VARIABLE) or "").strip()
    if url and not url.startswith(("http://", "https://")):
        raise ModelConfigurationError(f"{URL_VARIABLE} begins with http:// or https://")
    return url or None


def _limits(environment: Mapping[str, Any]) -> _Limits:
    limits: _Limits = {}
    if (window := _positive(environment, CONTEXT_VARIABLE)) is not None:
        limits["context_window"] = window
    if (output := _positive(environment, OUTPUT_VARIABLE)) is not None:
        limits["max_output_tokens"] = output
    return limits


def _positive(environment: Mapping[str, Any], variable: str) -> int | None:
    value = environment.get(variable)
    if value is None or value == "":
        return None
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise ModelConfigurationError(f"{variable} must be a whole number") from error
    if number <= 0:
        raise ModelConfigurationError(f"{variable} must be above 0, got {number}")
    return number
