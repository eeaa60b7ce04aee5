"""The fixture ``host``: the local host on CPython, a Durable Object's own inside workerd."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def host() -> Iterator[Any]:
    """A fresh host with a movable clock; see ``LocalHost`` for what tests may use of it."""
    if sys.platform == "emscripten":
        from recording_host import fresh_host

        yield fresh_host()
    else:
        from palimpsest.hosts.local import LocalHost

        local = LocalHost(name="behaviour")
        yield local
        local.close()


@pytest.fixture(scope="session")
def model_server() -> Iterator[str]:
    """The address of a model provider for tests; see ``tests/support/model_server.py``."""
    if sys.platform == "emscripten":
        from recording_host import fresh_host

        yield fresh_host().environment["MODEL_SERVER"]
    else:
        from tests.support.model_server import ModelServer

        with ModelServer() as server:
            yield server.url
