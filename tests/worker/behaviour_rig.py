"""Runs behaviour tests inside workerd: which there are, and how to run one."""

from __future__ import annotations

import ast
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.packages import ensure_test_packages, ensure_worker_packages
from support.paths import ROOT
from support.worker_config import (
    WorkerDefinition,
    WorkerModule,
    define_worker,
    source_modules,
    vendored_modules,
)

BEHAVIOUR = ROOT / "tests" / "behaviour"
INSIDE = ROOT / "tests" / "worker" / "inside"


def behaviour_tests() -> list[str]:
    """The node ids of all behaviour tests, read from the files' syntax trees."""
    found: list[str] = []
    for path in sorted(BEHAVIOUR.rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        body = ast.parse(path.read_text(encoding="utf-8")).body
        found += [f"{name}::{test}" for test in _test_names(body)]
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                found += [f"{name}::{node.name}::{test}" for test in _test_names(node.body)]
    return found


def _test_names(body: list[ast.stmt]) -> list[str]:
    functions = [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [node.name for node in functions if node.name.startswith("test_")]


def behaviour_worker() -> WorkerDefinition:
    """The Worker that holds the library, pytest and the behaviour tests."""
    ensure_worker_packages()
    tests = ROOT / "tests"
    extra = [
        WorkerModule("pyproject.toml", ROOT / "pyproject.toml", "data"),
        WorkerModule("tests/conftest.py", tests / "conftest.py", "pythonModule"),
        *source_modules(INSIDE),
        *source_modules(BEHAVIOUR, "tests/behaviour/"),
        *(
            WorkerModule(path.relative_to(ROOT).as_posix(), path, "data")
            for path in sorted(BEHAVIOUR.glob("*.sql"))
        ),
        *vendored_modules(ensure_test_packages()),
    ]
    return define_worker(
        INSIDE / "behaviour_worker.py",
        extra_modules=extra,
        object_classes={"TestRoom": "TestRoom"},
        assets=False,
    )


def run_inside(url: str, test: str, variables: Mapping[str, str]) -> dict[str, Any]:
    """Run one test in a new object of the Worker at ``url``: ``ok``, ``passed``, ``output``.

    :param variables: what the host's environment has besides the Worker's own variables.
    """
    room = f"{Path(test).name} {time.time_ns()}"
    query = urllib.parse.urlencode({"test": test, "room": room, **variables})
    with urllib.request.urlopen(f"{url}/?{query}", timeout=120) as response:
        return json.loads(response.read())
