"""The Worker of ``scripts/bench transcripts``: a chat agent that compacts nothing by itself."""

from __future__ import annotations

from typing import Any

from palimpsest.chat.agent import ChatAgent
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.models.offline import OfflineModel


@durable_object
class Assistant(ChatAgent):
    """Its window is larger than any conversation here."""

    def model(self) -> Any:
        """The offline model."""
        return OfflineModel(context_window=10**9)


Default = worker_entrypoint()
