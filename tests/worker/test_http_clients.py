"""HTTP clients that code in tools uses, inside workerd, over real TLS."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.packages import ensure_packages, ensure_worker_packages
from support.worker_config import define_worker, vendored_modules
from support.workerd import Workerd

from tests.support.https_server import HttpsServer

pytestmark = pytest.mark.workerd

WORKER = Path(__file__).parent / "workers" / "http_worker.py"

Run = Callable[[str], Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, snapshot: bool) -> Iterator[Run]:
    """Runs one experiment of the Worker against an https server."""
    ensure_worker_packages()
    extra = vendored_modules(ensure_packages("worker-clients"))
    with HttpsServer(tmp_path_factory.mktemp("https")) as server:
        worker = Workerd(
            define_worker(WORKER, extra_modules=extra, assets=False),
            tmp_path_factory.mktemp("clients"),
            snapshot=snapshot,
            trusted_certificates=[server.certificate],
        )
        with worker:

            def send(name: str) -> Any:
                query = urllib.parse.urlencode({"run": name, "to": server.url})
                address = f"{worker.url}/agents/client/one?{query}"
                with urllib.request.urlopen(address, timeout=60) as answer:
                    return json.load(answer)

            yield send


def test_urllib_reads_https(run: Run) -> None:
    assert run("urllib_get") == {
        "status": 200,
        "bytes": list(range(256)),
        "type": "application/octet-stream",
    }


def test_urllib_posts_over_https(run: Run) -> None:
    echo = run("urllib_post")
    assert (echo["method"], echo["body"]) == ("POST", "a=1")
    assert echo["headers"]["x-key"] == "abc"
    assert echo["headers"]["content-type"] == "application/x-www-form-urlencoded"


def test_urllib_raises_for_error_statuses(run: Run) -> None:
    assert run("urllib_error") == {"code": 404, "body": "nothing here"}


def test_urllib_keeps_time_limits(run: Run) -> None:
    assert run("urllib_timeout") == {"reason": "TimeoutError"}


def test_urllib_tells_network_failures(run: Run) -> None:
    assert "reason" in run("urllib_refused")


def test_openers_and_other_addresses_work(run: Run) -> None:
    assert run("urllib_opener") == {"status": 200, "inline": "hello"}


@pytest.mark.parametrize("client", ["requests_get", "httpx2_get", "httpx2_sync"])
def test_other_clients_post_over_https(run: Run, client: str) -> None:
    answer = run(client)
    assert answer["status"] == 200
    assert answer["echo"]["body"] == "a=1"
    assert answer["echo"]["headers"]["x-key"] == "abc"


def test_pyodide_http_finds_what_it_needs(run: Run) -> None:
    assert run("pyodide_http_itself") == {"should_patch": True}
