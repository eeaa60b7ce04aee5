"""Async tests without a plugin: the same hook serves CPython and the interpreter in workerd."""

from __future__ import annotations

import inspect
import os
import sys
from typing import Any

import pytest

if sys.platform != "emscripten":
    from hypothesis import settings

    # The same examples in every run, so that a red run can be seen again; the nightly run looks
    # for new ones.
    settings.register_profile("repeatable", derandomize=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test to its end, each in an event loop of its own where that is possible."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments: dict[str, Any] = {
        name: value for name, value in pyfuncitem.funcargs.items() if name in names
    }
    if sys.platform == "emscripten":
        from pyodide.ffi import run_sync

        run_sync(function(**arguments))
    else:
        import asyncio

        asyncio.run(function(**arguments))
    return True


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of this suite."""
    parser.addoption(
        "--no-snapshot",
        action="store_true",
        help="start Workers without restoring a memory snapshot",
    )
