"""When to compact a chat, and where to cut it: the budget-ratio policy's pure rules.

The functions named in the compaction article give the numbers of the system it describes.
:func:`find_live_boundary` is the rule for live conversations, with what that system lacks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from palimpsest.compaction.projection import (
    CompactionProjectionMessage,
    projection_message_weight,
)
from palimpsest.compaction.records import (
    AgentCallbackMessage,
    AgentNudgeMessage,
    AiChatMessage,
    BuiltinCommand,
    ConnectionRequestMessage,
    ModelLimits,
    RecordLike,
    SlashCommandMessage,
    TextMessage,
    parse_record,
    parse_records,
)
from palimpsest.compaction.replay import protect_retained_references

COMPACTION_TRIGGER_RATIO = 0.85
"""Compaction starts when the prompt reaches this share of the input budget."""

COMPACTION_TARGET_RATIO = 0.3
"""The share of the input budget that the kept tail aims for."""

DEFAULT_CONTEXT_WINDOW = 128_000
"""The window assumed for a model that is not in the table, in tokens."""

WORKERS_AI_OUTPUT_LIMIT = 32_768
"""Tokens reserved for the answer of every model that Cloudflare hosts."""

ModelWindows = Mapping[tuple[str, str], tuple[int, int | None]]
"""(provider, short model name) to (context window, largest answer), in tokens."""

MODEL_WINDOWS: ModelWindows = {
    ("cloudflare", "kimi-k2-7-code"): (262_144, 32_768),
    ("cloudflare", "glm-5-2"): (262_144, 32_768),
    ("anthropic", "opus-5"): (1_000_000, None),
    ("anthropic", "sonnet-5"): (1_000_000, None),
    ("anthropic", "haiku-4-5"): (200_000, None),
    ("openai", "gpt-5-6-sol"): (1_050_000, 128_000),
    ("openai", "gpt-5-6-luna"): (1_050_000, 128_000),
    ("openai", "gpt-5-6-terra"): (1_050_000, 128_000),
    ("google", "gemini-3-6-flash"): (1_048_576, None),
}
"""The models known here, by :func:`short_model_name`."""

MIN_KEPT_TURNS = 2
"""The fewest whole turns that the live rule keeps."""

TURN_START_SLACK = 0.5
"""How far beyond the target, as a share of it, the live rule looks for the start of a turn."""


def get_model_token_limits(
    config: Mapping[str, Any] | object,
    model: str | None = None,
    *,
    registry: ModelWindows = MODEL_WINDOWS,
) -> ModelLimits:
    """The input budget of a model and the answer it reserves, in tokens.

    :param config: ``{"provider": …, "model": …}``, an object with these attributes, or the
        provider with ``model`` beside it.
    """
    if isinstance(config, str):
        provider, name = config, model or ""
    elif isinstance(config, Mapping):
        fields = cast("Mapping[str, Any]", config)
        provider = str(fields.get("provider", ""))
        name = str(fields.get("model", fields.get("modelId", "")))
    else:
        provider = str(getattr(config, "provider", ""))
        name = str(getattr(config, "model", ""))
    unknown = (DEFAULT_CONTEXT_WINDOW, None)
    window, limit = registry.get((provider, short_model_name(name)), unknown)
    if limit is None and provider == "cloudflare":
        limit = WORKERS_AI_OUTPUT_LIMIT
    return ModelLimits(input_budget=window - (limit or 0), max_output_tokens=limit)


def short_model_name(name: str) -> str:
    """A model's name without its maker: ``@cf/zai-org/glm-5.2`` and ``glm-5.2`` are the same."""
    return name.rsplit("/", 1)[-1].removeprefix("claude-").replace(".", "-")


def should_compact_chat(
    context_tokens: float, input_budget: float, ratio: float = COMPACTION_TRIGGER_RATIO
) -> bool:
    """Whether the prompt has reached the trigger, which itself counts as reached."""
    return context_tokens >= input_budget * ratio


def is_compaction_turn(messages: Sequence[RecordLike]) -> bool:
    """Whether the newest record is the built-in ``/compact``.

    Read from the log and not from a flag, so a turn resumed after a restart decides the same.
    """
    if not messages:
        return False
    last = parse_record(messages[-1])
    return (
        isinstance(last, SlashCommandMessage)
        and isinstance(last.request.id, BuiltinCommand)
        and last.request.id.command_id == "compact"
    )


def starts_agent_turn(message: RecordLike) -> bool:
    """Whether a record makes the agent act: a message not its own, a callback, a nudge, access."""
    record = parse_record(message)
    if isinstance(record, TextMessage):
        return record.author.type in ("user", "gadget")
    if isinstance(record, ConnectionRequestMessage):
        return record.state == "accepted"
    return isinstance(record, AgentCallbackMessage | AgentNudgeMessage)


def find_protected_from_sequence(messages: Sequence[RecordLike]) -> int | None:
    """Where the turn begins that raised the oldest unanswered request; None without one.

    The request's card keeps its state on its own record, so the record must stay in the tail.
    """
    records = parse_records(messages)
    for index, record in enumerate(records):
        if isinstance(record, ConnectionRequestMessage) and record.state == "pending":
            for earlier in reversed(records[: index + 1]):
                if starts_agent_turn(earlier):
                    return earlier.sequence
            return records[0].sequence
    return None


