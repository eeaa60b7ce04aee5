"""The model that a deployment's variables name."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import ModelConfigurationError
from palimpsest.hosts.local import LocalHost
from palimpsest.models.config import model_from_environment
from palimpsest.models.interface import Model


def made(**variables: Any) -> Model:
    return model_from_environment(LocalHost(environment=variables))


def test_offline_model_needs_nothing() -> None:
    assert made().name == "offline"
    assert made(PALIMPSEST_MODEL=" offline ").name == "offline"
    assert made(PALIMPSEST_CONTEXT_WINDOW="5000").context_window == 5000


def test_one_variable_and_a_key_switch_to_a_provider() -> None:
    model = made(PALIMPSEST_MODEL="openai:gpt-5.6-terra", OPENAI_API_KEY="k")
    assert model.name == "openai:gpt-5.6-terra"
    model = made(PALIMPSEST_MODEL="anthropic:claude-sonnet-5", ANTHROPIC_API_KEY="k")
    assert model.name == "anthropic:claude-sonnet-5"
    model = made(PALIMPSEST_MODEL="workers-ai:@cf/some/model", AI=object())
    assert model.name == "workers-ai:@cf/some/model"


def test_own_server_needs_no_key() -> None:
    model = made(
        PALIMPSEST_MODEL="openai:local",
        PALIMPSEST_MODEL_URL="http://127.0.0.1:9/v1",
        PALIMPSEST_CONTEXT_WINDOW=8192,
        PALIMPSEST_MAX_OUTPUT_TOKENS=1024,
    )
    assert model.max_input_tokens == 7168


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"PALIMPSEST_MODEL": "gpt"}, "PALIMPSEST_MODEL is 'offline' or"),
        ({"PALIMPSEST_MODEL": "openai:"}, "PALIMPSEST_MODEL is 'offline' or"),
        ({"PALIMPSEST_MODEL": "other:x"}, "PALIMPSEST_MODEL is 'offline' or"),
        ({"PALIMPSEST_MODEL": "openai:x"}, "OPENAI_API_KEY is not set"),
        ({"PALIMPSEST_MODEL": "anthropic:x", "ANTHROPIC_API_KEY": " "}, "ANTHROPIC_API_KEY"),
        ({"PALIMPSEST_MODEL": "workers-ai:x"}, "needs the binding AI"),
        (
            {"PALIMPSEST_MODEL": "openai:x", "PALIMPSEST_MODEL_URL": "ftp://x"},
            "PALIMPSEST_MODEL_URL",
        ),
        ({"PALIMPSEST_CONTEXT_WINDOW": "many"}, "PALIMPSEST_CONTEXT_WINDOW must be a whole"),
        ({"PALIMPSEST_CONTEXT_WINDOW": 0}, "PALIMPSEST_CONTEXT_WINDOW must be above 0"),
        (
            {
                "PALIMPSEST_MODEL": "openai:x",
                "OPENAI_API_KEY": "k",
                "PALIMPSEST_CONTEXT_WINDOW": 100,
                "PALIMPSEST_MAX_OUTPUT_TOKENS": 100,
            },
            "leaves no room",
        ),
    ],
)
def test_unusable_variables_are_named(variables: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelConfigurationError, match=says):
        made(**variables)


def test_secrets_do_not_show() -> None:
    model = made(PALIMPSEST_MODEL="openai:x", OPENAI_API_KEY="sk-very-secret")
    assert "sk-very-secret" not in repr(vars(model))
