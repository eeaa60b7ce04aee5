"""The same script of client frames against a real npm AIChatAgent and against this agent.

What clients receive is the same after ids and times are normalised, but for the differences that
``differential.without_known_differences`` lists and those of single scenarios below, each of which
has its reason.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.js_worker import bundle_worker
from support.packages import ensure_worker_packages
from support.paths import ROOT
from support.worker_config import define_worker
from support.workerd import Workerd

from tests.clients.differential import SCRIPTS, Script, differences, play

pytestmark = pytest.mark.workerd

WORKERS = Path(__file__).parent / "workers"
FAILED = "Something went wrong while answering. What was written before has been kept."

EXPECTED: dict[str, list[str]] = {
    # The text that was cut off is ended for the clients, and the one who stopped is shown what was
    # kept of it: its own copy may have fewer words than had been written.
    "stop": [
        "+ one: r1 text-end",
        "+ one: transcript [user slow a b c d e f g h | assistant a b c]",
        "+ two: r1 text-end",
    ],
    # One frame says that the turn failed and has ended, instead of two.
    "model_error": [
        "- one: r1 the model is tired error u1",
        "- one: r1 done error u1",
        "+ one: r1 text-end",
        "+ one: transcript [user fail now | assistant you]",
        "+ one: r1 the model is tired error done error u1",
        "+ two: r1 text-end",
        "- two: r1 the model is tired error u1",
        "- two: r1 done error u1",
        "+ two: r1 the model is tired error done error u1",
    ],
    # npm tells clients nothing of an exception in the hook, so that they wait for ever.
    "exception": [
        f"+ one: r1 {FAILED} error done error u1",
        f"+ two: r1 {FAILED} error done error u1",
    ],
    # npm tells the others the shorter transcript and keeps the longer one; here both agree, and
    # what was left out stays reachable as a branch.
    "replace": ["- stored: assistant you said hello"],
    # npm takes the old answer from the other tab's screen before the new one begins.
    "regenerate": ["- two: transcript [user hello]"],
    # The result of an approved call comes with its message. As a chunk of the continuation it ends
    # in an error on the AI SDK 6.0.250 and later.
    "approval": [
        "- two: ID2 tool-output-available",
        "+ two: updated [assistant output-available]",
    ],
    # npm offers the stream before it lists the MCP servers.
    "join": ["- two: stream_resuming", "+ two: stream_resuming"],
    # npm stores all messages first and answers the newest each time, so that "two" never gets its
    # answer; here each is answered in its turn, and the one who asked is shown the true order. What
    # is accepted at once is shown to others at once.
    "queue": [
        "+ one: transcript [user slow a b c | assistant a b c | user two | user three]",
        "- one: r2 text-delta you said three",
        "+ one: r2 text-delta you said two",
        "- one: r2 done u1 u2",
        "+ one: transcript [user slow a b c | assistant a b c | user two"
        " | assistant you said two | user three]",
        "+ one: r2 done u2",
        "+ one: transcript [user slow a b c | assistant a b c | user two"
        " | assistant you said two | user three]",
        "- one: r3 done u1 u2 u3",
        "+ one: transcript [user slow a b c | assistant a b c | user two"
        " | assistant you said two | user three | assistant you said three]",
        "+ one: r3 done u3",
        "- two: transcript [user slow a b c | user two]",
        "- two: transcript [user slow a b c | user two | user three | assistant a b c]",
        "+ two: transcript [user slow a b c | assistant a b c | user two | user three]",
        "+ two: transcript [user slow a b c | assistant a b c | user two | user three]",
        "- two: r2 text-delta you said three",
        "+ two: r2 text-delta you said two",
        "- two: transcript [user slow a b c | user two | user three | assistant a b c"
        " | assistant you said three]",
        "- two: r2 done u1 u2",
        "+ two: transcript [user slow a b c | assistant a b c | user two"
        " | assistant you said two | user three]",
        "+ two: r2 done u2",
        "+ two: transcript [user slow a b c | assistant a b c | user two"
        " | assistant you said two | user three]",
        "- two: transcript [user slow a b c | user two | user three | assistant a b c"
        " | assistant you said three | assistant you said three]",
        "- two: r3 done u1 u2 u3",
        "+ two: transcript [user slow a b c | assistant a b c | user two"
        " | assistant you said two | user three | assistant you said three]",
        "+ two: r3 done u3",
        "+ stored: assistant a b c",
        "+ stored: assistant you said two",
        "- stored: assistant a b c",
        "- stored: assistant you said three",
    ],
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workerd, Workerd]]:
    """npm's agent and this one, running."""
    ensure_worker_packages()
    aliases = {
        "path": "node:path",
        "cloudflare:email": str(ROOT / "bench" / "workers" / "email_stub.mjs"),
    }
    npm = bundle_worker(WORKERS / "chat_peer.mjs", {"Chat": "Chat"}, aliases=aliases)
    theirs = Workerd(npm, tmp_path_factory.mktemp("theirs"), snapshot=False)
    ours = Workerd(
        define_worker(WORKERS / "differential_worker.py"),
        tmp_path_factory.mktemp("ours"),
        snapshot=True,
    )
    theirs.start()
    ours.start()
    yield theirs, ours
    theirs.kill()
    ours.kill()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_clients_receive_the_same(sides: tuple[Workerd, Workerd], script: Script) -> None:
    theirs, ours = sides
    before = asyncio.run(play(theirs.url, f"room-{uuid.uuid4().hex}", script))
    after = asyncio.run(play(ours.url, f"room-{uuid.uuid4().hex}", script))
    name = getattr(script, "__name__", "")
    assert differences(before, after) == EXPECTED.get(name, [])
