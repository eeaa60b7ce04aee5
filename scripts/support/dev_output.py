"""What ``scripts/dev`` shows of wrangler's output.

An error at a start reaches the output four times: from the attempt to make a memory snapshot, from
workerd, and twice in wrangler's report. It is shown once, with paths that exist in the repository.
"""

from __future__ import annotations

import re

PROBE = "/agents/"
"""The path that is asked for until the Worker answers; its requests are not shown."""

_TABLE = ("┌", "├", "│", "└", "Attaching additional modules")
_HIDDEN = (
    "Ready on",
    "Unable to fetch the `Request.cf`",
    "getaddrinfo",
    "    at ",
    "No bindings",
    f"GET {PROBE} 400",
)
_REPORT = (
    "no memory snapshot of this code can be made",
    '{"timestamp":',
    "The Workers runtime failed to start",
    "Runtime stderr:",
    "If you think this is a bug",
    "Logs were written to",
    "A DurableObjectNamespace in the config referenced the class",
)
"""Wrangler's report of a start that failed: what it adds once the error itself has been shown."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_LABEL = re.compile(r"^(✘ \[ERROR\] )?(service \S+: )?")
_INNER_FRAME = re.compile(r"^\s+at .*(pyodide|wasm:)")
_PLACES = (("/session/metadata/python_modules/", "python_modules/"), ("/session/metadata/", "src/"))
_FAILURE = "Uncaught Error"
RELOADING = "Reloading local server"
"""What wrangler writes when it has read changed files."""

_ENDS = ("updated and ready", "Ready on")


class DevOutput:
    """Decides line by line. Of a start it remembers which lines of its error have been shown.

    What a Worker that has started writes is never taken for a repetition.
    """

    def __init__(self, *, colors: bool) -> None:
        """Without ``colors`` the escape sequences of a terminal are left out."""
        self._colors = colors
        self._starting = True
        self._error: set[str] = set()

    def shown(self, line: str) -> str | None:
        """What to print of a line of wrangler's; None for nothing."""
        text = line.rstrip()
        plain = _COLOR.sub("", text)
        self._follow(plain)
        if not plain or plain.startswith(_TABLE) or any(part in plain for part in _HIDDEN):
            return None
        if self._starting and self._is_repeated(plain):
            return None
        for inside, outside in _PLACES:
            text, plain = text.replace(inside, outside), plain.replace(inside, outside)
        return text if self._colors else plain

    def _follow(self, plain: str) -> None:
        if RELOADING in plain:
            self._starting, self._error = True, set()
        elif any(part in plain for part in _ENDS):
            self._starting = False

    def _is_repeated(self, plain: str) -> bool:
        """Whether the line says again, or in other words, what an error of this start said."""
        key = _LABEL.sub("", plain.strip())
        if not self._error and _FAILURE not in plain:
            return False
        if key in self._error or _INNER_FRAME.match(plain):
            return True
        self._error.add(key)
        return len(self._error) > 1 and any(part in plain for part in _REPORT)
