"""Palimpsest: agents that remember, on Cloudflare Python Workers and on your own machines.

The public names, re-exported. What belongs to the Worker's edge is in
:mod:`palimpsest.hosts.workers`, what tests need in :mod:`palimpsest.testing`.
"""

from palimpsest.actor.agent import Agent
from palimpsest.actor.callables import callable_method
from palimpsest.actor.client import AgentClient
from palimpsest.actor.connections import Connection
from palimpsest.actor.fibers import Fiber
from palimpsest.actor.hooks import Reject
from palimpsest.actor.queue import QueueItem
from palimpsest.actor.schedules import Schedule, ScheduledRun
from palimpsest.chat.agent import ChatAgent
from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.head_tail import CompactResult, create_compact_function
from palimpsest.compaction.policy import BudgetRatioPolicy
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.messages import Message
from palimpsest.models.interface import Model, generate_text
from palimpsest.models.offline import OfflineModel
from palimpsest.search.search import SearchResult
from palimpsest.session.compacting.outcomes import CompactionOutcome, TokenCountInput
from palimpsest.session.context import ContextBlock
from palimpsest.session.manager import SessionManager
from palimpsest.session.provided.interface import UNSET, SessionProvider
from palimpsest.session.providers import (
    AgentContextProvider,
    AgentSearchProvider,
    PerSession,
    R2SkillProvider,
)
from palimpsest.session.session import Session
from palimpsest.store.rows import StoredCompaction
from palimpsest.store.sessions import SessionInfo
from palimpsest.tools import Tool, ToolContext, tool

__version__ = "0.1.0"

__all__ = [
    "UNSET",
    "Agent",
    "AgentClient",
    "AgentContextProvider",
    "AgentSearchProvider",
    "BudgetRatioPolicy",
    "ChatAgent",
    "CompactResult",
    "CompactionOutcome",
    "Connection",
    "ContextBlock",
    "ExtractiveSummarizer",
    "Fiber",
    "HttpRequest",
    "HttpResponse",
    "Message",
    "Model",
    "OfflineModel",
    "PerSession",
    "QueueItem",
    "R2SkillProvider",
    "Reject",
    "Schedule",
    "ScheduledRun",
    "SearchResult",
    "Session",
    "SessionInfo",
    "SessionManager",
    "SessionProvider",
    "StoredCompaction",
    "TokenCountInput",
    "Tool",
    "ToolContext",
    "callable_method",
    "create_compact_function",
    "generate_text",
    "tool",
]
