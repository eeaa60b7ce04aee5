"""The tool calls of one step: which run here, which wait for somebody, and what each becomes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from palimpsest.abort import Abort
from palimpsest.chat.approvals import ApprovalSeal
from palimpsest.chat.step import Chunk
from palimpsest.errors import ToolError
from palimpsest.messages import Message, Part, dump_json, tool_name, tool_parts
from palimpsest.models.interface import ToolCall
from palimpsest.tools.execute import CallResult, PendingCall, needs_approval, run_calls
from palimpsest.tools.tool import Tool, ToolContext

MAX_SAME_CALLS = 3
"""How often one call with the same arguments may give the same result in one run."""


NOT_MADE_HERE = "this call was not made in this conversation, so it was not run"
"""What is told of an approved call that came with a client's messages."""


def answered_approvals(history: Sequence[Message]) -> tuple[list[Part], list[Part]]:
    """The calls of the newest message that a person has approved, and those denied, in order."""
    if not history or history[-1].get("role") != "assistant":
        return [], []
    approved: list[Part] = []
    denied: list[Part] = []
    for part in tool_parts(history[-1]):
        if part.get("state") == "approval-responded":
            answer = part.get("approval")
            agreed = isinstance(answer, Mapping) and cast("Mapping[str, Any]", answer).get(
                "approved"
            )
            (approved if agreed is True else denied).append(part)
    return approved, denied


