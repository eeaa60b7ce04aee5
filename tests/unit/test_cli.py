"""The commands of ``python -m palimpsest``, on files."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from palimpsest.__main__ import CLOSED_PIPE, main
from palimpsest.auth import verify_token
from palimpsest.cli.address import AddressError
from palimpsest.cli.source import RemoteAgent, add_agent_arguments, is_address
from palimpsest.hosts.local import LocalHost
from palimpsest.messages import text_message
from palimpsest.session.manager import SessionManager


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a branch, an overlay and a second session."""
    path = tmp_path / "agent.sqlite"
    host = LocalHost(path)

    async def fill() -> None:
        manager = SessionManager.create(host)
        session = manager.get_session("")
        for name, parent in [("a", None), ("b", "a"), ("c", "b"), ("side", "a"), ("d", "c")]:
            await session.append_message(text_message(name, "user", f"words of {name}"), parent)
        await session.add_compaction("what a and b said", "a", "b")
        await manager.create("Trip", session_id="trip")
        await manager.append("trip", text_message("t", "user", "We fly to Oslo on Tuesday."))

    asyncio.run(fill())
    host.close()
    return path


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def test_inspect_shows_tree_overlays_and_tokens(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = database.read_bytes()
    text = output(capsys, "inspect", str(database))
    assert "the default session: 5 messages, 4 on the active path" in text
    assert "≡ summarized up to b" in text
    assert "what a and b said" in text
    assert "Trip  (trip)" in text
    assert "     user  side  words of side" in text
    report: dict[str, Any] = json.loads(output(capsys, "inspect", str(database), "--json"))
    assert [message["parentId"] for message in report["messages"]] == [None, "a", "b", "a", "c"]
    assert report["leafId"] == "d"
    assert report["contextTokens"] > 0
    assert database.read_bytes() == before


def test_search_finds_in_a_database(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "search", str(database), "when do we fly to Oslo?")
    assert text.startswith("[user in trip] t\n")
    assert "«Oslo»" in text
    line = output(capsys, "search", str(database), "Oslo", "--json", "--limit", "1")
    assert json.loads(line)["messageId"] == "t"
    assert output(capsys, "search", str(database), "zebra", code=1) == ""


def test_export_and_import_move_a_session(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = tmp_path / "out.jsonl"
    output(capsys, "export", str(database), "-o", str(exported))
    assert not exported.with_name("out.jsonl.partial").exists()
    other = tmp_path / "other.sqlite"
    text = output(capsys, "import", str(exported), str(other))
    assert text == "5 messages imported, 0 were there before, 1 overlays laid\n"
    assert output(capsys, "export", str(other)).count("\n") == 7
    shown = output(capsys, "inspect", str(exported))
    assert "5 messages, 4 on the active path" in shown


def test_import_of_openai_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = tmp_path / "list.json"
    given.write_text(json.dumps([{"role": "user", "content": "Hello"}]))
    target = tmp_path / "new.sqlite"
    text = output(capsys, "import", str(given), str(target), "--session", "s")
    assert text.startswith("1 messages imported")
    again = output(capsys, "import", str(given), str(target), "--session", "s")
    assert again.startswith("0 messages imported, 1 were there before")
    assert "Hello" in output(capsys, "inspect", str(target), "--session", "s")


@pytest.mark.parametrize(
    ("content", "says"),
    [("", "input: nothing to import"), ("{", "input: line 1 is not JSON"), (None, "is no file")],
)
def test_unreadable_input_is_told_with_exit_code_2(
    content: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "input"
    if content is not None:
        path.write_text(content)
    assert main(["import", str(path), str(tmp_path / "x.sqlite")]) == 2
    assert says in capsys.readouterr().err
    assert main(["inspect", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_foreign_database_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert "0 messages" in output(capsys, "inspect", str(path))
    assert path.read_bytes() == before


def test_unreachable_agent_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "http://127.0.0.1:9/agents/assistant/x", "q"]) == 2
    assert "127.0.0.1:9" in capsys.readouterr().err


def test_token_is_made_from_the_environments_secret(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["token", "ann"]) == 2
    assert "PALIMPSEST_AUTH_SECRET" in capsys.readouterr().err
    monkeypatch.setenv("PALIMPSEST_AUTH_SECRET", "a secret of enough bytes")
    token = output(capsys, "token", "ann", "--name", "ann-*", "--readonly").strip()
    grant = verify_token("a secret of enough bytes", token, now=0)
    assert (grant.subject, grant.names, grant.readonly) == ("ann", ("ann-*",), True)
    assert main(["token", "ann", "--hours", "0"]) == 2


def test_message_may_follow_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    address = "http://127.0.0.1:9"
    assert main(["chat", address, "--agent", "x", "hello"]) != 0
    assert "unrecognized" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["inspect", "export", "search", "chat"])
def test_a_closed_pipe_ends_quietly(database: Path, command: str) -> None:
    arguments = [command, str(database)]
    if command == "search":
        arguments.append("words")
    if command == "chat":
        arguments = [command, "http://127.0.0.1:9", "hello", "--json"]
    read, write = os.pipe()
    os.close(read)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "palimpsest", *arguments],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert (ended.returncode, ended.stderr) == (CLOSED_PIPE, "")


def test_the_address_of_a_worker_stands_for_its_first_agent() -> None:
    options = argparse.Namespace(agent="assistant", name="default", token="t")
    for given, base in (
        ("http://localhost:8787/", "http://localhost:8787/agents/assistant/default"),
        ("wss://example.com", "https://example.com/agents/assistant/default"),
        ("http://h/agents/desk/ada/", "http://h/agents/desk/ada"),
        ("localhost:8787", "http://localhost:8787/agents/assistant/default"),
        ("127.0.0.1:8787/agents/desk/ada", "http://127.0.0.1:8787/agents/desk/ada"),
    ):
        assert is_address(given)
        agent = RemoteAgent.of(given, options)
        assert (agent.address.base, agent.address.headers) == (base, {"authorization": "Bearer t"})
    with pytest.raises(AddressError):
        RemoteAgent.of("http://", options)


def test_a_file_named_like_an_address_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_address("agent:1")
    (tmp_path / "agent:1").touch()
    assert not is_address("agent:1")
    assert not is_address("agent.sqlite")


def test_token_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALIMPSEST_TOKEN", "from-the-environment")
    parser = argparse.ArgumentParser()
    add_agent_arguments(parser)
    assert parser.parse_args([]).token == "from-the-environment"
    assert parser.parse_args(["--token", "given"]).token == "given"


def test_what_others_wrote_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "conversation.jsonl"
    message = text_message("a\x1b[31m", "user", "the cat \x1b]0;title\x07\x9b2J ended")
    path.write_text(json.dumps({"type": "message", "message": message}))
    for command in (["inspect", str(path)], ["search", str(path), "cat"]):
        assert main(command) == 0
        written = capsys.readouterr().out
        assert "]0;title" in written
        assert not {"\x1b", "\x07", "\x9b"} & set(written)
