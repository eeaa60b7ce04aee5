"""A Worker that runs the behaviour tests: one test in one Durable Object per request."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import workers
from recording_host import set_context

import palimpsest
from palimpsest.hosts.workers.bindings import Environment

sys.dont_write_bytecode = True

_METADATA = "/session/metadata"


class _Outcomes:
    """A pytest plugin that keeps how each phase of each test ended."""

    def __init__(self) -> None:
        self.passed = 0
        self.problems: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed += 1
        elif report.failed or report.skipped:
            self.problems.append(f"{report.nodeid} ({report.when}) {report.outcome}")


class TestRoom(workers.DurableObject):
    """One test's own object."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)

    async def fetch(self, request: Any) -> Any:
        """Run the test named by the query's ``test``."""
        query = {
            name: values[0] for name, values in parse_qs(urlsplit(str(request.url)).query).items()
        }
        test = query.pop("test")
        context = self.ctx
        environment = {**Environment(self.env), **query}
        set_context(getattr(context, "_ctx", context), environment)
        return workers.Response(
            json.dumps(_run(test)), headers={"content-type": "application/json"}
        )

    async def webSocketMessage(self, ws: Any, message: Any) -> None:
        """Sockets of tests have no real client."""

    async def webSocketClose(self, ws: Any, code: int, reason: str, clean: bool) -> None:
        """Sockets of tests have no real client."""


def _run(test: str) -> dict[str, Any]:
    outcomes, output = _Outcomes(), io.StringIO()
    arguments = [
        f"{_METADATA}/{test}",
        f"--rootdir={_METADATA}",
        f"--config-file={_METADATA}/pyproject.toml",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:faulthandler",
        "--tb=short",
        "-q",
        "-s",
    ]
    loop = asyncio.events._get_running_loop()
    try:
        with redirect_stdout(output), redirect_stderr(output):
            code = int(pytest.main(arguments, plugins=[outcomes]))
    finally:
        asyncio.events._set_running_loop(loop)
    return {
        "ok": code == 0 and outcomes.passed > 0 and not outcomes.problems,
        "passed": outcomes.passed,
        "output": output.getvalue(),
    }


class Default(workers.WorkerEntrypoint):
    """Gives each test an object of its own."""

    async def fetch(self, request: Any) -> Any:
        """``/?test=NODE&room=NAME`` runs a test, ``/heap`` tells the WebAssembly heap's size."""
        url = urlsplit(str(request.url))
        query = parse_qs(url.query)
        if "test" not in query:
            return workers.Response(palimpsest.__name__)
        stub = self.env.TestRoom.getByName(query["room"][0])
        return await stub._binding.fetch(request.js_object)
