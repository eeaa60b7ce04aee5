"""Where the content of context blocks comes from: the provider kinds and the built-in ones.

A provider is told by the methods it has (Sessions document): ``get`` alone is read-only, ``set``
makes it writable, ``load`` a collection of skills, ``search`` searchable. Methods may be plain or
async. A provider that also has ``for_session(session_id)`` is asked for one of its own for each
session, so that no two sessions share its rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from palimpsest.hosts.interface import host_of
from palimpsest.search.entries import entry_match, indexed_text
from palimpsest.store.context import ContextStore

T = TypeVar("T")

SEARCH_LIMIT = 10
"""How many entries ``search_context`` returns at most (Sessions document)."""


@runtime_checkable
class ContextProvider(Protocol):
    """Read-only content of a block."""

    def get(self) -> Any:
        """The content (str), or None for nothing; may be a coroutine."""
        ...


@runtime_checkable
class WritableContextProvider(ContextProvider, Protocol):
    """Content that the model may replace or extend."""

    def set(self, content: str) -> Any:
        """Store the content; may be a coroutine."""
        ...


@runtime_checkable
class SkillProvider(ContextProvider, Protocol):
    """A collection whose entries are loaded by key; ``get`` gives the listing.

    With a method ``set(key, content, description=None)`` the model may write entries.
    """

    def load(self, key: str) -> Any:
        """The content of one entry (str), or None; may be a coroutine."""
        ...


@runtime_checkable
class SearchProvider(ContextProvider, Protocol):
    """Entries that are found by searching; ``get`` gives a summary.

    With a method ``set(key, content)`` the model may write entries.
    """

    def search(self, query: str) -> Any:
        """What was found, as text, or None; may be a coroutine."""
        ...


def is_writable_provider(provider: object) -> bool:
    """Whether the provider has ``set``."""
    return callable(getattr(provider, "set", None))


def is_skill_provider(provider: object) -> bool:
    """Whether the provider has ``load``."""
    return callable(getattr(provider, "load", None))


def is_search_provider(provider: object) -> bool:
    """Whether the provider has ``search``."""
    return callable(getattr(provider, "search", None))


async def resolve(value: T | Awaitable[T]) -> T:
    """The value itself, or what it gives when awaited."""
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return value


class StaticContextProvider:
    """Fixed text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get(self) -> str:
        """The text."""
        return self._text


class FunctionContextProvider:
    """Text that a function makes each time the prompt is rendered.

    :param function: plain or async, without arguments, returning str or None.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    async def get(self) -> str | None:
        """What the function returns."""
        return await resolve(self._function())


class PerSession:
    """A provider made anew for each session.

    :param factory: called with the session id, returns a provider.
    """

    def __init__(self, factory: Callable[[str], Any]) -> None:
        self._factory = factory

    def for_session(self, session_id: str) -> Any:
        """The session's own provider."""
        return self._factory(session_id)


class AgentContextProvider:
    """One writable block in the agent's own database.

    :param owner: an agent or a host.
    :param label: the row's label; None takes the label of the block it is used for.
    :param session_id: the session whose row it is.
    """

    def __init__(self, owner: Any, label: str | None = None, *, session_id: str = "") -> None:
        self._owner = owner
        self._label = label
        self._session_id = session_id

    def for_session(self, session_id: str) -> AgentContextProvider:
        """The same block of another session."""
        return AgentContextProvider(self._owner, self._label, session_id=session_id)

    def init(self, label: str) -> None:
        """Take the block's label where none was given."""
        if self._label is None:
            self._label = label

    def get(self) -> str | None:
        """The stored content, or None."""
        return self._store().get_block(self._session_id, self._label or "")

    def set(self, content: str) -> None:
        """Store the content.

        :raises LimitError: it exceeds the platform's 2 MB.
        """
        now = host_of(self._owner).now()
        self._store().set_block(self._session_id, self._label or "", content, now)

    def _store(self) -> ContextStore:
        return ContextStore.open(host_of(self._owner).sql)


