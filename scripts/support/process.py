"""A server that runs as a process of its own, with a log."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

END_SECONDS = 10.0
"""How long a process may take to end by itself before it is killed."""


class LoggedProcess:
    """A process that was started or not, its output in a file."""

    def __init__(self, log_path: Path, end_seconds: float = END_SECONDS) -> None:
        """Not running yet.

        :param end_seconds: how long it may take to end by itself.
        """
        self.log_path = log_path
        self.process: subprocess.Popen[bytes] | None = None
        self._end_seconds = end_seconds

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end (SIGTERM), then insist; waits until it ended."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=self._end_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def log(self) -> str:
        """Everything that it has logged."""
        if not self.log_path.is_file():
            return ""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def log_tail(self, lines: int = 40) -> str:
        """The end of the log."""
        return "\n".join(self.log().splitlines()[-lines:])
