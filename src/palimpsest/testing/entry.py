"""Reading the agents of a Worker's main module on CPython.

A main module imports :mod:`palimpsest.hosts.workers`, which exists only inside the Worker. While it
is read here, that package is replaced by one whose decorator leaves the agent's class as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from palimpsest.actor.agent import Agent

WORKERS = "palimpsest.hosts.workers"


def load_agents(path: str | Path) -> dict[str, type[Any]]:
    """The agent classes that a main module exports, by name.

    ``load_agents("src/entry.py")["Assistant"]`` can be given to :class:`LocalAgent`. Each call
    reads the module anew. As in the Worker, the modules beside it can be imported, also later.

    :param path: the module's file.
    :raises FileNotFoundError: there is none.
    :raises ValueError: it exports no agent.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"there is no main module {path}")
    exported: dict[str, type[Any]] = {}
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    with _local_workers(exported):
        _run(file)
    if not exported:
        raise ValueError(f"{path} exports no agent: no class has the decorator durable_object")
    return exported


def _run(file: Path) -> None:
    """Run a module, which stays known under its name: types are looked up there by their names."""
    before = sys.modules.get(file.stem)
    module = sys.modules[file.stem] = ModuleType(file.stem)
    module.__file__ = str(file)
    try:
        # Compiled here, for a cached form could be that of another moment of the same second.
        exec(compile(file.read_bytes(), str(file), "exec"), module.__dict__)
    except BaseException:
        del sys.modules[file.stem]
        if before is not None:
            sys.modules[file.stem] = before
        raise


@contextmanager
def _local_workers(exported: dict[str, type[Any]]) -> Generator[None, None, None]:
    """While it lasts, the Workers host is a module that only collects the exported classes."""

    def durable_object(agent_class: type[Agent]) -> type[Agent]:
        exported[agent_class.__name__] = agent_class
        exported_class: Any = agent_class
        exported_class.agent_class = agent_class  # as the Worker's decorator does
        return agent_class

    def worker_entrypoint(**options: Any) -> None:
        del options

    names: dict[str, Callable[..., Any]] = {
        "durable_object": durable_object,
        "worker_entrypoint": worker_entrypoint,
    }
    module = ModuleType(WORKERS, "The Workers host, as far as a main module needs it to be read.")
    for name, value in names.items():
        setattr(module, name, value)
    before = sys.modules.get(WORKERS)
    sys.modules[WORKERS] = module
    try:
        yield
    finally:
        del sys.modules[WORKERS]
        if before is not None:
            sys.modules[WORKERS] = before
