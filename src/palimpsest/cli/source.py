"""Where a command reads from: an agent's address, a database file, or an exported conversation."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import tempfile
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from palimpsest.cli.address import AgentAddress, parse_address
from palimpsest.errors import InvalidImportError
from palimpsest.hosts.local import LocalHost
from palimpsest.interchange import Conversation, read_conversation
from palimpsest.session.exchange import import_conversation
from palimpsest.session.manager import SessionManager

SOURCE_HELP = (
    "a Worker's address (http://HOST) or an agent's (http://HOST/agents/AGENT/NAME), "
    "its database file, or an exported conversation"
)

_SQLITE_HEADER = b"SQLite format 3\0"
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d+([/?].*)?")
_TIMEOUT_SECONDS = 60.0


TOKEN_VARIABLE = "PALIMPSEST_TOKEN"
"""The environment variable that holds a token where none is given."""


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that choose an agent and open its door, the same for every command."""
    parser.add_argument("--agent", default="assistant", help="class of the agent (assistant)")
    parser.add_argument("--name", default="default", help="name of the agent (default)")
    parser.add_argument(
        "--token",
        default=os.environ.get(TOKEN_VARIABLE, ""),
        help=f"for an agent that asks for one (default: ${TOKEN_VARIABLE})",
    )


def is_address(source: str) -> bool:
    """Whether the source is the address of a Worker or an agent; ``host:8787`` is one, too.

    A file of such a name is meant where there is one.
    """
    if urlsplit(source).scheme in ("http", "https", "ws", "wss"):
        return True
    return bool(_HOST_AND_PORT.fullmatch(source)) and not Path(source).exists()


class RemoteAgent:
    """An agent reached over HTTP."""

    def __init__(self, address: AgentAddress) -> None:
        """An agent at an address; its token is sent with each request."""
        self.address = address

    @classmethod
    def of(cls, address: str, options: argparse.Namespace) -> RemoteAgent:
        """The agent that a command was given.

        :param options: those of :func:`add_agent_arguments`.
        :raises AddressError: no address of an agent.
        """
        agent, name, token = options.agent, options.name, options.token
        return cls(parse_address(address, agent=agent, name=name, session="", token=token))

    def request(
        self, method: str, path: str, query: dict[str, Any] | None = None, body: bytes | None = None
    ) -> bytes:
        """The body of the answer.

        :raises OSError: the agent could not be reached, or answered with an error; its text.
        """
        url = f"{self.address.base}/{path}"
        if query:
            url += "?" + urlencode(
                {key: value for key, value in query.items() if value is not None}
            )
        request = urllib.request.Request(
            url, data=body, method=method, headers=self.address.headers
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            with error:
                raise OSError(f"{url}: {error.code} {_error_text(error.read())}") from None
        except urllib.error.URLError as error:
            raise OSError(f"{url}: {error.reason}") from error

    def json(self, method: str, path: str, query: dict[str, Any] | None = None) -> Any:
        """The answer as a JSON value."""
        return json.loads(self.request(method, path, query))


def _error_text(body: bytes) -> str:
    text = body.decode(errors="replace")
    try:
        told = json.loads(text)["error"]
        return told if isinstance(told, str) else str(told["message"])
    except (ValueError, KeyError, TypeError):
        return text[:300]


@contextmanager
def opened_copy(path: Path) -> Generator[LocalHost, None, None]:
    """A host over a copy of what the file holds; the file itself is never changed.

    A database of this library, or of npm ``agents`` up to 0.22, is copied with its write-ahead
    log and upgraded in the copy; an exported conversation is read into an empty database.

    :raises InvalidImportError: the file is neither.
    """
    if not path.is_file():
        raise InvalidImportError(f"{path} is no file")
    with tempfile.TemporaryDirectory(prefix="palimpsest-") as directory:
        if is_database(path):
            copy = Path(directory) / "copy.sqlite"
            for suffix in ("", "-wal", "-shm"):
                part = path.with_name(path.name + suffix)
                if part.is_file():
                    shutil.copyfile(part, copy.with_name(copy.name + suffix))
            host = LocalHost(copy)
        else:
            host = LocalHost()
            asyncio.run(_read_export(host, path))
        try:
            yield host
        finally:
            host.close()


def is_database(path: Path) -> bool:
    """Whether the file is an SQLite database."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE_HEADER)) == _SQLITE_HEADER


def read_named(path: Path, text: str, new_id: Callable[[], str]) -> Conversation:
    """What :func:`read_conversation` reads from a file's text.

    :raises InvalidImportError: it cannot be read; the message names the file.
    """
    try:
        return read_conversation(text, new_id)
    except InvalidImportError as error:
        raise InvalidImportError(f"{path}: {error}") from error


async def _read_export(host: LocalHost, path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    conversation = read_named(path, text, lambda: str(uuid.uuid4()))
    manager = SessionManager.create(host)
    await import_conversation(manager.get_session(""), conversation)
