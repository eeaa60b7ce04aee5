"""``@tool``: an agent's method, or any function, becomes something a model can call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast, overload

from palimpsest.errors import ToolDefinitionError
from palimpsest.tools.signature import Signature, read_signature
from palimpsest.tools.tool import (
    DEFAULT_MAX_OUTPUT_CHARS,
    DEFAULT_TIMEOUT_SECONDS,
    NeedsApproval,
    Tool,
    ToolContext,
    ToolSet,
)

F = TypeVar("F", bound=Callable[..., Any])

_ATTRIBUTE = "__palimpsest_tool__"


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What ``@tool(...)`` was told."""

    name: str | None = None
    description: str | None = None
    needs_approval: NeedsApproval = False
    timeout: float | None = DEFAULT_TIMEOUT_SECONDS
    max_output_chars: int = DEFAULT_MAX_OUTPUT_CHARS


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
    max_output_chars: int = DEFAULT_MAX_OUTPUT_CHARS,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: NeedsApproval = False,
    timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
    max_output_chars: int = DEFAULT_MAX_OUTPUT_CHARS,
) -> F | Callable[[F], F]:
    """Offer a function or a method to the model.

    The function stays as it is. Its parameters need types (pydantic's rules apply); a parameter
    of type :class:`ToolContext` receives the call's context and is not shown to the model. The
    description is the docstring's first paragraph; the docstring's ``:param x:`` lines describe
    the parameters. It may be async; one that is not blocks the agent while it runs.

    :param name: what the model calls it; the function's own name where not given.
    :param description: what the model is told about it.
    :param needs_approval: True, or a function of the arguments and the context that decides,
        where a person has to agree to each call. It is given the arguments as they were checked,
        with defaults, as JSON values; nobody is asked about arguments that do not fit.
    :param timeout: seconds that one call may take; None for no limit.
    :param max_output_chars: how much of one result a request shows to the model.
    """
    options = ToolOptions(name, description, needs_approval, timeout, max_output_chars)

    def mark(marked: F) -> F:
        # Static and class methods are looked up as the function inside.
        setattr(getattr(marked, "__func__", marked), _ATTRIBUTE, options)
        return marked

    return mark if function is None else mark(function)


def as_tool(source: Tool | Callable[..., Any]) -> Tool:
    """The tool that a function (marked with ``@tool`` or not) or a bound method makes.

    :raises ToolDefinitionError: a parameter has no type, or the type has no JSON Schema.
    """
    if isinstance(source, Tool):
        return source
    options = cast("ToolOptions", getattr(source, _ATTRIBUTE, ToolOptions()))
    signature = read_signature(source)
    return Tool(
        name=options.name or source.__name__,
        description=options.description or signature.description,
        parameters=signature.parameters,
        execute=_executor(source, signature),
        needs_approval=options.needs_approval,
        check=signature.check,
        timeout=options.timeout,
        max_output_chars=options.max_output_chars,
    )


def make_tools(
    sources: Mapping[str, Tool | Callable[..., Any]] | Iterable[Tool | Callable[..., Any]],
) -> ToolSet:
    """A tool set of functions and tools.

    :raises ToolDefinitionError: one cannot be a tool, or two have the same name.
    """
    listed = (
        cast("Mapping[str, Tool | Callable[..., Any]]", sources).values()
        if isinstance(sources, Mapping)
        else sources
    )
    found: ToolSet = {}
    for made in map(as_tool, listed):
        if made.name in found:
            raise ToolDefinitionError(f"two tools have the name {made.name!r}")
        found[made.name] = made
    return found


def tools_of(owner: object) -> ToolSet:
    """All methods of ``owner`` (an agent) that are marked with ``@tool``, bound to it.

    :raises ToolDefinitionError: one cannot be a tool, or two have the same name.
    """
    names: dict[str, None] = {}
    for kind in reversed(type(owner).__mro__):
        for attribute, value in vars(kind).items():
            # Static and class methods keep the function inside.
            if hasattr(getattr(value, "__func__", value), _ATTRIBUTE):
                names[attribute] = None
            else:
                # A subclass that overrides a tool without marking it takes the tool away.
                names.pop(attribute, None)
    return make_tools([getattr(owner, attribute) for attribute in names])


def _executor(source: Callable[..., Any], signature: Signature) -> Any:
    async def execute(arguments: dict[str, Any], context: ToolContext) -> Any:
        values = signature.validate(arguments)
        if signature.context_parameter is not None:
            values[signature.context_parameter] = context
        result = source(**values)
        if inspect.isawaitable(result):
            result = await result
        return signature.dump_result(result)

    return execute
