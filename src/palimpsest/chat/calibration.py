"""What an agent learned about its models' token counts, kept across hibernation."""

from __future__ import annotations

import json

from palimpsest.hosts.interface import Host
from palimpsest.store.context import ContextStore
from palimpsest.tokens import Calibration, TokenCounter

SMALLEST_CHANGE = 0.01
"""A ratio that changed by less is not written again."""


class LearnedCounter(TokenCounter):
    """The token counter of one agent for one model; :meth:`save` keeps what it learned."""

    def __init__(self, host: Host, model: str) -> None:
        self._store = ContextStore.open(host.sql)
        self._key = f"tokens:{model}"
        stored = self._store.get_config("", self._key)
        super().__init__(Calibration.from_json(None if stored is None else json.loads(stored)))
        self._saved_ratio = self.calibration.ratio if stored is not None else 0.0

    def save(self) -> None:
        """Write what was learned, if it changed by enough to matter."""
        if abs(self.calibration.ratio - self._saved_ratio) < SMALLEST_CHANGE:
            return
        self._store.set_config("", self._key, json.dumps(self.calibration.to_json()))
        self._saved_ratio = self.calibration.ratio
