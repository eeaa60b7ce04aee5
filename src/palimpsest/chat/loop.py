"""The agent loop: model steps and tool calls in turn, as AI SDK UI message chunks.

The loop stores nothing. It is given the conversation, yields chunks, and whoever runs it
accumulates them into the assistant message. Before every step the request is made to fit the
budget. The last chunk tells how the run ended: ``finish``, ``error`` or ``abort``.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from palimpsest.abort import Abort, run_abortable
from palimpsest.chat.approvals import ApprovalSeal
from palimpsest.chat.calls import CallRunner, answered_approvals
from palimpsest.chat.fitting import RUN_MESSAGE_ID, Fitted, RequestFitter
from palimpsest.chat.step import Chunk, Ids, Step
from palimpsest.errors import (
    AbortedError,
    ContextOverflowError,
    ModelError,
    ModelResponseError,
)
from palimpsest.messages import Message, Part, tool_parts
from palimpsest.models.interface import Model, ModelRequest, ToolChoice, Usage
from palimpsest.tokens import TokenCounter, count_string_tokens, count_tools_tokens
from palimpsest.tools.tool import Tool

DEFAULT_MAX_STEPS = 10
"""Model steps of one run, unless told otherwise."""

OVERFLOW_TARGET = 0.7
"""After a provider's overflow error the retry aims at this share of the refused request."""


LESSON_OF_REFUSAL = 1.15
"""A refused request is taken to have had so much more than its estimate."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one model step cost."""

    step: int
    """1 for the first."""
    model: str
    estimated_tokens: int
    """The default counter's estimate of the request, not scaled by what was learned."""
    usage: Usage | None
    """What the provider reported; None where it reported nothing."""
    finish_reason: str


