"""What a session over a storage provider is made of: configuration, context blocks, skills."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from palimpsest.errors import ContextBlockError
from palimpsest.messages import Part
from palimpsest.session.compacting.news import CompactionNews
from palimpsest.session.context import ContextBlocks, WhenChanged, rewritten
from palimpsest.session.provided.compactor import ProviderCompactor
from palimpsest.session.provided.context import MemorySettings
from palimpsest.session.provided.host import ProviderHost
from palimpsest.session.provided.interface import check_provider
from palimpsest.session.provided.storage import ProviderStorage
from palimpsest.session.session import Session
from palimpsest.store.rows import StoredCompaction
from palimpsest.tools import Tool


class ProviderParts(Session):
    """How a session over a storage provider is configured, and what it is made of."""

    def __init__(self, owner: Any, session_id: str = "", **options: Any) -> None:
        """A session over a provider.

        :param owner: a :class:`~palimpsest.session.provided.interface.SessionProvider`.
        :param session_id: see :meth:`for_session`; '' leaves the provider as it is.
        :param options: those of :class:`Session`.
        :raises TypeError: it is no provider.
        :raises SessionProviderError: it lacks methods; the text lists them.
        """
        if not check_provider(owner):
            raise TypeError(f"expected a SessionProvider, got {type(owner).__name__}")
        self._compaction: ProviderCompactor | None = None
        self._settings = MemorySettings()
        self._skills_known = False
        self._write_lock = asyncio.Lock()
        host = ProviderHost()
        self._storage = ProviderStorage(_chosen(owner, session_id), host.log)
        super().__init__(host, session_id, **options)

    # -- building ---------------------------------------------------------------------------

    def for_session(self, session_id: str) -> Self:
        """Choose the session; a provider with ``for_session`` is asked for that one's.

        Otherwise the id only names the session in events and for context providers.

        :raises InvalidMessageError: the id is no text, too long, or not valid Unicode, or the
            session has context blocks already.
        """
        super().for_session(session_id)
        provider = _chosen(self._storage.provider, session_id)
        if provider is not self._storage.provider:
            self._storage = ProviderStorage(provider, self.host.log)
            self._compaction = None
        return self

    def with_context(
        self,
        label: str,
        *,
        description: str | None = None,
        max_tokens: int | None = None,
        provider: Any = None,
        when_changed: WhenChanged = "keep",
    ) -> Self:
        """Add a context block, which needs a provider of its own here.

        :raises ContextBlockError: there is no provider; the label is empty or taken, or the limit
            is not positive.
        """
        if provider is None:
            raise ContextBlockError(
                f'context block "{label}" requires an explicit provider when Session uses a '
                "SessionProvider"
            )
        return super().with_context(
            label,
            description=description,
            max_tokens=max_tokens,
            provider=provider,
            when_changed=when_changed,
        )

    def with_cached_prompt(self, provider: Any = None) -> Self:
        """Keep the frozen system prompt with a provider.

        :raises ContextBlockError: there is none.
        """
        if provider is None:
            raise ContextBlockError(
                "with_cached_prompt() requires an explicit provider when Session uses a "
                "SessionProvider"
            )
        return super().with_cached_prompt(provider)

    def _configure(self) -> Self:
        if self._compaction is not None:
            self._apply(self._compaction)
        return self

    def _apply(self, compaction: ProviderCompactor) -> None:
        compaction.configure(
            self._policy, self._threshold, self._token_counter, self._on_compaction_error
        )

    @property
    def context(self) -> ContextBlocks:
        """The context blocks of this session."""
        if self._context is None:
            self._context = ContextBlocks(
                self.host, self._id, rewrite_history=self._rewrite_history, settings=self._settings
            )
        return self._context

    @property
    def _compacting(self) -> ProviderCompactor:
        if self._compaction is None:
            news = CompactionNews(self.host, self._id)
            self._compaction = ProviderCompactor(
                self._storage, self.context, news, self._after_provider_compaction
            )
            self._apply(self._compaction)
        return self._compaction

    # -- skills -----------------------------------------------------------------------------

    async def _know_skills(self) -> None:
        """Read once from the history which skills are loaded; memory knows it from then on."""
        if not self._skills_known:
            blocks = await self.context.blocks()
            if any(block.is_skill for block in blocks):
                messages = await self._storage.history(None)
                self._settings.note_skills(self._id, messages)
                self._skills_known = True

    def get_loaded_skill_keys(self) -> set[str]:
        """The loaded skills as ``label:key``: complete once the prompt or the tools were asked."""
        return super().get_loaded_skill_keys()

    async def unload_skill(self, label: str, key: str) -> bool:
        """Free the space of a loaded skill; whether it was loaded.

        :raises ContextBlockError: the block is no skill block.
        """
        await self._know_skills()
        return await super().unload_skill(label, key)

    async def freeze_system_prompt(self) -> str:
        """The system prompt as it was frozen, or rendered and frozen now."""
        await self._know_skills()
        return await super().freeze_system_prompt()

    async def tools(self) -> dict[str, Tool]:
        """The model's tools for the context blocks there are."""
        await self._know_skills()
        return await super().tools()

    # -- what changes reach ------------------------------------------------------------------

    async def _after_provider_compaction(self, stored: StoredCompaction) -> None:
        await self.context.refresh()
        await self._tell("compact", (stored.from_message_id, stored.to_message_id), None, False)

    async def _rewrite_history(self, change: Callable[[Part], Part | None]) -> None:
        """Apply a change to every tool part that the next turn would show, and store it."""
        for message in await self._storage.history(None):
            new = rewritten(message, change)
            if new is not None:
                await self.update_message(new)


def _chosen(provider: Any, session_id: str) -> Any:
    """The provider of a session, where it offers one for each."""
    choose = getattr(provider, "for_session", None)
    return choose(session_id) if session_id and callable(choose) else provider
