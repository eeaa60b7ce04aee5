"""Each example of examples/ under workerd, used as a person would use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.paths import ROOT
from support.workerd import Workerd

from tests.fixtures import StartWorker
from tests.support.chat_client import ChatClient, texts_of
from tests.support.model_server import ModelServer
from tests.support.worker_calls import call_method, get_json, script_model, tool_call, wait_for

pytestmark = pytest.mark.workerd

EXAMPLES = ROOT / "examples"


@pytest.fixture(scope="module")
def models() -> Iterator[ModelServer]:
    """The provider."""
    with ModelServer() as server:
        yield server


def client_of(running: Workerd, agent: str, session: str = "") -> ChatClient:
    return ChatClient(lambda: running.url, "ada", agent=agent, session=session)


def approve(client: ChatClient, call_id: str) -> None:
    client.send(
        {
            "type": "cf_agent_tool_approval",
            "toolCallId": call_id,
            "approved": True,
            "autoContinue": True,
        }
    )


def state_of(client: ChatClient) -> Any:
    """The state as a client that connects is told it."""
    client.close()
    while True:
        frame = client.receive()
        if frame["type"] == "cf_agent_state":
            return frame["state"]


def test_every_example_is_short_and_tested() -> None:
    found = {path.stem for path in EXAMPLES.glob("*.py")}
    assert found == {"assistant_with_tools", "coding_agent", "scheduled_digest", "support_desk"}
    for path in EXAMPLES.glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 80, path.name


def test_assistant_with_tools(start_worker: StartWorker, models: ModelServer) -> None:
    payment = tool_call("pay", to="Bo", amount=75.0)
    variables = script_model(
        models,
        tool_call("note_expense", what="train ticket", amount=42.5),
        {"text": "Noted."},
        tool_call("pay", to="Cleo", amount=5),
        {"text": "Paid the small one."},
        payment,
        {"text": "Paid the large one."},
        tool_call("remind_me", text="the train leaves", minutes=0.02),
        {"text": "I will."},
    )
    running = start_worker(EXAMPLES / "assistant_with_tools.py", variables=variables)
    client = client_of(running, "butler")
    assert client.ask("A ticket for 42.50") == "Noted."
    assert client.ask("5 euros to Cleo") == "Paid the small one."
    assert state_of(client)["expenses"] == [{"what": "train ticket", "amount": 42.5}]

    assert client.ask("75 euros to Bo") == ""
    (call,) = [part for part in client.messages()[-1]["parts"] if part["type"] == "tool-pay"]
    assert call["state"] == "approval-requested"
    assert len(state_of(client)["payments"]) == 1, "nothing was paid before the consent"
    approve(client, payment["calls"][0]["id"])
    wait_for(lambda: texts_of(client.messages(), "assistant")[-1] == "Paid the large one.")
    assert state_of(client)["payments"][-1] == {"to": "Bo", "amount": 75.0}

    assert client.ask("Remind me of the train") == "I will."
    wait_for(lambda: texts_of(client.messages(), "assistant")[-1] == "Reminder: the train leaves")
    client.close()


def test_coding_agent(start_worker: StartWorker, models: ModelServer) -> None:
    def written(number: int) -> str:
        return f"# draft {number}\n" + "value = 1\n" * 400

    edits = [tool_call("write_file", path="main.py", text=written(number)) for number in range(4)]
    steps = [step for edit in edits for step in (edit, {"text": "I wrote main.py. " * 20})]
    summary = {"text": "The person asked for drafts of main.py, and got four."}
    variables = script_model(models, *steps, summary, name="coder")
    running = start_worker(EXAMPLES / "coding_agent.py", variables=variables)
    client = client_of(running, "coder")
    for number in range(4):
        client.ask(f"Write draft {number} of main.py. " + "Keep it as simple as it can be. " * 150)
    assert call_method(client, "files") == {"main.py": written(3)}

    before = call_method(client, "checkpoints")
    answer = client.ask("/compact")
    assert "compact" in answer
    after = call_method(client, "checkpoints")
    assert after, "a checkpoint was made"
    assert len(after) >= len(before)
    assert "main.py" in after[-1][1]
    assert call_method(client, "files") == {"main.py": written(3)}, "replayed from the checkpoint"

    client.close()
    running.kill()
    running.start()
    undo = [tool_call("undo_edits", first=10), {"text": "The last edit is taken back."}]
    far = [tool_call("undo_edits", first=1), {"text": "All edits are taken back."}]
    script_model(models, *undo, *far, name="coder")
    assert call_method(client, "files") == {"main.py": written(3)}
    client.ask("Take the last edit back")
    assert call_method(client, "files") == {"main.py": written(2)}
    client.ask("Take everything back")
    assert call_method(client, "files") == {}
    assert call_method(client, "checkpoints") == [], "no checkpoint reaches over what was undone"
    client.close()


def test_scheduled_digest(start_worker: StartWorker) -> None:
    running = start_worker(
        EXAMPLES / "scheduled_digest.py", variables={"DIGEST_CRON": "*/4 * * * * *"}
    )
    client = client_of(running, "chronicler", "work")
    client.ask("Please remember: the invoice 4711 must be paid by Friday.")
    digest = wait_for(lambda: call_method(client, "latest_digest"), seconds=15)
    assert "Please remember: the invoice 4711" in digest
    shown = get_json(f"{running.url}/agents/chronicler/ada/get-messages?session=digest")
    assert texts_of(shown, "assistant") == [digest]

    client.ask("The workshop moves to room 12.")

    def second() -> str:
        newest: str = call_method(client, "latest_digest")
        return newest if "room 12" in newest else ""

    digest = wait_for(second, seconds=15)
    # An answer that was not there yet when the first digest was written is new, too.
    assert "Please remember" not in digest, "each digest holds what is new"
    schedules = get_json(f"{running.url}/agents/chronicler/ada/status")["schedules"]
    assert schedules, "the schedule stays"
    client.close()


def test_support_desk(start_worker: StartWorker, models: ModelServer) -> None:
    variables = script_model(
        models,
        {"text": "The frame is a Gazelle, serial number GZ-2204.", "usage": [300, 40]},
        tool_call("search_context", label="cases", query="serial number of the frame"),
        {"text": "It is GZ-2204, as you said before.", "usage": [500, 30]},
        {"text": "Then we replace the chain.", "usage": [200, 20]},
    )
    running = start_worker(EXAMPLES / "support_desk.py", variables=variables)
    desk = client_of(running, "desk")
    brakes = call_method(desk, "open_case", "Brakes squeal")
    first = client_of(running, "desk", brakes)
    first.ask("My brakes squeal. It is the bike with the number GZ-2204.")
    call_method(desk, "notes", brakes, "Customer rides a Gazelle.")
    assert call_method(desk, "notes", brakes) == "Customer rides a Gazelle."

    chain = call_method(desk, "open_case", "Chain jumps")
    second = client_of(running, "desk", chain)
    assert second.ask("What was my serial number?") == "It is GZ-2204, as you said before."
    (part,) = [
        part for part in second.messages()[-1]["parts"] if part["type"] == "tool-search_context"
    ]
    assert "GZ-2204" in str(part["output"]), "the tool found it in the other case"
    assert call_method(desk, "notes", chain) == "", "each case has its own notes"

    found = call_method(desk, "find", "Gazelle frame serial number")
    assert brakes in {hit["case"] for hit in found}

    start = second.messages()[0]["id"]
    other = call_method(desk, "try_another_way", chain, start, "Chain jumps, second try")
    third = client_of(running, "desk", other)
    assert [message["id"] for message in third.messages()] == [start]
    third.ask("Let us begin with the chain.")
    assert len(third.messages()) == 3
    assert len(second.messages()) == 2, "the origin is as it was"

    cases = {case["id"]: case for case in call_method(desk, "cases")}
    assert cases[other]["parent"] == chain
    assert cases[brakes]["inputTokens"] == 300
    assert cases[brakes]["outputTokens"] == 40
    assert cases[chain]["inputTokens"] == 600, "both steps of its turn are counted"
    assert cases[other]["inputTokens"] == 200
    for client in (desk, first, second, third):
        client.close()