async def run_loop(
    *,
    model: Model,
    context: Callable[[], Awaitable[list[Message]]],
    system: str = "",
    tools: Mapping[str, Tool] | None = None,
    client_tools: Mapping[str, Tool] | None = None,
    abort: Abort | None = None,
    budget: int | None = None,
    counter: TokenCounter | None = None,
    on_overflow: Callable[[int], Awaitable[bool]] | None = None,
    on_step: Callable[[StepReport], Any] | None = None,
    max_steps: int = DEFAULT_MAX_STEPS,
    message_id: str | None = None,
    new_id: Callable[[], str] | None = None,
    agent: Any = None,
    session_id: str = "",
    continues: bool = True,
    seal: ApprovalSeal | None = None,
    on_begin: Callable[[Sequence[str]], None] | None = None,
) -> AsyncGenerator[Chunk, None]:
    """Answer the conversation; yields UI message chunks, the last one of which tells the outcome.

    :param context: the conversation without anything this run yields; read at the start and again
        after ``on_overflow`` changed it. Where its last message is an assistant message with
        answered approvals, the approved calls are run first.
    :param system: the system prompt.
    :param tools: tools that run here.
    :param client_tools: tools that the client runs. A call to one ends the run after the step's
        other calls; so does a call that needs approval.
    :param abort: stops the run; the request at the provider ends, too.
    :param budget: tokens that a request may have; None for what the model takes.
    :param counter: the token counter with what was learned about this model; learns on.
    :param on_overflow: asked to make the conversation smaller when shortening older results is
        not enough, with the tokens to aim for; says whether it did. Asked at most twice in a run:
        before a request that would be too large, and after one that the provider refused.
    :param on_step: told of each step's usage.
    :param max_steps: model steps at most. In the last one no tools are offered.
    :param message_id: the assistant message's id, for the ``start`` chunk.
    :param new_id: makes ids for calls that have none.
    :param continues: whether this run goes on with the last message, so that its answered
        approvals are settled first.
    :param seal: makes the ids of approvals; only calls whose approval bears one are run.
    :param on_begin: told the ids of calls before they run here.
    """
    run = _Run(
        model=model,
        context=context,
        system=system,
        tools={**(tools or {}), **(client_tools or {})},
        abort=abort or Abort(),
        budget=model.max_input_tokens if budget is None else min(budget, model.max_input_tokens),
        counter=counter or TokenCounter(),
        on_overflow=on_overflow,
        on_step=on_step,
        max_steps=max(max_steps, 1),
        ids=Ids(new_id or (lambda: str(uuid.uuid4()))),
        agent=agent,
        session_id=session_id,
        continues=continues,
        seal=seal,
        on_begin=on_begin,
    )
    yield {"type": "start"} if message_id is None else {"type": "start", "messageId": message_id}
    try:
        async with aclosing(run.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk
    except AbortedError as error:
        yield {"type": "abort", "reason": str(error)}
    except ModelError as error:
        yield {"type": "error", "errorText": str(error)}


@dataclass(slots=True)
class _Run:
    model: Model
    context: Callable[[], Awaitable[list[Message]]]
    system: str
    tools: dict[str, Tool]
    abort: Abort
    budget: int
    counter: TokenCounter
    on_overflow: Callable[[int], Awaitable[bool]] | None
    on_step: Callable[[StepReport], Any] | None
    max_steps: int
    ids: Ids
    agent: Any
    session_id: str
    continues: bool
    seal: ApprovalSeal | None
    on_begin: Callable[[Sequence[str]], None] | None
    history: list[Message] = field(default_factory=lambda: list[Message]())
    parts: list[Part] = field(default_factory=lambda: list[Part]())
    """The assistant message as made so far, from finished steps."""
    unseen: int = 0
    """Index in :attr:`parts` of the newest step's parts, whose results no model has seen."""
    compacted: bool = False
    """Whether the run made the conversation smaller before a request was too large."""
    refused: bool = False
    """Whether a provider found a request too large; that is tried again once in a run."""
    answered: dict[str, Part] = field(default_factory=lambda: dict[str, Part]())
    """Parts of the conversation that this run settled, by call."""
    input_tokens: int = 0
    output_tokens: int = 0
    last_usage: Usage | None = None

    async def chunks(self) -> AsyncGenerator[Chunk, None]:
        await self._read_context()
        runner = CallRunner(
            self.tools,
            self.abort,
            self.agent,
            self.session_id,
            seal=self.seal,
            on_begin=self.on_begin,
        )
        async with aclosing(self._settle_approvals(runner)) as settled:
            async for chunk in settled:
                yield chunk
        fixed = count_string_tokens(self.system) + count_tools_tokens(self.tools.values())
        fitter = RequestFitter(self.counter, self.tools, fixed)
        for number in range(1, self.max_steps + 1):
            tool_choice: ToolChoice = "none" if number == self.max_steps and number > 1 else "auto"
            yield {"type": "start-step"}
            step = Step(self.ids)
            async with aclosing(self._model_step(step, fitter, tool_choice, number)) as events:
                async for chunk in events:
                    yield chunk
            if number == 1 and step.empty and not self._goes_on():
                raise ModelResponseError(
                    "the model gave no answer"
                    + (f" (it ended with {step.finish_reason!r})" if step.finish_reason else "")
                )
            outcome = runner.run(step.calls, allowed=tool_choice != "none")
            async with aclosing(outcome) as results:
                async for chunk in results:
                    yield chunk
            self.unseen = len(self.parts)
            self.parts += [*step.parts, *runner.settled_parts()]
            yield {"type": "finish-step"}
            if runner.waits_for_client:
                yield self._finish("tool-calls")
                return
            if not step.calls:
                yield self._finish(step.finish_reason or "other")
                return
        raise ModelError(
            f"the model kept calling tools for {self.max_steps} steps, the most one answer may "
            "take, and gave no answer"
        )

    def _goes_on(self) -> bool:
        """Whether this run goes on with an answer, to which a model need not add anything."""
        return bool(self.history) and self.history[-1].get("role") == "assistant"

    async def _read_context(self) -> None:
        self.history = await self.context()
        for message in self.history:
            self.ids.seen_calls.update(
                str(part.get("toolCallId", "")) for part in tool_parts(message)
            )

    async def _settle_approvals(self, runner: CallRunner) -> AsyncGenerator[Chunk, None]:
        if not self.continues:
            return
        approved, denied = answered_approvals(self.history)
        for part in denied:
            identifier = str(part["toolCallId"])
            self.answered[identifier] = {**part, "state": "output-denied"}
            yield {"type": "tool-output-denied", "toolCallId": identifier}
        async with aclosing(runner.run_approved(approved)) as results:
            async for chunk in results:
                yield chunk
        for part in runner.settled_parts():
            self.answered[str(part["toolCallId"])] = part

    def _messages(self) -> tuple[list[Message], int]:
        """The conversation as it stands, and the index of the first message no model has seen."""
        messages = [self._with_answers(message) for message in self.history]
        seen, unseen = self.parts[: self.unseen], self.parts[self.unseen :]
        newest = len(messages)
        for parts in (seen, unseen):
            newest = len(messages)
            if parts:
                messages.append({"id": RUN_MESSAGE_ID, "role": "assistant", "parts": parts})
        return messages, newest

    def _with_answers(self, message: Message) -> Message:
        if not self.answered or message.get("role") != "assistant":
            return message
        parts: list[Part] = message["parts"]
        changed = [self.answered.get(str(part.get("toolCallId")), part) for part in parts]
        return {**message, "parts": changed} if changed != parts else message

    async def _model_step(
        self, step: Step, fitter: RequestFitter, tool_choice: ToolChoice, number: int
    ) -> AsyncGenerator[Chunk, None]:
        """One step; a provider's overflow error leads to one compaction and one retry."""
        fitted = await self._fit(fitter, self.budget)
        while True:
            request = ModelRequest(
                fitted.messages,
                system=self.system,
                tools=self.tools,
                tool_choice=tool_choice,
                abort=self.abort,
            )
            try:
                async with aclosing(self.model.stream(request)) as events:
                    async for event in events:
                        for chunk in step.take(event):
                            yield chunk
                break
            except ContextOverflowError as error:
                if not step.empty or self.refused:
                    raise
                self.refused = True
                fitted = await self._fit_after_refusal(fitter, fitted, error)
        for chunk in step.end_blocks():
            yield chunk
        await self._report(step, fitted, number)

    async def _fit(self, fitter: RequestFitter, budget: int) -> Fitted:
        """Shorten older results; then compact, once; then shorten the newest; then give up.

        :raises ContextOverflowError: nothing helps.
        """
        messages, newest = self._messages()
        fitted = fitter.fit(messages, budget, newest=newest, may_shorten_newest=False)
        if fitted.fits:
            return fitted
        if not self.compacted:
            self.compacted = True
            if await self._compact(budget):
                messages, newest = self._messages()
        fitted = fitter.fit(messages, budget, newest=newest, may_shorten_newest=True)
        if not fitted.fits:
            raise ContextOverflowError(
                f"the conversation does not fit: about {self.counter.scale(fitted.tokens):,} "
                f"tokens, of which {self.model.name} takes {budget:,}; "
                "shorten the last message or start a new conversation"
            )
        return fitted

    async def _fit_after_refusal(
        self, fitter: RequestFitter, refused: Fitted, error: ContextOverflowError
    ) -> Fitted:
        """A smaller request after the provider found this one too large.

        :raises ContextOverflowError: it cannot be made smaller.
        """
        target = int(self.counter.upper(refused.tokens) * OVERFLOW_TARGET)
        messages, newest = self._messages()
        fitted = fitter.fit(messages, target, newest=newest, may_shorten_newest=False)
        if await self._compact(target):
            messages, newest = self._messages()
            fitted = fitter.fit(messages, target, newest=newest, may_shorten_newest=False)
        if not fitted.fits:
            fitted = fitter.fit(messages, target, newest=newest, may_shorten_newest=True)
        if fitted.tokens >= refused.tokens:
            raise error
        estimate = self.counter.scale(refused.tokens)
        self.counter.calibration.observe(refused.tokens, int(estimate * LESSON_OF_REFUSAL))
        return fitted

    async def _compact(self, target: int) -> bool:
        if self.on_overflow is None:
            return False
        if not await run_abortable(self.on_overflow(target), self.abort):
            return False
        await self._read_context()
        return True

    async def _report(self, step: Step, fitted: Fitted, number: int) -> None:
        usage = step.usage
        self.last_usage = usage
        if usage is not None:
            self.input_tokens += usage.input_tokens or 0
            self.output_tokens += usage.output_tokens or 0
            self.counter.calibration.observe(fitted.tokens, usage.input_tokens)
        if self.on_step is not None:
            told = self.on_step(
                StepReport(
                    step=number,
                    model=self.model.name,
                    estimated_tokens=fitted.tokens,
                    usage=usage,
                    finish_reason=step.finish_reason or "other",
                )
            )
            if inspect.isawaitable(told):
                await told

    def _finish(self, reason: str) -> Chunk:
        metadata: dict[str, Any] = {"model": self.model.name, "finishReason": reason}
        if self.input_tokens or self.output_tokens:
            metadata["usage"] = {
                "inputTokens": self.input_tokens,
                "outputTokens": self.output_tokens,
                "totalTokens": self.input_tokens + self.output_tokens,
            }
        return {"type": "finish", "finishReason": reason, "messageMetadata": metadata}
