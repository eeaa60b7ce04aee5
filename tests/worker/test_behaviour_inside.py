"""Every behaviour test again, inside workerd, over a Durable Object's own storage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.workerd import Workerd

from tests.support.model_server import ModelServer
from tests.worker.behaviour_rig import behaviour_tests, behaviour_worker, run_inside

pytestmark = pytest.mark.workerd


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory, snapshot: bool) -> Iterator[Workerd]:
    """The Worker that holds the behaviour tests."""
    running = Workerd(behaviour_worker(), tmp_path_factory.mktemp("inside"), snapshot=snapshot)
    running.start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    """Addresses that behaviour tests need."""
    with ModelServer() as models:
        yield {"MODEL_SERVER": models.url}


@pytest.mark.parametrize("test", behaviour_tests())
def test_inside_workerd(inside: Workerd, variables: dict[str, str], test: str) -> None:
    outcome = run_inside(inside.url, test, variables)
    assert outcome["ok"], outcome["output"]