def find_compaction_boundary(
    projection: Sequence[CompactionProjectionMessage],
    input_budget: float,
    context_tokens: float,
    compacted_to: int = 0,
    protected_from_sequence: int | None = None,
) -> int | None:
    """The first sequence to keep; None when the boundary cannot advance.

    Weights are scaled so that they add up to ``context_tokens``. Walking back from the newest
    entry, the tail reaches 30 % of ``input_budget`` and then the start of a record. A cut that
    would not advance falls back to the newest record; a protected sequence lowers the result.

    :param compacted_to: the boundary so far.
    :param protected_from_sequence: everything from here on must stay.
    """
    weights = [projection_message_weight(entry) for entry in projection]
    total = sum(weights)
    if total == 0:
        return None
    tokens_per_weight = context_tokens / total
    target = input_budget * COMPACTION_TARGET_RATIO
    index = len(projection) - 1
    kept = 0.0
    while index >= 0:
        kept += weights[index] * tokens_per_weight
        if kept >= target:
            break
        index -= 1
    while index >= 0 and not projection[index].can_cut:
        index -= 1
    sequence = projection[index].sequence if index >= 0 else None
    if sequence is None or sequence <= compacted_to:
        sequence = _newest_cut(projection)
    if sequence is None:
        return None
    if protected_from_sequence is not None:
        sequence = min(sequence, protected_from_sequence)
    return sequence if sequence > compacted_to else None


def _newest_cut(projection: Sequence[CompactionProjectionMessage]) -> int | None:
    for entry in reversed(projection):
        if entry.can_cut:
            return entry.sequence
    return None


def pending_requests(messages: Sequence[RecordLike], compacted_to: int) -> list[int]:
    """Sequences below a boundary of requests that still wait for an answer."""
    return [
        record.sequence
        for record in parse_records(messages)
        if isinstance(record, ConnectionRequestMessage)
        and record.state == "pending"
        and record.sequence < compacted_to
    ]


def find_live_boundary(
    projection: Sequence[CompactionProjectionMessage],
    messages: Sequence[RecordLike],
    input_budget: float,
    context_tokens: float,
    compacted_to: int = 0,
    min_turns: int = MIN_KEPT_TURNS,
) -> int | None:
    """The first sequence to keep in a live chat; None when nothing can be cut.

    As :func:`find_compaction_boundary`, and beyond it: at least ``min_turns`` whole turns stay
    where the log has as many; the cut stands at the start of a turn where one lies near the
    target; pending requests do not block (:func:`pending_requests` are carried); where a retained
    revert or partial merge would block, a later cut that leaves it behind is tried.

    :raises ValueError: ``input_budget`` is not above 0.
    """
    if input_budget <= 0:
        raise ValueError(f"the input budget must be above 0 tokens, got {input_budget}")
    records = parse_records(messages)
    cuts = [entry.sequence for entry in projection if entry.can_cut and entry.sequence is not None]
    candidates = [cut for cut in cuts if cut > compacted_to]
    if not candidates:
        return None
    wanted = _wanted_cut(projection, records, input_budget, context_tokens, compacted_to)
    turns = [record.sequence for record in records if starts_agent_turn(record)]
    if turns:
        wanted = min(wanted, turns[-min_turns] if len(turns) >= min_turns else turns[0])
    ordered = [cut for cut in reversed(candidates) if cut <= wanted]
    # Later cuts keep less than was wanted: they come last, and never split the newest turn.
    newest_turn = turns[-1] if turns else candidates[-1]
    ordered += [cut for cut in candidates if wanted < cut <= newest_turn and cut in set(turns)]
    for cut in ordered:
        safe = protect_retained_references(cut, records, compacted_to)
        if safe is not None and _compacts_something(projection, safe, compacted_to):
            return safe
    return None


def _wanted_cut(
    projection: Sequence[CompactionProjectionMessage],
    records: Sequence[AiChatMessage],
    input_budget: float,
    context_tokens: float,
    compacted_to: int,
) -> int:
    """The cut nearest the target: the start of a turn within the slack, else of a record."""
    weights = [projection_message_weight(entry) for entry in projection]
    tokens_per_weight = context_tokens / (sum(weights) or 1)
    # Below the trigger, where only a request compacts, the same share of less is kept.
    full = min(input_budget, context_tokens / COMPACTION_TRIGGER_RATIO)
    target = full * COMPACTION_TARGET_RATIO
    turn_starts = {record.sequence for record in records if starts_agent_turn(record)}
    kept = 0.0
    best: int | None = None
    best_distance = float("inf")
    nearest_turn: int | None = None
    turn_distance = target * TURN_START_SLACK
    for index in range(len(projection) - 1, -1, -1):
        kept += weights[index] * tokens_per_weight
        sequence = projection[index].sequence
        if sequence is None or sequence <= compacted_to or not projection[index].can_cut:
            continue
        distance = abs(kept - target)
        if distance < best_distance:
            best, best_distance = sequence, distance
        if sequence in turn_starts and distance <= turn_distance:
            nearest_turn, turn_distance = sequence, distance
    if nearest_turn is not None:
        return nearest_turn
    return best if best is not None else compacted_to + 1


def _compacts_something(
    projection: Sequence[CompactionProjectionMessage], cut: int, compacted_to: int
) -> bool:
    """Whether a record with something to say lies between the old boundary and the cut."""
    return any(
        entry.sequence is not None and compacted_to <= entry.sequence < cut for entry in projection
    )
