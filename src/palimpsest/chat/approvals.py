"""Approvals that can be trusted: a call is run only if a model of this agent made it here.

Clients bring conversations with them, whole ones into an empty session. A call that was made up,
with an approval that was made up too, would be run like any other, with arguments that no model
chose and nobody was asked about. So the id of an approval is a seal on the call and its arguments.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any, cast

from palimpsest.hosts.interface import Host
from palimpsest.messages import Part, tool_name
from palimpsest.store.context import ContextStore

_PREFIX = "approval_"
_KEY = "approvals"


class ApprovalSeal:
    """Makes the ids of one agent's approvals, and knows them again."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._key: bytes | None = None

    def identifier(self, call_id: str, name: str, arguments: Any) -> str:
        """The id of the approval that a call needs."""
        call = json.dumps([call_id, name, arguments], sort_keys=True).encode()
        return _PREFIX + hmac.new(self._secret(), call, hashlib.sha256).hexdigest()[:32]

    def is_own(self, part: Part) -> bool:
        """Whether the approval of a tool part was asked for here, for this very call."""
        approval = part.get("approval")
        if not isinstance(approval, Mapping):
            return False
        given = str(cast("Mapping[str, Any]", approval).get("id"))
        wanted = self.identifier(str(part.get("toolCallId")), tool_name(part), part.get("input"))
        return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())

    def _secret(self) -> bytes:
        if self._key is None:
            store = ContextStore.open(self._host.sql)
            stored = store.get_config("", _KEY)
            if stored is None:
                stored = self._host.random_id() + self._host.random_id()
                store.set_config("", _KEY, stored)
            self._key = stored.encode()
        return self._key
