"""Models: one interface, and an adapter for each way of reaching one."""

from palimpsest.abort import Abort
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

__all__ = [
    "Abort",
    "FilePart",
    "Finish",
    "Model",
    "ModelEvent",
    "ModelRequest",
    "OfflineModel",
    "ReasoningDelta",
    "ReasoningEnd",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallStart",
    "Usage",
    "generate_text",
]