class AgentSearchProvider:
    """Searchable entries in the agent's own database.

    :param owner: an agent or a host.
    :param session_id: the session whose entries they are.
    :param label: the entries' label; None takes the label of the block it is used for.
    """

    def __init__(self, owner: Any, *, session_id: str = "", label: str | None = None) -> None:
        self._owner = owner
        self._session_id = session_id
        self._label = label

    def for_session(self, session_id: str) -> AgentSearchProvider:
        """The entries of another session under the same label."""
        return AgentSearchProvider(self._owner, session_id=session_id, label=self._label)

    def init(self, label: str) -> None:
        """Take the block's label where none was given."""
        if self._label is None:
            self._label = label

    def get(self) -> str | None:
        """How many entries there are, or None for none."""
        count = self._store().count_entries(self._session_id, self._label or "")
        return f"{count} entries indexed." if count else None

    def set(self, key: str, content: str) -> None:
        """Write one entry, replacing an earlier one with that key."""
        now = host_of(self._owner).now()
        self._store().set_entry(
            self._session_id, self._label or "", key, content, indexed_text(content), now
        )

    def delete(self, key: str) -> bool:
        """Remove one entry; whether there was one."""
        return self._store().delete_entry(self._session_id, self._label or "", key)

    def search(self, query: str) -> str | None:
        """The ten entries that fit best, each under its ``[key]``, or None."""
        match = entry_match(query)
        if match is None:
            return None
        found = self._store().search_entries(
            self._session_id, self._label or "", match, SEARCH_LIMIT
        )
        return "\n\n".join(f"[{entry.key}]\n{entry.content}" for entry in found) or None

    def _store(self) -> ContextStore:
        return ContextStore.open(host_of(self._owner).sql)


class Bucket(Protocol):
    """What an R2 binding of the host offers."""

    async def get(self, key: str) -> bytes | None:
        """An object's content, or None."""
        ...

    async def put(
        self, key: str, content: bytes | str, *, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Store an object."""
        ...

    async def list(self, prefix: str = "") -> list[dict[str, Any]]:
        """Objects under a prefix: ``key`` and ``metadata`` of each."""
        ...


class R2SkillProvider:
    """Skills kept as objects in an R2 bucket, one object a skill.

    :param bucket: the R2 binding, ``host.environment["NAME"]``.
    :param prefix: only objects below it are skills; keys are relative to it.
    :param keys: the skills that may be listed, loaded and written; empty or None allows all.
    """

    def __init__(
        self, bucket: Bucket, *, prefix: str = "", keys: Iterable[str] | None = None
    ) -> None:
        self._bucket = bucket
        self._prefix = prefix
        self._keys = frozenset(keys or ())

    async def get(self) -> str | None:
        """One line a skill, ``- key: description``, or None where there are none."""
        lines: list[str] = []
        for item in await self._bucket.list(self._prefix):
            key = str(item["key"]).removeprefix(self._prefix)
            if self._allowed(key):
                description = item["metadata"].get("description")
                lines.append(f"- {key}: {description}" if description else f"- {key}")
        return "\n".join(lines) or None

    async def load(self, key: str) -> str | None:
        """The text of one skill, or None where there is none or it is not allowed."""
        if not self._allowed(key):
            return None
        content = await self._bucket.get(self._prefix + key)
        return None if content is None else content.decode(errors="replace")

    async def set(self, key: str, content: str, description: str | None = None) -> None:
        """Write one skill.

        :raises PermissionError: the key is not among the allowed ones.
        """
        if not self._allowed(key):
            raise PermissionError(f"skill {key!r} is not among the allowed keys")
        metadata = {"description": description} if description else None
        await self._bucket.put(self._prefix + key, content, metadata=metadata)

    def _allowed(self, key: str) -> bool:
        return not self._keys or key in self._keys


def as_provider(provider: Any, session_id: str) -> Any:
    """What a user may give for a provider, as a provider of this session.

    Text becomes a fixed provider, a function a computed one; a provider with ``for_session`` is
    asked for the session's own.

    :raises TypeError: it is none of these and has no ``get``.
    """
    if isinstance(provider, str):
        return StaticContextProvider(provider)
    for_session = getattr(provider, "for_session", None)
    if callable(for_session):
        return for_session(session_id)
    if callable(getattr(provider, "get", None)):
        return provider
    if callable(provider):
        return FunctionContextProvider(provider)
    raise TypeError(
        f"a provider is text, a function or an object with get(): {type(provider).__name__}"
    )
