"""Tools: what a model may call, and how such a call is run."""

from palimpsest.tools.decorator import as_tool, make_tools, tool, tools_of
from palimpsest.tools.tool import Tool, ToolContext, ToolSet, client_tools

__all__ = [
    "Tool",
    "ToolContext",
    "ToolSet",
    "as_tool",
    "client_tools",
    "make_tools",
    "tool",
    "tools_of",
]
