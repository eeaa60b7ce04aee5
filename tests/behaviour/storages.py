"""The storages that the contract of a session is tested on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dictionary_provider import AwaitedProvider, DictionaryProvider

from palimpsest.hosts.interface import Host
from palimpsest.session.provided.agent import AgentSessionProvider
from palimpsest.session.session import Session


class Storage(Protocol):
    """Some storage, empty at the beginning of a test."""

    searches: bool
    removes_overlays: bool

    def session(self) -> Session:
        """A new session object over the one conversation there is."""
        ...

    def block(self, label: str) -> Any:
        """A provider of a context block's content in this storage; None for its default."""
        ...


class OwnStorage:
    """The object's own database."""

    searches = True
    removes_overlays = True

    def __init__(self, host: Host) -> None:
        self._host = host

    def session(self) -> Session:
        return Session.create(self._host)

    def block(self, label: str) -> Any:
        return None


class ProviderStorage:
    """A provider's storage."""

    def __init__(self, provider: Any, *, whole: bool) -> None:
        self.provider = provider
        self.searches = whole
        self.removes_overlays = whole
        self._blocks: dict[str, Any] = {}

    def session(self) -> Session:
        return Session.create(self.provider)

    def block(self, label: str) -> Any:
        return self._blocks.setdefault(label, Notebook())


class Notebook:
    """The content of one block."""

    def __init__(self) -> None:
        self.text: str | None = None

    def get(self) -> str | None:
        return self.text

    def set(self, content: str) -> None:
        self.text = content


STORAGES: dict[str, Callable[[Host], Storage]] = {
    "own": OwnStorage,
    "agent provider": lambda host: ProviderStorage(AgentSessionProvider(host), whole=True),
    "values": lambda host: ProviderStorage(DictionaryProvider(), whole=False),
    "awaitables": lambda host: ProviderStorage(AwaitedProvider(DictionaryProvider()), whole=False),
}
