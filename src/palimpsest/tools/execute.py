"""Running tool calls: within time limits, several at once, every failure told to the model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any

from palimpsest.abort import contained, run_abortable
from palimpsest.errors import AbortedError, ToolError, error_words
from palimpsest.messages import dump_json
from palimpsest.tools.tool import Tool, ToolContext

MAX_PARALLEL_CALLS = 6
"""Calls of one step that run at once: as many connections as the platform opens at once."""

MAX_RESULT_BYTES = 4 * 1024 * 1024
"""The largest result of one call, as JSON in bytes: an answer holds it, and a socket carries it."""

MAX_ERROR_CHARS = 4_000
"""How much of an error's text the model is told."""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that is ready to run."""

    tool: Tool
    arguments: dict[str, Any]
    context: ToolContext


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a call ended: with an output, or with a text that says why not."""

    tool_call_id: str
    output: Any = None
    error: str | None = None


async def needs_approval(call: PendingCall) -> bool:
    """Whether a person has to agree to this call. A check that fails counts as yes."""
    rule = call.tool.needs_approval
    if isinstance(rule, bool):
        return rule
    try:
        decided = rule(call.arguments, call.context)
        return bool(await decided if inspect.isawaitable(decided) else decided)
    except Exception:
        return True


async def run_call(call: PendingCall) -> CallResult:
    """Run one call; its failure becomes the result.

    :raises AbortedError: the turn was stopped.
    """
    tool, identifier = call.tool, call.context.tool_call_id
    if tool.execute is None:
        return CallResult(identifier, error=f"{tool.name} can only be run by the client")
    try:
        with contained(tool.name, ToolError):
            output = await run_abortable(
                tool.execute(call.arguments, call.context), call.context.abort, seconds=tool.timeout
            )
        return CallResult(identifier, _json_value(output))
    except AbortedError:
        raise
    except TimeoutError as error:
        if error_words(error) != type(error).__name__:
            return CallResult(identifier, error=_error_text(error))
        return CallResult(
            identifier, error=f"{tool.name} did not finish within {tool.timeout} seconds"
        )
    except Exception as error:
        return CallResult(identifier, error=_error_text(error))


async def run_calls(calls: Sequence[PendingCall]) -> AsyncGenerator[CallResult, None]:
    """Run calls side by side and yield each result when it is there.

    Leaving the iterator early, or an abort, cancels the calls that still run and waits for them.

    :raises AbortedError: the turn was stopped.
    """
    waiting = list(reversed(calls))
    started: set[asyncio.Task[CallResult]] = set()
    try:
        while waiting or started:
            while waiting and len(started) < MAX_PARALLEL_CALLS:
                started.add(asyncio.create_task(run_call(waiting.pop())))
            done, _running = await asyncio.wait(started, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                result = task.result()
                started.discard(task)
                yield result
    finally:
        for task in started:
            task.cancel()
        if started:
            await asyncio.gather(*started, return_exceptions=True)


def _json_value(output: Any) -> Any:
    """The output as JSON can hold it.

    :raises ToolError: it cannot, or is larger than :data:`MAX_RESULT_BYTES`.
    """
    if hasattr(output, "model_dump"):
        output = output.model_dump(mode="json", by_alias=True)
    problem = result_problem(output)
    if problem is not None:
        raise ToolError(problem)
    return output


def result_problem(output: Any) -> str | None:
    """Why a result cannot be kept, in words for the model; None where it can."""
    try:
        text = dump_json(output)
    except (TypeError, ValueError, RecursionError) as error:
        return f"the result cannot be written as JSON: {error}"
    size = len(text) if text.isascii() else len(text.encode())
    if size > MAX_RESULT_BYTES:
        return f"the result has {size:,} bytes of JSON, at most {MAX_RESULT_BYTES:,} can be kept"
    return None


def _error_text(error: BaseException) -> str:
    text, name = error_words(error), type(error).__name__
    if not isinstance(error, ToolError) and text != name:
        text = f"{name}: {text}"
    return text if len(text) <= MAX_ERROR_CHARS else text[:MAX_ERROR_CHARS] + "…"
