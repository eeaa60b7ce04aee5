"""SessionManager: many named sessions in one object (Sessions document, "SessionManager")."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, overload

from palimpsest.errors import SessionNameError, UnknownSessionError
from palimpsest.hosts.interface import host_of
from palimpsest.messages import MAX_ID_LENGTH, Message, text_message, validate_message
from palimpsest.search.search import SearchResult
from palimpsest.session.compacting.jobs import CompactionJobs
from palimpsest.session.context import WhenChanged
from palimpsest.session.searchable import SearchableHistory, render_results
from palimpsest.session.session import UNSET, Session, StoredCompaction, UnsetType
from palimpsest.session.tools import text_tool
from palimpsest.store.context import ContextStore
from palimpsest.store.sessions import SessionInfo, SessionRegistry
from palimpsest.tools import Tool

MAX_NAME_LENGTH = 500
"""The longest name of a session, in characters."""

MAX_PAGE = 1000
"""The most sessions that one listing returns."""

SPLIT_PREFIX = "[Summary of the conversation that this one continues]"
"""The first line of the message that begins a continued session."""

Configure = Callable[[Session], Any]


class _Create:
    """``SessionManager.create(owner)`` makes a manager, ``manager.create(name)`` a session.

    The Sessions document gives both the same name; which one is meant is told by whether the
    attribute is read from the class or from a manager.
    """

    @overload
    def __get__(
        self, manager: None, kind: type[SessionManager]
    ) -> Callable[[Any], SessionManager]: ...

    @overload
    def __get__(
        self, manager: SessionManager, kind: type[SessionManager]
    ) -> Callable[..., Awaitable[SessionInfo]]: ...

    def __get__(self, manager: SessionManager | None, kind: type[SessionManager]) -> Any:
        return kind if manager is None else manager.create_session


class SessionManager:
    """A registry of sessions that share one configuration.

    :param owner: an agent or a host, whose database holds everything.

    Builder methods (``with_context``, ``with_cached_prompt``, ``on_compaction``,
    ``compact_after``, ``on_compaction_error``, ``with_searchable_history``) return the manager
    and reach every session, those already made included.
    """

    create = _Create()

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._host = host_of(owner)
        self._registry = SessionRegistry(self._host.sql)
        self._context = ContextStore.open(self._host.sql)
        self._sessions: dict[str, Session] = {}
        self._configuration: list[Configure] = []
        self._deleted: list[Callable[[str], Any]] = []
        # An alarm may compact a session that nobody has asked for since the object woke.
        compactions = CompactionJobs.of(self._host)
        compactions.resolver = lambda session_id: self.get_session(session_id).compactor

    # -- building ---------------------------------------------------------------------------

    def _configure(self, step: Configure) -> SessionManager:
        self._configuration.append(step)
        for session in self._sessions.values():
            step(session)
        return self

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: Any = None,
        when_changed: WhenChanged = "keep",
    ) -> SessionManager:
        """Give every session a context block; see :meth:`Session.with_context`.

        Built-in providers, and any with ``for_session``, are made anew for each session, so that
        no two sessions share rows.
        """
        return self._configure(
            lambda session: session.with_context(
                label,
                description=description,
                max_tokens=max_tokens,
                provider=provider,
                when_changed=when_changed,
            )
        )

    def with_cached_prompt(self, provider: Any = None) -> SessionManager:
        """Keep every session's frozen prompt across evictions."""
        return self._configure(lambda session: session.with_cached_prompt(provider))

    def on_compaction(self, policy: Any) -> SessionManager:
        """How every session is compacted; see :meth:`Session.on_compaction`."""
        return self._configure(lambda session: session.on_compaction(policy))

    def compact_after(self, threshold: int, token_counter: Any = None) -> SessionManager:
        """Compact every session above ``threshold`` tokens; see :meth:`Session.compact_after`."""
        return self._configure(
            lambda session: session.compact_after(threshold, token_counter=token_counter)
        )

    def on_compaction_error(self, handler: Callable[[Exception], Any]) -> SessionManager:
        """Whom to tell when an automatic compaction of any session fails."""
        return self._configure(lambda session: session.on_compaction_error(handler))

    def with_searchable_history(self, label: str) -> SessionManager:
        """Give every session a block through which the model searches all conversations."""
        return self.with_context(
            label,
            description="Earlier conversations",
            provider=SearchableHistory(self._registry, self._search_text),
        )

    def on_session_deleted(self, listener: Callable[[str], Any]) -> None:
        """Call ``listener(session_id)`` when a session is deleted, within its transaction."""
        self._deleted.append(listener)

    # -- the registry -----------------------------------------------------------------------

    async def create_session(
        self,
        name: str,
        *,
        session_id: str | None = None,
        parent_session_id: str | None = None,
        model: str | None = None,
        source: str | None = None,
    ) -> SessionInfo:
        """Register a new session; also called as ``manager.create(name, ...)``.

        :param session_id: its id; a UUID by default.
        :raises UnknownSessionError: the parent is not registered.
        :raises SessionNameError: the name is empty or over 500 characters, or the id is too long.
        :raises UniqueViolationError: the id is taken.
        """
        if parent_session_id is not None:
            self._require(parent_session_id)
        return self._register(name, session_id, parent_session_id, None, model, source)

    def _register(
        self,
        name: str,
        session_id: str | None,
        parent_session_id: str | None,
        parent_message_id: str | None,
        model: str | None,
        source: str | None,
    ) -> SessionInfo:
        now = self._host.now()
        newest = self._registry.page(1, None)
        if newest:
            now = max(now, newest[0].updated_at + 1)  # so that the newest session is listed first
        info = SessionInfo(
            id=check_session_id(self._host.random_id() if session_id is None else session_id),
            name=_check_name(name),
            parent_session_id=parent_session_id,
            parent_message_id=parent_message_id,
            model=model,
            source=source,
            input_tokens=0,
            output_tokens=0,
            estimated_cost=0.0,
            end_reason=None,
            created_at=now,
            updated_at=now,
        )
        self._registry.insert(info)
        return info

    async def ensure(self, session_id: str, name: str) -> SessionInfo:
        """The session of that id, registered under ``name`` if it was not."""
        info = self._registry.get(session_id)
        return info or self._register(name, session_id, None, None, None, None)

    async def get(self, session_id: str) -> SessionInfo | None:
        """What is known of a session, or None."""
        return self._registry.get(session_id)

    async def list(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[SessionInfo]:
        """Registered sessions, the one used last first.

        :param limit: how many at most (1 to 1000); None for all.
        :param after: the ``cursor`` of the last session of the page before.
        :raises ValueError: limit or cursor is not valid.
        """
        start = None if after is None else _parse_cursor(after)
        if limit is not None:
            if not 1 <= limit <= MAX_PAGE:
                raise ValueError(f"limit must be 1 to {MAX_PAGE}, got {limit}")
            return self._registry.page(limit, start)
        found: list[SessionInfo] = []
        while page := self._registry.page(MAX_PAGE, start):
            found.extend(page)
            start = _parse_cursor(page[-1].cursor)
        return found

    async def rename(self, session_id: str, name: str) -> None:
        """Change a session's name.

        :raises UnknownSessionError: it is not registered.
        """
        self._registry.rename(session_id, _check_name(name), self._host.now())

    async def delete(self, session_id: str) -> bool:
        """Remove a session completely; whether anything of it was registered.

        Messages, overlays, checkpoints, media that nothing else uses, index rows, context blocks,
        search entries, the frozen prompt and pending compactions all go, in one transaction.
        Sessions forked from it keep their lineage and their copies.
        """
        session = self.get_session(session_id)
        _ = session.stores  # opened before the transaction, for its rollback would take the tables

        def remove() -> bool:
            session.delete_everything()
            self._context.delete_session(session_id)
            for listener in self._deleted:
                listener(session_id)
            return self._registry.delete(session_id)

        existed = self._host.sql.transaction(remove)
        self._sessions.pop(session_id, None)
        return existed

    def _require(self, session_id: str) -> SessionInfo:
        info = self._registry.get(session_id)
        if info is None:
            raise UnknownSessionError(f"no session {session_id!r}")
        return info

    def get_session(self, session_id: str) -> Session:
        """The session of an id, made at first use; registering it is not needed."""
        session = self._sessions.get(session_id)
        if session is None:
            session = Session.create(self._owner).for_session(check_session_id(session_id))
            for step in self._configuration:
                step(session)
            self._sessions[session_id] = session
        return session

    # -- messages ---------------------------------------------------------------------------

    def _touch(self, session_id: str) -> None:
        self._registry.touch(session_id, self._host.now())

    async def append(
        self, session_id: str, message: Message, parent_id: str | UnsetType | None = UNSET
    ) -> str:
        """Append one message and return its id; see :meth:`Session.append_message`."""
        await self.get_session(session_id).append_message(message, parent_id)
        self._touch(session_id)
        return str(message["id"])

    async def upsert(
        self, session_id: str, message: Message, parent_id: str | UnsetType | None = UNSET
    ) -> str:
        """Append a message, or update it where its id exists; returns the id."""
        await self.get_session(session_id).upsert_message(message, parent_id)
        self._touch(session_id)
        return str(message["id"])

    async def append_all(
        self,
        session_id: str,
        messages: Iterable[Message],
        parent_id: str | UnsetType | None = UNSET,
    ) -> str | None:
        """Append messages as a chain and return the last id, or None for no messages.

        Without ``parent_id`` the first continues the existing history. All are checked before
        the first is written.
        """
        checked = [validate_message(message) for message in messages]
        parent = parent_id
        for message in checked:
            parent = await self.append(session_id, message, parent)
        return parent if isinstance(parent, str) and checked else None

    async def get_history(self, session_id: str, leaf_id: str | None = None) -> Sequence[Message]:
        """The history of a session with its overlays laid; see :meth:`Session.get_history`."""
        return await self.get_session(session_id).get_history(leaf_id)

    async def get_message_count(self, session_id: str) -> int:
        """How many messages the active path has, those under overlays included."""
        return await self.get_session(session_id).get_path_length()

    async def get_branches(self, session_id: str, message_id: str) -> Sequence[Message]:
        """The direct children of a message."""
        return await self.get_session(session_id).get_branches(message_id)

    async def clear_messages(self, session_id: str) -> None:
        """Remove a session's messages and overlays; context blocks stay."""
        await self.get_session(session_id).clear_messages()
        self._touch(session_id)

    async def delete_messages(self, session_id: str, message_ids: Sequence[str]) -> None:
        """Remove messages; their children move up to what came before."""
        await self.get_session(session_id).delete_messages(message_ids)
        self._touch(session_id)

    # -- forks and splits -------------------------------------------------------------------

    async def fork(self, session_id: str, at_message_id: str, name: str) -> SessionInfo:
        """A new session with the history up to a message.

        Messages keep their ids, overlays and times; context blocks and search entries are copied
        as they stand; ``parent_session_id`` and ``parent_message_id`` tell the lineage. No model
        is called. Usage begins at zero.

        :raises UnknownMessageError: the message does not exist in that session.
        """
        source = self._registry.get(session_id)
        origin = self.get_session(session_id)
        _ = origin.stores  # opened before the transaction, for its rollback would take the tables

        def copy() -> SessionInfo:
            info = self._register(
                name,
                None,
                session_id,
                at_message_id,
                source.model if source else None,
                source.source if source else None,
            )
            origin.copy_path_to(info.id, at_message_id)
            self._context.copy_session(session_id, info.id)
            return info

        return self._host.sql.transaction(copy)

    async def compact_and_split(
        self, session_id: str, summary: str, new_name: str | None = None
    ) -> SessionInfo:
        """End a session and continue it in a new one that begins with its summary.

        The old session stays as it is, with ``end_reason`` ``"compaction"``.

        :raises UnknownSessionError: it is not registered.
        :raises ValueError: the summary is blank.
        """
        if not summary.strip():
            raise ValueError("a session cannot be continued from a blank summary")
        old = self._require(session_id)
        continued_id = self._host.random_id()
        # The message goes first: cut short here, nothing refers to the new session yet.
        await self.get_session(continued_id).append_message(
            text_message(self._host.random_id(), "assistant", f"{SPLIT_PREFIX}\n\n{summary}")
        )

        def split() -> SessionInfo:
            self._registry.end(session_id, "compaction", self._host.now())
            self._context.copy_session(session_id, continued_id)
            name = new_name or old.name
            return self._register(name, continued_id, session_id, None, old.model, old.source)

        return self._host.sql.transaction(split)

    async def add_compaction(
        self, session_id: str, summary: str, from_message_id: str, to_message_id: str
    ) -> StoredCompaction:
        """Lay a summary over a range; see :meth:`Session.add_compaction`."""
        session = self.get_session(session_id)
        return await session.add_compaction(summary, from_message_id, to_message_id)

    async def get_compactions(self, session_id: str) -> Sequence[StoredCompaction]:
        """All overlays of a session, oldest first."""
        return await self.get_session(session_id).get_compactions()

    # -- usage ------------------------------------------------------------------------------

    async def add_usage(
        self, session_id: str, input_tokens: int, output_tokens: int, cost: float = 0.0
    ) -> None:
        """Add what a model reported to the session's counters.

        :raises UnknownSessionError: it is not registered.
        :raises ValueError: a figure is negative or not finite.
        """
        for figure in (input_tokens, output_tokens, cost):
            if not 0 <= figure < float("inf"):
                raise ValueError(f"usage must be finite and not negative, got {figure}")
        self._registry.add_usage(session_id, input_tokens, output_tokens, cost, self._host.now())

    # -- search -----------------------------------------------------------------------------

    async def search(
        self, query: str, *, limit: int = 20, **filters: Any
    ) -> Sequence[SearchResult]:
        """Search all sessions; each result tells its session and has a snippet.

        :param filters: ``session_id``, ``role``, ``since``, ``until`` as :meth:`Session.search`.
        :raises InvalidSearchError: a filter or the limit is not valid.
        :raises SearchError: the index failed.
        """
        return self._search(query, limit, **filters)

    def _search(self, query: str, limit: int, **filters: Any) -> Sequence[SearchResult]:
        return self.get_session("").search_index_of_all(query, limit=limit, **filters)

    def _search_text(self, query: str) -> str | None:
        return render_results(self._search(query, 10), self._registry)

    async def tools(self) -> dict[str, Tool]:
        """The tool ``session_search``, which searches the conversations of all sessions."""

        async def run(arguments: dict[str, Any]) -> str:
            query = arguments.get("query")
            if not isinstance(query, str):
                raise TypeError("query must be text")
            return self._search_text(query) or "No results found."

        parameters = {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "A question or words, in any language."}
            },
            "required": ["query"],
        }
        description = (
            "Search everything said in this and earlier conversations, also what was summarized "
            "since. Returns the ten best messages with their speaker and time."
        )
        return {"session_search": text_tool("session_search", description, parameters, run)}

    async def export(self, session_id: str) -> AsyncIterator[Message]:
        """Every message of the active path, originals and not overlays, oldest first."""
        async for message in self.get_session(session_id).originals():
            yield message


def check_session_id(session_id: str) -> str:
    """The id, if it can be one.

    :raises SessionNameError: it is over 1,024 characters or holds a NUL or a lone surrogate.
    """
    if len(session_id) > MAX_ID_LENGTH:
        raise SessionNameError(f"a session id has at most {MAX_ID_LENGTH} characters")
    if "\0" in session_id or any("\ud800" <= character <= "\udfff" for character in session_id):
        raise SessionNameError("a session id holds no NUL and no lone surrogate")
    return session_id


def _check_name(name: str) -> str:
    if not 0 < len(name.strip()) <= MAX_NAME_LENGTH:
        raise SessionNameError(f"a session's name has 1 to {MAX_NAME_LENGTH} characters")
    return name


def _parse_cursor(cursor: str) -> tuple[int, str]:
    time, separator, session_id = cursor.partition(":")
    if not separator or not time.isdecimal():
        raise ValueError(f"not a cursor of a session listing: {cursor!r:.80}")
    return int(time), session_id
