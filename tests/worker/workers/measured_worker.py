"""The project's own Worker, with an address that tells the size of its WebAssembly heap."""

from __future__ import annotations

from typing import Any

import pydantic
import workers

import entry
from entry import Assistant

__all__ = ["Assistant", "Default"]


_Routes: Any = entry.Default


class Default(_Routes):
    """``/heap`` answers in bytes; everything else is the project's."""

    async def fetch(self, request: Any) -> Any:
        """Answer ``/heap``."""
        if str(request.url).endswith("/heap"):
            from pyodide_js import _module  # not at top level: a snapshot could not hold it

            return workers.Response(f"{_module.HEAP8.length} pydantic {pydantic.VERSION}")
        return await _Routes.fetch(self, request)
