"""What a session is made of: its configuration, stores, context blocks and compaction engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from palimpsest.errors import InvalidMessageError
from palimpsest.hosts.interface import Host, host_of
from palimpsest.jobs import Jobs
from palimpsest.messages import MAX_ID_LENGTH, Message, Part
from palimpsest.session.changes import ChangeEvent, ChangeKind, ChangeListener, Changes
from palimpsest.session.compacting.compactor import Compactor, check_options
from palimpsest.session.compacting.jobs import CompactionJobs
from palimpsest.session.compacting.overlay_access import OverlayAccess
from palimpsest.session.context import ContextBlock, ContextBlocks, WhenChanged, rewritten
from palimpsest.session.history import History
from palimpsest.session.tools import context_tools
from palimpsest.session.writing import Writer
from palimpsest.store.opening import Stores
from palimpsest.store.rows import Interval

if TYPE_CHECKING:
    from palimpsest.tools import Tool

_SHARED_STORES = "session.stores"


class SessionParts:
    """How a session is configured, and what it is made of."""

    def __init__(
        self,
        owner: Any,
        session_id: str = "",
        *,
        context: Iterable[Mapping[str, Any]] = (),
        prompt_store: Any = None,
        token_counter: Any = None,
        on_compaction_error: Callable[[Exception], Any] | None = None,
    ) -> None:
        """A session of an agent (anything with ``.host``) or of a host.

        :param context: blocks, each with the names of :meth:`with_context` (``label``, ...).
        :param prompt_store: a provider for :meth:`with_cached_prompt`.
        :param token_counter: see :meth:`compact_after`.
        :param on_compaction_error: see :meth:`on_compaction_error`.
        :raises TypeError: ``owner`` is neither.
        :raises ContextBlockError: a block that :meth:`with_context` refuses.
        :raises CompactionOptionError: no functions.
        """
        check_options(None, None, token_counter, on_compaction_error)
        self.host: Host = host_of(owner)
        self._owner = owner
        self._id = session_id
        self._stores: Stores | None = None
        self._context: ContextBlocks | None = None
        self._compactor: Compactor | None = None
        self._access: OverlayAccess | None = None
        self._changes = Changes(self.host)
        self._reads: History | None = None
        self._writes: Writer | None = None
        self._policy: Any = None
        self._threshold: int | None = None
        self._token_counter: Any = token_counter
        self._on_compaction_error: Any = on_compaction_error
        for block in context:
            self.with_context(**block)
        if prompt_store is not None:
            self.with_cached_prompt(prompt_store)

    # -- building ---------------------------------------------------------------------------

    def for_session(self, session_id: str) -> Self:
        """Choose the session. Call it before anything else of the builder that reads or writes.

        :raises InvalidMessageError: the id is no text, too long, or not valid Unicode.
        """
        check_session_id(session_id)
        if self._stores is not None or self._context is not None:
            raise InvalidMessageError("for_session() comes before context blocks and first use")
        self._id = session_id
        return self._configure()

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: Any = None,
        when_changed: WhenChanged = "keep",
    ) -> Self:
        """Add a context block; without a provider it is writable and kept in the database.

        :raises ContextBlockError: the label is empty or taken, or the limit is not positive.
        """
        self.context.add(
            label,
            description=description,
            max_tokens=max_tokens,
            provider=provider,
            when_changed=when_changed,
        )
        return self

    def with_cached_prompt(self, provider: Any = None) -> Self:
        """Keep the frozen system prompt in the database, or with a provider."""
        self.context.use_cached_prompt(provider)
        return self

    def on_compaction(self, policy: Any) -> Self:
        """Set what compacts: a function or a policy.

        See :mod:`palimpsest.session.compacting.compactor`.

        :raises CompactionOptionError: it is neither.
        """
        check_options(policy, None, None, None)
        self._policy = policy
        return self._configure()

    def compact_after(self, threshold: int, token_counter: Any = None) -> Self:
        """Compact when the context is estimated above ``threshold`` tokens, after a write.

        :param threshold: 0 compacts whatever can be.
        :param token_counter: counts instead of the heuristic, when a compaction is considered;
            None leaves the one there is.
        :raises CompactionOptionError: the threshold is negative or no whole number.
        """
        check_options(None, threshold, token_counter, None)
        self._threshold = threshold
        if token_counter is not None:
            self._token_counter = token_counter
        return self._configure()

    def on_compaction_error(self, handler: Callable[[Exception], Any]) -> Self:
        """Call ``handler`` with every error of an automatic compaction, a summarizer's included."""
        check_options(None, None, None, handler)
        self._on_compaction_error = handler
        return self._configure()

    def _configure(self) -> Self:
        if self._compactor is not None:
            self._apply_configuration(self._compactor)
        elif self._compacts:
            # An alarm may wake the object for a compaction before anyone asks for the session.
            chosen = self._id
            CompactionJobs.of(self.host).add(
                chosen, lambda: self.compactor if self._id == chosen else None
            )
        return self

    def _apply_configuration(self, compactor: Compactor) -> None:
        compactor.configure(
            policy=self._policy,
            threshold=self._threshold,
            token_counter=self._token_counter,
            on_error=self._on_compaction_error,
            counter_input=self._counter_input,
        )

    async def _counter_input(self) -> tuple[str, list[ContextBlock]]:
        """What a token counter is given besides the messages."""
        return await self.context.freeze(), await self.context.blocks()

    # -- what a session is made of ----------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id; '' is the default session."""
        return self._id

    @property
    def stores(self) -> Stores:
        """The stores of the database, opened (and upgraded) on first use."""
        if self._stores is None:
            self._stores = stores_of(self.host)
        return self._stores

    @property
    def context(self) -> ContextBlocks:
        """The context blocks of this session."""
        if self._context is None:
            self._context = ContextBlocks(
                self.host, self._id, owner=self._owner, rewrite_history=self._rewrite_history
            )
        return self._context

    @property
    def compaction_store(self) -> OverlayAccess:
        """The storage as the compaction engine sees it."""
        if self._access is None:
            self._access = OverlayAccess(
                self.host, self.stores, self._id, self.context.frozen_tokens
            )
        return self._access

    @property
    def compactor(self) -> Compactor:
        """The compaction engine of this session, made on first use."""
        if self._compactor is None:
            self._compactor = Compactor(
                host=self.host,
                store=self.compaction_store,
                system_prompt_tokens=self.context.frozen_tokens,
                after_commit=self._after_compaction,
            )
            self._apply_configuration(self._compactor)
        return self._compactor

    @property
    def _compacts(self) -> bool:
        return self._policy is not None or self._threshold is not None

    async def _after_compaction(self) -> None:
        """A compaction was stored: the prompt is rendered anew, and listeners are told."""
        await self.context.refresh()
        place = self._history.place()
        newest = [] if place is None else self.stores.overlays.newest(place, 1)
        ends = [(one.stored.from_message_id, one.stored.to_message_id) for one in newest]
        await self._changed("compact", ends[0] if ends else ())

    @property
    def _history(self) -> History:
        if self._reads is None:
            self._reads = History(self.stores, self._id)
        return self._reads

    @property
    def _writer(self) -> Writer:
        if self._writes is None:
            self._writes = Writer(self.host, self.stores, self._id)
        return self._writes

    async def _changed(
        self,
        kind: ChangeKind,
        ids: Iterable[str] = (),
        message: Message | None = None,
        inserted: bool = False,
    ) -> None:
        """What follows a committed change: the compaction trigger, then the listeners."""
        if kind != "compact":
            self._consider_compaction()
        if self._changes.listeners:
            await self._tell(kind, ids, message, inserted)

    def _consider_compaction(self) -> None:
        """Let the engine, where one is configured, compare the context with its trigger."""
        if self._policy is not None or self._threshold is not None:
            self.compactor.after_write()

    async def _tell(
        self, kind: ChangeKind, ids: Iterable[str], message: Message | None, inserted: bool
    ) -> None:
        await self._changes.emit(ChangeEvent(kind, self._id, tuple(ids), message, inserted))

    def subscribe(self, listener: ChangeListener) -> Callable[[], None]:
        """Call ``listener(event)`` after each change; returns the function that ends this."""
        return self._changes.subscribe(listener)

    # -- context blocks, prompt and tools ---------------------------------------------------

    async def get_context_block(self, label: str) -> ContextBlock | None:
        """One context block, or None."""
        return await self.context.block(label)

    async def get_context_blocks(self) -> list[ContextBlock]:
        """All context blocks, in order of declaration."""
        return await self.context.blocks()

    async def replace_context_block(self, label: str, text: str) -> ContextBlock:
        """Replace a block's content.

        :raises ContextBlockError: unknown, read-only or keyed block, or over its limit.
        """
        return await self.context.replace(label, text)

    async def append_context_block(self, label: str, text: str) -> ContextBlock:
        """Add to a block's content, on a line of its own.

        :raises ContextBlockError: unknown, read-only or keyed block, or over its limit.
        """
        return await self.context.append(label, text)

    async def add_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: Any = None,
        when_changed: WhenChanged = "keep",
    ) -> ContextBlock | None:
        """Add a block at run time; it enters the prompt at the next refresh.

        :raises ContextBlockError: the label is empty or taken, or the limit is not positive.
        """
        self.with_context(
            label,
            description=description,
            max_tokens=max_tokens,
            provider=provider,
            when_changed=when_changed,
        )
        return await self.context.block(label)

    def remove_context(self, label: str) -> bool:
        """Withdraw a block; whether it existed."""
        return self.context.remove(label)

    async def unload_skill(self, label: str, key: str) -> bool:
        """Free the space of a loaded skill; whether it was loaded.

        :raises ContextBlockError: the block is no skill block.
        """
        return await self.context.unload_skill(label, key)

    def get_loaded_skill_keys(self) -> set[str]:
        """The loaded skills as ``label:key``."""
        return self.context.loaded_skill_keys()

    async def freeze_system_prompt(self) -> str:
        """The system prompt as it was frozen, or rendered and frozen now."""
        return await self.context.freeze()

    async def refresh_system_prompt(self) -> str:
        """Render the system prompt anew from all providers, freeze and return it."""
        return await self.context.refresh()

    async def tools(self) -> dict[str, Tool]:
        """The model's tools for the context blocks there are."""
        return await context_tools(self.context)

    async def _rewrite_history(self, change: Callable[[Part], Part | None]) -> None:
        """Apply a change to every tool part that the next turn would show, and store it."""
        found = self._history.pieces(None, True)
        if found is None:
            return
        place, pieces = found
        changed: list[Message] = []
        shown = [piece for piece in pieces if isinstance(piece, Interval)]
        for chunk in self.stores.reader.chunks(place, shown):
            for message in chunk:
                new = rewritten(message, change)
                if new is not None:
                    changed.append(new)
        for message in changed:
            if self._writer.update(message)[1]:
                await self._changed("update", (message["id"],), message)


def stores_of(host: Host) -> Stores:
    """The stores of an object's database: one set per object, shared by all its sessions.

    :raises MigrationError: the database is newer than this library, or could not be upgraded.
    """
    shared = Jobs.of(host).shared
    found = shared.get(_SHARED_STORES)
    if found is None:
        found = shared[_SHARED_STORES] = Stores(host)
    return found


def check_session_id(session_id: object) -> None:
    if not isinstance(session_id, str):
        raise InvalidMessageError(f"a session id is a text, got {type(session_id).__name__}")
    if len(session_id) > MAX_ID_LENGTH:
        raise InvalidMessageError(
            f"a session id has at most {MAX_ID_LENGTH} characters, got {len(session_id)}"
        )
    try:
        session_id.encode()
    except UnicodeEncodeError as error:
        raise InvalidMessageError(f"a session id must be valid Unicode: {error}") from error
