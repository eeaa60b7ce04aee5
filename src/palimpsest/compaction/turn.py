"""One turn's compaction of a chat log, from the decision to the new checkpoint."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from palimpsest.compaction.boundary import (
    find_compaction_boundary,
    find_protected_from_sequence,
    is_compaction_turn,
    should_compact_chat,
)
from palimpsest.compaction.extractive import extract_from_texts
from palimpsest.compaction.projection import (
    ModelMessage,
    create_user_message,
    frame_summary,
    project_chat_messages,
)
from palimpsest.compaction.prompts import COMPACTION_REQUEST, HANDOFF_SECTIONS
from palimpsest.compaction.records import (
    AiChatAuthorInfo,
    AiChatMessage,
    CompactionCheckpoint,
    ModelLimits,
    RecordLike,
    TextMessage,
    parse_checkpoint,
    parse_records,
)
from palimpsest.compaction.replay import (
    InitialBindings,
    build_compaction_state,
    protect_retained_reverts,
)
from palimpsest.compaction.summary_prompt import build_summary_prompt
from palimpsest.compaction.validation import check_summary
from palimpsest.errors import CompactionError
from palimpsest.tokens import estimate_string_tokens

SummarizePrompt = Callable[[list[ModelMessage]], "Awaitable[str] | str"]
"""Takes the summary prompt, gives the summary."""


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What a turn goes on with."""

    continue_with: list[AiChatMessage]
    """The records to prompt with; after a compaction the first is the summary."""

    checkpoint: CompactionCheckpoint | None
    """The newest checkpoint: the new one, or the one that was given."""

    status: Literal["skipped", "compacted", "nothing", "failed"]
    """Not needed, done, nothing to cut, or the summarizer failed (the log is used as it is)."""

    error: Exception | None = field(default=None, compare=False)
    """Why it failed."""


def extractive_prompt_summary(prompt: Sequence[ModelMessage]) -> str:
    """The deterministic summary of a prompt made by :func:`build_summary_prompt`."""
    texts: list[tuple[str, str]] = []
    for message in prompt:
        content: Any = message["content"]
        text = content if isinstance(content, str) else content[0]["text"]
        texts.append((str(message["role"]), str(text)))
    tokens = sum(estimate_string_tokens(text) for _, text in texts)
    return extract_from_texts(texts, max(100, tokens // 5), sections=HANDOFF_SECTIONS)


async def process_turn(
    chat_messages: Sequence[RecordLike],
    current_tokens: float,
    model_limits: ModelLimits | Mapping[str, Any],
    checkpoint: CompactionCheckpoint | Mapping[str, Any] | None = None,
    *,
    summarize: SummarizePrompt = extractive_prompt_summary,
    initial_bindings: InitialBindings = (),
    model: Mapping[str, Any] | str | None = None,
) -> CompactionResult:
    """Compact a chat if its newest record asks for it or its prompt has reached the trigger.

    Without a boundary the summarizer is not called. An automatic compaction that fails leaves the
    turn as it was; a ``/compact`` that fails raises (compaction article, "Complete Integration
    Example", with the original's behaviour where the article departs from it).

    :param chat_messages: the log, or its tail since ``checkpoint``.
    :param current_tokens: tokens of the prompt as it stands.
    :param summarize: called with the prompt's messages, a final request included; the
        deterministic extractive summary by default.
    :raises CompactionError: ``/compact`` was asked for and no usable summary came.
    """
    records = parse_records(chat_messages)
    earlier = parse_checkpoint(checkpoint)
    if earlier is not None and not isinstance(earlier, CompactionCheckpoint):
        raise CompactionError("process_turn: the checkpoint has no summary and no boundary")
    limits = ModelLimits.model_validate(model_limits)
    requested = is_compaction_turn(records)
    if not requested and not should_compact_chat(current_tokens, limits.input_budget):
        return CompactionResult(records, earlier, "skipped")

    compacted_to = earlier.compacted_to if earlier else 0
    tail = [record for record in records if record.sequence >= compacted_to]
    projection = project_chat_messages(tail, earlier)
    boundary = protect_retained_reverts(
        find_compaction_boundary(
            projection,
            limits.input_budget,
            current_tokens,
            compacted_to,
            find_protected_from_sequence(tail),
        ),
        tail,
        compacted_to,
    )
    if boundary is None:
        return CompactionResult(records, earlier, "nothing")

    prompt = build_summary_prompt(projection, boundary, model)
    try:
        summary = await _summarize(summarize, prompt)
    except Exception as error:
        if requested:
            raise CompactionError(f"/compact failed: {error}") from error
        return CompactionResult(records, earlier, "failed", error)

    state = build_compaction_state(tail, boundary, initial_bindings, earlier)
    new = CompactionCheckpoint(
        chat_bindings=state.chat_bindings,
        next_change_id=state.next_change_id,
        pins=state.pins,
        epoch=state.epoch,
        proposed_change=state.proposed_change,
        chat_id=records[0].chat_id,
        compacted_to=boundary,
        summary=summary,
        from_sequence=compacted_to,
        requested_by_sequence=records[-1].sequence if requested else None,
    )
    kept = [record for record in tail if record.sequence >= boundary]
    return CompactionResult([summary_record(new), *kept], new, "compacted")


async def _summarize(summarize: SummarizePrompt, prompt: list[ModelMessage]) -> str:
    request = prompt
    if summarize is not extractive_prompt_summary:
        request = [*prompt, create_user_message(COMPACTION_REQUEST)]
    answer = summarize(request)
    if inspect.isawaitable(answer):
        answer = await answer
    return check_summary(answer)


def summary_record(checkpoint: CompactionCheckpoint) -> TextMessage:
    """The framed summary as a record for prompting; it is never stored in the log.

    Its sequence is the last one that it covers, so a later pass with the same checkpoint leaves
    it out.
    """
    return TextMessage(
        chat_id=checkpoint.chat_id,
        sequence=checkpoint.compacted_to - 1,
        author=AiChatAuthorInfo(type="user", name="summary"),
        message=frame_summary(checkpoint.summary),
    )
