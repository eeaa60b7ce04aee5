"""A storage provider that keeps one conversation in dictionaries, and gives plain values."""

from __future__ import annotations

from typing import Any

from palimpsest.errors import UnknownParentError
from palimpsest.messages import Message
from palimpsest.session.provided.interface import UnsetType
from palimpsest.session.provided.overlaying import with_overlays
from palimpsest.store.rows import StoredCompaction


class DictionaryProvider:
    """Has the required methods only."""

    def __init__(self) -> None:
        self.messages: dict[str, Message] = {}
        self.parents: dict[str, str | None] = {}
        self.overlays: list[StoredCompaction] = []
        self.calls: list[str] = []
        self._numbers = 0

    def _path(self, leaf_id: str | None) -> list[str]:
        path: list[str] = []
        step = leaf_id if leaf_id is not None else next(reversed(self.messages), None)
        while step is not None and step in self.messages:
            path.append(step)
            step = self.parents[step]
        path.reverse()
        return path

    def get_message(self, message_id: str) -> Message | None:
        self.calls.append("get_message")
        return self.messages.get(message_id)

    def get_history(self, leaf_id: str | None) -> list[Message]:
        self.calls.append("get_history")
        return with_overlays([self.messages[one] for one in self._path(leaf_id)], self.overlays)

    def get_latest_leaf(self) -> Message | None:
        return next(reversed(self.messages.values()), None)

    def get_branches(self, message_id: str) -> list[Message]:
        if message_id not in self.messages:
            return []
        return [
            message for one, message in self.messages.items() if self.parents[one] == message_id
        ]

    def get_path_length(self, leaf_id: str | None) -> int:
        return len(self._path(leaf_id))

    def append_message(self, message: Message, parent_id: str | UnsetType | None) -> None:
        self.calls.append("append_message")
        if message["id"] in self.messages:
            return
        if isinstance(parent_id, str) and parent_id not in self.messages:
            raise UnknownParentError(parent_id)
        newest = next(reversed(self.messages), None)
        self.parents[message["id"]] = newest if isinstance(parent_id, UnsetType) else parent_id
        self.messages[message["id"]] = message

    def update_message(self, message: Message) -> None:
        if message["id"] in self.messages:
            self.messages[message["id"]] = message

    def delete_messages(self, ids: list[str]) -> None:
        for one in ids:
            if one in self.messages:
                self.overlays = [
                    left
                    for overlay in self.overlays
                    if (left := self._without(overlay, one)) is not None
                ]
                above = self.parents.pop(one)
                del self.messages[one]
                for child, parent in self.parents.items():
                    if parent == one:
                        self.parents[child] = above

    def _without(self, overlay: StoredCompaction, removed: str) -> StoredCompaction | None:
        path = self._path(overlay.to_message_id)
        covered = [one for one in path[path.index(overlay.from_message_id) :] if one != removed]
        if not covered:
            return None
        return StoredCompaction(
            overlay.id, overlay.summary, covered[0], covered[-1], overlay.created_at, 0, False
        )

    def clear_messages(self) -> None:
        self.messages, self.parents, self.overlays = {}, {}, []

    def add_compaction(self, summary: str, from_id: str, to_id: str) -> None:
        self._numbers += 1
        self.overlays.append(
            StoredCompaction(
                f"o{self._numbers}", summary, from_id, to_id, 1000 * self._numbers, 0, False
            )
        )

    def get_compactions(self) -> list[Any]:
        return list(self.overlays)


class RemovingProvider(DictionaryProvider):
    """Can also take overlays away."""

    def remove_compaction(self, compaction_id: str) -> bool:
        left = [overlay for overlay in self.overlays if overlay.id != compaction_id]
        removed = len(left) < len(self.overlays)
        self.overlays = left
        return removed


class AwaitedProvider:
    """Offers what another provider has as coroutines."""

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.provider, name)

        async def call(*arguments: Any) -> Any:
            return method(*arguments)

        return call
