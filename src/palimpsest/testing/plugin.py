"""The pytest plugin: fixtures for agents on the local host, and async tests that use them.

Installed with the package (entry point ``pytest11``), so plain pytest finds it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from palimpsest.hosts.local import LocalHost
from palimpsest.testing.agents import LocalAgent

FIXTURES = frozenset({"local_host", "local_agent"})
"""Async tests that use one of these need no other plugin."""


@pytest.fixture
def local_host() -> Iterator[LocalHost]:
    """A host in memory with a movable clock."""
    host = LocalHost()
    yield host
    host.close()


@pytest.fixture
def local_agent() -> Iterator[Callable[..., LocalAgent[Any]]]:
    """Makes agents on the local host: ``async with local_agent(MyAgent) as local:``."""
    made: list[LocalAgent[Any]] = []

    def make(agent_class: type[Any], **options: Any) -> LocalAgent[Any]:
        agent = LocalAgent(agent_class, **options)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        agent.host.close()


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that uses the plugin's fixtures, unless another plugin is asked for."""
    names = pyfuncitem.fixturenames
    if not inspect.iscoroutinefunction(pyfuncitem.obj) or FIXTURES.isdisjoint(names):
        return None
    if pyfuncitem.get_closest_marker("asyncio") or pyfuncitem.get_closest_marker("anyio"):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in wanted}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True
