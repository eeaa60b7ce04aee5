"""What a ChatAgent does unless its user says otherwise: the model loop, and ``/compact``."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from palimpsest.chat.accumulator import Chunk
from palimpsest.chat.calibration import LearnedCounter
from palimpsest.chat.loop import StepReport, run_loop
from palimpsest.chat.turns import Turn
from palimpsest.compaction.boundary import DEFAULT_CONTEXT_WINDOW
from palimpsest.compaction.extractive import ExtractiveSummarizer
from palimpsest.compaction.policy import BudgetRatioPolicy
from palimpsest.errors import ContextOverflowError, PalimpsestError
from palimpsest.messages import Message, dump_json, text_of
from palimpsest.models.interface import generate_text
from palimpsest.models.offline import OfflineModel
from palimpsest.session.context import with_reminder
from palimpsest.tools import client_tools, tools_of

if TYPE_CHECKING:
    from palimpsest.chat.agent import ChatAgent
    from palimpsest.chat.lane import Lane

COMPACT_COMMAND = "/compact"

FAR_TOO_MUCH = 4
"""A conversation of so many times what the model takes is summarized before it is read.

Shortening the results of tools may do for less.
"""


async def answer(agent: ChatAgent, turn: Turn) -> AsyncGenerator[Chunk, None]:
    """Answer with the agent's model, its tools, its sessions' tools and the client's."""
    session = turn.session
    own = {**tools_of(agent), **await session.tools(), **await agent.sessions.tools()}
    compactor = session.compactor
    counter = LearnedCounter(agent.host, agent.current_model.name)

    async def make_room(tokens: int) -> bool:
        report = await compactor.ensure_room(tokens, force=True)
        if not report.fits and report.remaining:
            raise ContextOverflowError(report.reason or "")
        return report.compacted

    async def context() -> list[Message]:
        budget = agent.current_model.max_input_tokens
        if compactor.estimate() > FAR_TOO_MUCH * budget:
            await make_room(budget)  # first of all: it may be more than the object can hold
        history = await session.get_history(turn.leaf_id)
        reminder = await session.context.reminder()
        if reminder and history and history[-1]["role"] == "user":
            history[-1] = with_reminder(history[-1], reminder)
        return history

    async def count(report: StepReport) -> None:
        usage = report.usage
        if usage is None:
            return
        counter.save()
        await agent.sessions.ensure(turn.session_id, "New conversation")
        await agent.sessions.add_usage(
            turn.session_id, usage.input_tokens or 0, usage.output_tokens or 0
        )
        turn.last_step_tokens = usage.total_tokens

    chunks = run_loop(
        model=agent.current_model,
        context=context,
        system=await session.freeze_system_prompt(),
        tools=own,
        client_tools={
            name: tool for name, tool in client_tools(turn.client_tools).items() if name not in own
        },
        abort=turn.abort,
        counter=counter,
        on_overflow=make_room,
        on_step=count,
        max_steps=agent.max_steps,
        new_id=agent.host.random_id,
        agent=agent,
        session_id=turn.session_id,
        continues=turn.base is not None,
        seal=agent.lane(turn.session_id).conversation.seal,
        on_begin=turn.begin_calls,
    )
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk


def compaction_policy(agent: ChatAgent) -> BudgetRatioPolicy:
    """The compaction article's policy for the agent's model, which also writes the summaries.

    Without a model that can write one, statements are extracted word for word.
    """

    async def summarize(prompt: str) -> str:
        return await generate_text(agent.current_model, prompt)

    try:
        model = agent.current_model
        budget = model.max_input_tokens
        if isinstance(model, OfflineModel):
            return BudgetRatioPolicy(ExtractiveSummarizer(), budget)
        return BudgetRatioPolicy(summarize, budget, summarizer_window=budget)
    except PalimpsestError:
        # The object must start: the first turn tells what is wrong with the model's settings.
        return BudgetRatioPolicy(ExtractiveSummarizer(), DEFAULT_CONTEXT_WINDOW)


def is_compact_command(turn: Turn) -> bool:
    """Whether the message is the command ``/compact`` (compaction article)."""
    return (
        turn.base is None
        and turn.message is not None
        and text_of(turn.message).strip() == COMPACT_COMMAND
    )


async def compact(turn: Turn) -> AsyncGenerator[Chunk | str, None]:
    """Compact the session now and say what came of it; the turn ends with that."""
    # The message's id names the request: a turn that is taken up again after a crash between the
    # commit and its own end does not compact a second time.
    request_id = None if turn.message is None else str(turn.message["id"])
    try:
        outcome = await turn.session.compactor.request_compaction(request_id=request_id)
    except PalimpsestError as error:
        yield f"The conversation was not compacted: {error}"
        return
    before, after = outcome.tokens_before, outcome.tokens_after
    if outcome.status == "failed":
        yield f"The conversation was not compacted: {outcome.reason}"
    elif outcome.status == "nothing":
        yield f"There was nothing to compact ({before:,} tokens)."
    else:
        yield f"The conversation was compacted from {before:,} to {after:,} tokens."
        if outcome.remaining:
            yield f" {outcome.remaining:,} more are being summarized in the background."
        if outcome.error is not None:
            yield f" The summarizer failed meanwhile: {outcome.error}"


def watch_compaction(lane: Lane) -> None:
    """Send a session's compaction frames to its clients, and keep compaction between turns."""

    def tell(frame: dict[str, Any]) -> None:
        lane.broadcast(dump_json(frame))

    compactor = lane.conversation.session.compactor
    compactor.add_listener(tell)
    compactor.defer_while(lambda: lane.is_running)
