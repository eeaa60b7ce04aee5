"""Models: one interface, and an adapter for each way of reaching one."""

from palimpsest.abort import Abort
from palimpsest.models.anthropic import AnthropicModel
from palimpsest.models.config import model_from_environment
from palimpsest.models.interface import (
    FilePart,
    Finish,
    Model,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    ReasoningEnd,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallStart,
    Usage,
    generate_text,
)
from palimpsest.models.offline import OfflineModel
from palimpsest.models.openai_chat import OpenAIChatModel
from palimpsest.models.retry import RetryPolicy
from palimpsest.models.transport import Secret, TimeLimits
from palimpsest.models.workers_ai import WorkersAIModel

__all__ = [
    "Abort",
    "AnthropicModel",
    "FilePart",
    "Finish",
    "Model",
    "ModelEvent",
    "ModelRequest",
    "OfflineModel",
    "OpenAIChatModel",
    "ReasoningDelta",
    "ReasoningEnd",
    "RetryPolicy",
    "Secret",
    "TextDelta",
    "TimeLimits",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallStart",
    "Usage",
    "WorkersAIModel",
    "generate_text",
    "model_from_environment",
]
