"""``--json``: every event as one line of JSON on standard output, for scripts."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from palimpsest.cli.events import (
    AnswerRestored,
    ChunkReceived,
    Compaction,
    CompactionFailed,
    Connected,
    Disconnected,
    Event,
    Refused,
    TurnEnded,
)


def event_record(event: Event) -> dict[str, Any]:
    """The JSON form of an event; ``event`` names its kind."""
    match event:
        case Connected(again):
            return {"event": "connected", "again": again}
        case Disconnected(reason, retry_seconds):
            return {"event": "disconnected", "reason": reason, "retrySeconds": retry_seconds}
        case Refused(code, reason):
            return {"event": "refused", "code": code, "reason": reason}
        case ChunkReceived(request_id, chunk, own):
            return {"event": "chunk", "requestId": request_id, "own": own, "chunk": chunk}
        case TurnEnded(request_id, outcome, error, own):
            record = {"event": "done", "requestId": request_id, "own": own, "outcome": outcome}
            return {**record, "error": error} if error is not None else record
        case Compaction(phase, estimate, threshold):
            return {
                "event": "compaction",
                "phase": phase,
                "tokenEstimate": estimate,
                "tokenThreshold": threshold,
            }
        case CompactionFailed(error):
            return {"event": "compactionFailed", "error": error}
        case AnswerRestored(request_id, message):
            return {"event": "restored", "requestId": request_id, "message": message}


class JsonOutput:
    """Writes records, one a line, at once."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def write(self, record: dict[str, Any]) -> None:
        """One record."""
        self._stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        self._stream.flush()

    def event(self, event: Event) -> None:
        """One event."""
        self.write(event_record(event))
