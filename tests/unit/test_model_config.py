"""The model that variables name."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.errors import ConfigurationError
from palimpsest.hosts.local import LocalHost
from palimpsest.models import (
    AnthropicModel,
    Model,
    OfflineModel,
    OpenAIChatModel,
    WorkersAIModel,
    model_from_environment,
)


def made(**variables: Any) -> Model:
    host = LocalHost(environment=variables)
    try:
        return model_from_environment(host)
    finally:
        host.close()


class FakeAi:
    async def run(self, model: str, inputs: Any, **options: Any) -> Any: ...


def test_nothing_set_means_the_offline_model() -> None:
    assert isinstance(made(), OfflineModel)
    assert isinstance(made(PALIMPSEST_MODEL=""), OfflineModel)
    assert made(PALIMPSEST_MODEL="offline", PALIMPSEST_CONTEXT_WINDOW="9000").context_window == 9000


def test_one_variable_and_a_key_switch_to_a_real_model() -> None:
    model = made(PALIMPSEST_MODEL="openai:gpt-4o", OPENAI_API_KEY="sk-1")
    assert isinstance(model, OpenAIChatModel)
    assert (model.name, model.context_window) == ("openai:gpt-4o", 128_000)
    assert model.max_input_tokens == 128_000 - 16_384
    assert isinstance(
        made(PALIMPSEST_MODEL="anthropic:claude-sonnet-5", ANTHROPIC_API_KEY="k"), AnthropicModel
    )
    workers = made(PALIMPSEST_MODEL="workers-ai:@cf/meta/llama-3.3-70b", AI=FakeAi())
    assert isinstance(workers, WorkersAIModel)
    assert workers.name == "workers-ai:@cf/meta/llama-3.3-70b"
    local = made(
        PALIMPSEST_MODEL="openai:qwen3:8b", PALIMPSEST_MODEL_URL="http://localhost:11434/v1"
    )
    assert local.name == "openai:qwen3:8b"


def test_limits_are_variables() -> None:
    model = made(
        PALIMPSEST_MODEL="openai:x",
        PALIMPSEST_MODEL_URL="http://localhost/v1",
        PALIMPSEST_CONTEXT_WINDOW=50_000,
        PALIMPSEST_MAX_OUTPUT_TOKENS="2000",
    )
    assert (model.context_window, model.max_output_tokens) == (50_000, 2_000)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"PALIMPSEST_MODEL": "gpt-4o"}, "PALIMPSEST_MODEL"),
        ({"PALIMPSEST_MODEL": "openai:"}, "PALIMPSEST_MODEL"),
        ({"PALIMPSEST_MODEL": 7}, "PALIMPSEST_MODEL"),
        ({"PALIMPSEST_MODEL": "openai:x"}, "OPENAI_API_KEY"),
        ({"PALIMPSEST_MODEL": "anthropic:x"}, "ANTHROPIC_API_KEY"),
        ({"PALIMPSEST_MODEL": "workers-ai:@cf/x"}, "binding 'AI'"),
        ({"PALIMPSEST_MODEL": "openai:x", "PALIMPSEST_MODEL_URL": "ftp://x"}, "MODEL_URL"),
        ({"PALIMPSEST_CONTEXT_WINDOW": "many"}, "PALIMPSEST_CONTEXT_WINDOW"),
        ({"PALIMPSEST_CONTEXT_WINDOW": "0"}, "PALIMPSEST_CONTEXT_WINDOW"),
        ({"PALIMPSEST_OFFLINE_DELAY": "-1"}, "PALIMPSEST_OFFLINE_DELAY"),
        (
            {
                "PALIMPSEST_MODEL": "openai:x",
                "OPENAI_API_KEY": "k",
                "PALIMPSEST_CONTEXT_WINDOW": "1000",
                "PALIMPSEST_MAX_OUTPUT_TOKENS": "1000",
            },
            "PALIMPSEST_MAX_OUTPUT_TOKENS",
        ),
    ],
)
def test_a_wrong_variable_is_named(variables: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        made(**variables)


def test_no_error_shows_a_secret() -> None:
    with pytest.raises(ConfigurationError) as caught:
        made(
            PALIMPSEST_MODEL="openai:x",
            OPENAI_API_KEY="sk-very-secret",
            PALIMPSEST_MODEL_TIMEOUT="x",
        )
    assert "very-secret" not in str(caught.value)
    model = made(PALIMPSEST_MODEL="openai:x", OPENAI_API_KEY="sk-very-secret")
    assert "very-secret" not in repr(vars(model))
