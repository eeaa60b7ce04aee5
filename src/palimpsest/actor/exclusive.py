"""Named locks within one agent: what must not interleave while a method awaits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from palimpsest.errors import BusyError


class Exclusive:
    """The named locks of one agent instance; they are fair and not re-entrant."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def held(self, name: str) -> bool:
        """Whether somebody is inside."""
        return name in self._waiting

    @asynccontextmanager
    async def enter(self, name: str, *, wait: bool = True) -> AsyncGenerator[None]:
        """Be alone inside the block among all that use the same name.

        :param wait: wait in order of arrival; False refuses instead.
        :raises BusyError: somebody is inside, and ``wait`` is False.
        """
        queue = self._waiting.get(name)
        if queue is None:
            self._waiting[name] = deque()
        elif not wait:
            raise BusyError(f"{name!r} is busy")
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave(name)  # our turn had come already: hand it on
                else:
                    queue.remove(turn)
                raise
        try:
            yield
        finally:
            self._leave(name)

    def _leave(self, name: str) -> None:
        queue = self._waiting[name]
        while queue:
            turn = queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._waiting[name]
