"""The host of a session over a storage provider: a clock and a log, and no platform."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping
from typing import Any, NoReturn

from palimpsest.errors import SessionProviderError

_LOG = logging.getLogger("palimpsest")


class ProviderHost:
    """Answers what needs no platform; everything else says that there is none."""

    name = ""

    def __init__(self) -> None:
        self.environment: Mapping[str, Any] = {}
        self.sql = _Absent()
        self.host = self

    def now(self) -> int:
        """Milliseconds since 1970 (UTC)."""
        return time.time_ns() // 1_000_000

    def random_id(self) -> str:
        """A fresh UUID."""
        return str(uuid.uuid4())

    def log(self, event: Mapping[str, Any]) -> None:
        """Write one event as JSON to the logger ``palimpsest``; failures as errors."""
        line = json.dumps(event, ensure_ascii=False, default=repr)
        _LOG.log(logging.ERROR if "error" in event else logging.INFO, line)

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(name)


class _Absent:
    """In place of the database."""

    def __getattr__(self, name: str) -> NoReturn:
        _refuse(name)


def _refuse(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise SessionProviderError(
        f"a session over a storage provider has no database and no alarm of its own ({name!r})"
    )
