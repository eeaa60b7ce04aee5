"""Every ```` ```python worker ```` block of the documentation is a whole Worker, and chats."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.paths import ROOT
from support.worker_config import exported_objects

from palimpsest.actor.routing import kebab_case
from palimpsest.chat.agent import ChatAgent
from palimpsest.testing import load_agents
from tests.fixtures import StartWorker
from tests.support.chat_client import ChatClient
from tests.support.doc_blocks import blocks_labelled
from tests.support.worker_calls import get_json

pytestmark = pytest.mark.workerd

FILES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
WORKERS = [
    pytest.param(source, id=f"{path.name}:{line}")
    for path in FILES
    for line, source in blocks_labelled(path, "python worker")
]


def test_there_are_workers_in_the_documentation() -> None:
    assert len(WORKERS) >= 3


@pytest.mark.parametrize("source", WORKERS)
def test_the_worker_starts_and_answers(
    source: str, start_worker: StartWorker, tmp_path: Path
) -> None:
    main = tmp_path / "entry.py"
    main.write_text(source, encoding="utf-8")
    agents = load_agents(main)
    assert exported_objects(main) == list(agents)
    running = start_worker(main, assets=False)
    for name, agent_class in agents.items():
        agent = kebab_case(name)
        status = get_json(f"{running.url}/agents/{agent}/one/status")
        assert (status["agent"], status["name"]) == (agent, "one")
        if issubclass(agent_class, ChatAgent):
            client = ChatClient(lambda: running.url, "one", agent=agent)
            assert client.ask("My cat is called Minka.")
            assert client.messages()[-1]["role"] == "assistant"
            client.close()
