"""What users need to test their own agents under plain pytest."""

from palimpsest.hosts.local import LocalHost, LocalSocket
from palimpsest.testing.agents import LocalAgent, LocalResponse
from palimpsest.testing.assertions import (
    assert_context,
    assert_context_within,
    assert_history,
    assert_tools_answered,
    transcript,
)
from palimpsest.testing.clients import FakeClient
from palimpsest.testing.entry import load_agents
from palimpsest.testing.models import ScriptedModel

__all__ = [
    "FakeClient",
    "LocalAgent",
    "LocalHost",
    "LocalResponse",
    "LocalSocket",
    "ScriptedModel",
    "assert_context",
    "assert_context_within",
    "assert_history",
    "assert_tools_answered",
    "load_agents",
    "transcript",
]