class CallRunner:
    """Runs the calls of one run of the loop, step by step."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        abort: Abort,
        agent: Any,
        session_id: str,
        *,
        seal: ApprovalSeal | None = None,
        on_begin: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._tools = tools
        self._abort = abort
        self._agent = agent
        self._session_id = session_id
        self._seal = seal
        self._on_begin = on_begin
        self._settled: dict[str, Part] = {}
        self._same: dict[tuple[str, str], tuple[Any, int]] = {}
        self.waits_for_client = False
        """Whether a call of the last step waits for the client's result or a person's approval."""

    def settled_parts(self) -> list[Part]:
        """The parts of the last step's calls, in the model's order, as far as they got."""
        return list(self._settled.values())

    async def run(self, calls: Sequence[ToolCall], *, allowed: bool) -> AsyncGenerator[Chunk, None]:
        """Run one step's calls and yield their chunks.

        :param allowed: False in the step that offers no tools: a call is then answered with an
            error, so that none stays open.
        :raises AbortedError: the run was stopped.
        """
        self._settled = {}
        self.waits_for_client = False
        ready: list[PendingCall] = []
        for call in calls:
            problem = self._problem(call, allowed)
            if problem is not None:
                yield self._input_error(call, problem)
                continue
            tool = self._tools[call.name]
            shown = call.input
            if tool.needs_approval is not False and tool.check is not None:
                try:
                    shown = tool.check(call.input)
                except ToolError as error:
                    yield self._input_error(call, str(error))
                    continue
            self._settled[call.call_id] = _open_part(call)
            yield {
                "type": "tool-input-available",
                "toolCallId": call.call_id,
                "toolName": call.name,
                "input": call.input,
            }
            pending = PendingCall(tool, call.input, self._context(call.call_id))
            if tool.execute is None:
                self.waits_for_client = True
            elif await needs_approval(replace(pending, arguments=shown)):
                self.waits_for_client = True
                approval = self._approval_id(call)
                self._settled[call.call_id] |= {
                    "state": "approval-requested",
                    "approval": {"id": approval},
                }
                yield {
                    "type": "tool-approval-request",
                    "approvalId": approval,
                    "toolCallId": call.call_id,
                }
            else:
                ready.append(pending)
        async with aclosing(self._run_ready(ready)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def run_approved(self, parts: Sequence[Part]) -> AsyncGenerator[Chunk, None]:
        """Run calls of an earlier answer that a person has approved since.

        :raises AbortedError: the run was stopped.
        """
        self._settled = {}
        ready: list[PendingCall] = []
        for part in parts:
            identifier = str(part["toolCallId"])
            self._settled[identifier] = part
            if self._seal is not None and not self._seal.is_own(part):
                yield self._settle(CallResult(identifier, error=NOT_MADE_HERE))
                continue
            tool = self._tools.get(tool_name(part))
            arguments = part.get("input")
            if tool is None or tool.execute is None or not isinstance(arguments, dict):
                error = f"the tool {tool_name(part)!r} is no longer available"
                yield self._settle(CallResult(identifier, error=error))
                continue
            ready.append(
                PendingCall(tool, cast("dict[str, Any]", arguments), self._context(identifier))
            )
        async with aclosing(self._run_ready(ready)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _approval_id(self, call: ToolCall) -> str:
        if self._seal is None:
            return f"approval_{call.call_id}"
        return self._seal.identifier(call.call_id, call.name, call.input)

    async def _run_ready(self, ready: Sequence[PendingCall]) -> AsyncGenerator[Chunk, None]:
        if ready and self._on_begin is not None:
            self._on_begin([call.context.tool_call_id for call in ready])
        async with aclosing(run_calls(ready)) as results:
            async for result in results:
                yield self._settle(result)

    def _settle(self, result: CallResult) -> Chunk:
        part = self._settled[result.tool_call_id]
        if result.error is not None:
            self._settled[result.tool_call_id] = {
                **part,
                "state": "output-error",
                "errorText": result.error,
            }
            return {
                "type": "tool-output-error",
                "toolCallId": result.tool_call_id,
                "errorText": result.error,
            }
        self._settled[result.tool_call_id] = {
            **part,
            "state": "output-available",
            "output": result.output,
        }
        self._remember(part, result.output)
        return {
            "type": "tool-output-available",
            "toolCallId": result.tool_call_id,
            "output": result.output,
        }

    def _problem(self, call: ToolCall, allowed: bool) -> str | None:
        """Why the call is not run, in words for the model; None where it is."""
        if call.name not in self._tools:
            known = ", ".join(sorted(self._tools)) or "none"
            return f"there is no tool {call.name!r}; the tools are: {known}"
        if call.error is not None:
            return call.error
        if not allowed:
            return "no more tools can be called in this answer; answer with what you have"
        if self._same.get(_same_key(call.name, call.input), (None, 0))[1] >= MAX_SAME_CALLS:
            return (
                f"{call.name} was called {MAX_SAME_CALLS} times with these arguments and gave the "
                "same result each time; use that result"
            )
        return None

    def _input_error(self, call: ToolCall, problem: str) -> Chunk:
        known = call.name in self._tools
        part = _open_part(call, dynamic=not known)
        self._settled[call.call_id] = {**part, "state": "output-error", "errorText": problem}
        chunk: Chunk = {
            "type": "tool-input-error",
            "toolCallId": call.call_id,
            "toolName": call.name,
            "input": call.input,
            "errorText": problem,
        }
        return chunk if known else {**chunk, "dynamic": True}

    def _remember(self, part: Part, output: Any) -> None:
        key = _same_key(tool_name(part), part.get("input"))
        before, times = self._same.get(key, (None, 0))
        self._same[key] = (output, times + 1 if times and before == output else 1)

    def _context(self, call_id: str) -> ToolContext:
        return ToolContext(
            tool_call_id=call_id,
            abort=self._abort,
            agent=self._agent,
            session_id=self._session_id,
        )


def _open_part(call: ToolCall, *, dynamic: bool = False) -> Part:
    kind: Part = (
        {"type": "dynamic-tool", "toolName": call.name}
        if dynamic
        else {"type": f"tool-{call.name}"}
    )
    return {
        **kind,
        "toolCallId": call.call_id,
        "state": "input-available",
        "input": call.input,
    }


def _same_key(name: str, arguments: Any) -> tuple[str, str]:
    try:
        return name, dump_json(arguments)
    except (TypeError, ValueError):
        return name, repr(arguments)
