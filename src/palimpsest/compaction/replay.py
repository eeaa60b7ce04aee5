"""Folding the compacted part of a log into the state that replay cannot get from the tail.

Invariant: replaying a checkpoint and the records from its boundary on gives the same names, pins,
proposals and change ids as replaying the whole log. It holds for a boundary that
:func:`protect_retained_references` has approved, and for as long as no later revert or merge
reaches below it; :func:`checkpoint_is_current` tells, and storage then goes back to an earlier
checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from palimpsest.compaction.code_change import CodeChange, compose_code_changes
from palimpsest.compaction.records import (
    AgentCallbackMessage,
    AiChatMessage,
    ChangeBatch,
    ChangesMessage,
    ChatBindingEntry,
    ChatBindings,
    ChatGadgetPin,
    CompactionCheckpoint,
    CompactionState,
    ConnectionRequestMessage,
    Identifier,
    MergeMessage,
    RecordLike,
    RevertMessage,
    TextMessage,
    ValueBinding,
    WorkpieceBinding,
    parse_checkpoint,
    parse_records,
)

ChangeStatus = Literal["merged", "reverted"]
"""What became of a record in a proposal; one that is still proposed has no status."""

InitialBindings = Mapping[str, Any] | Iterable[tuple[str, Any]] | None
"""Names a chat starts with: a mapping or pairs, values as entries or their JSON; None for none."""


def fold_proposed_changes(
    messages: Iterable[RecordLike], seed: Iterable[ChangeBatch] = ()
) -> list[ChangeBatch]:
    """The changes still proposed after ``messages``, oldest first.

    A merge accepts from the oldest up to its ``mergeThrough``; a revert takes back from the newest
    down to its ``revertFrom``. ``seed`` goes before everything.
    """
    batches = list(seed)
    for record in parse_records(messages):
        if isinstance(record, ChangesMessage):
            if record.conversion_boundary and not record.change:
                continue
            batches.append(ChangeBatch(sequence=record.sequence, change=record.change))
        elif isinstance(record, MergeMessage):
            while batches and batches[0].sequence <= record.merge_through:
                batches.pop(0)
        elif isinstance(record, RevertMessage):
            while batches and batches[-1].sequence >= record.revert_from:
                batches.pop()
    return batches


def chat_change_statuses(messages: Iterable[RecordLike]) -> dict[int, ChangeStatus]:
    """For each record that a merge or revert covers, which came first; works on a tail too."""
    statuses: dict[int, ChangeStatus] = {}
    # Records without a status yet, in order: each is looked at until it gets one.
    unmarked: list[int] = []
    for record in parse_records(messages):
        if isinstance(record, MergeMessage):
            through = record.merge_through
            statuses.update((number, "merged") for number in unmarked if number <= through)
            unmarked = [number for number in unmarked if number > through]
        elif isinstance(record, RevertMessage):
            origin = record.revert_from
            while unmarked and unmarked[-1] >= origin:
                statuses[unmarked.pop()] = "reverted"
        unmarked.append(record.sequence)
    return statuses


def build_compaction_state(
    messages: Iterable[RecordLike],
    compacted_to: int,
    initial_bindings: InitialBindings = (),
    previous: CompactionState | Mapping[str, Any] | None = None,
) -> CompactionState:
    """The replay state of the records below ``compacted_to``.

    :param messages: the log, or its tail since ``previous``.
    :param initial_bindings: the names the chat began with; unused where ``previous`` is given.
    :param previous: the checkpoint before, whose state is carried on.
    """
    earlier = parse_checkpoint(previous)
    records = [record for record in parse_records(messages) if record.sequence < compacted_to]
    bindings, next_change_id = _fold_bindings(records, initial_bindings, earlier)
    pins, epoch = _fold_pins(records, earlier)
    return CompactionState(
        chat_bindings=list(bindings.items()),
        next_change_id=next_change_id,
        pins=list(pins.values()) or None,
        epoch=epoch,
        proposed_change=_fold_proposal(records, earlier),
    )


def parse_bindings(initial: InitialBindings) -> ChatBindings:
    """Names and entries from a mapping or from pairs, values as entries or as JSON."""
    if isinstance(initial, Mapping):
        named = cast("Mapping[str, Any]", initial)
        return parse_bindings(list(named.items()))
    pairs = list(initial or ())
    return CompactionState.model_validate({"chat_bindings": pairs}).chat_bindings


def _fold_bindings(
    records: Sequence[AiChatMessage],
    initial_bindings: InitialBindings,
    earlier: CompactionState | None,
) -> tuple[dict[str, ChatBindingEntry], int]:
    carried = earlier.chat_bindings if earlier else parse_bindings(initial_bindings)
    bindings: dict[str, ChatBindingEntry] = dict(carried)
    next_change_id = earlier.next_change_id if earlier else 0
    for record in records:
        if isinstance(record, TextMessage):
            _bind_message(bindings, record)
        elif isinstance(record, AgentCallbackMessage):
            entry = ValueBinding(message_sequence=record.sequence)
            bindings[_free_parameters_name(bindings)] = entry
        elif isinstance(record, ConnectionRequestMessage):
            if record.state == "accepted":
                _bind_if_free(bindings, record.binding_name, record.gatekeeper_id)
        elif isinstance(record, ChangesMessage):
            for gadget in record.created_gadgets:
                _bind_if_free(bindings, gadget.binding_name, gadget.gadget_id)
            next_change_id += 1
    return bindings, next_change_id


def _bind_if_free(
    bindings: dict[str, ChatBindingEntry], name: str | None, identifier: Identifier | None
) -> None:
    if name and identifier is not None and name not in bindings:
        bindings[name] = WorkpieceBinding(id=identifier)


def _bind_message(bindings: dict[str, ChatBindingEntry], record: TextMessage) -> None:
    for capsule in record.capsules:
        _bind_if_free(bindings, capsule.binding_name, capsule.gatekeeper_id)
    for call in record.tool_calls:
        if call.error is not None or call.tool_name != "createGadget":
            continue
        name = _field(call.input, "bindingName")
        gadget = _field(call.output, "gadgetId")
        if isinstance(name, str) and isinstance(gadget, int | str):
            bindings[name] = WorkpieceBinding(id=gadget)


def _field(value: Any, key: str) -> Any:
    return cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None


def _free_parameters_name(bindings: Mapping[str, ChatBindingEntry]) -> str:
    number = 1
    while f"PARAMS_{number}" in bindings:
        number += 1
    return f"PARAMS_{number}"


def _fold_pins(
    records: Sequence[AiChatMessage], earlier: CompactionState | None
) -> tuple[dict[Identifier, ChatGadgetPin], int | None]:
    statuses = chat_change_statuses(records)
    carried = (earlier.pins if earlier else None) or ()
    pins = {pin.gadget_id: pin for pin in carried}
    epoch = earlier.epoch if earlier else None
    for record in records:
        if isinstance(record, MergeMessage) and record.epoch_boundary:
            pins.clear()
            epoch = record.sequence
        elif isinstance(record, ChangesMessage) and statuses.get(record.sequence) != "reverted":
            if record.conversion_boundary:
                pins.clear()
                epoch = record.sequence
            pins.update((pin.gadget_id, pin) for pin in record.pins)
    return pins, epoch


def _fold_proposal(
    records: Sequence[AiChatMessage], earlier: CompactionState | None
) -> CodeChange | None:
    seed: list[ChangeBatch] = []
    if earlier is not None and earlier.proposed_change is not None:
        # Below every sequence: a merge accepts it, and no revert in the tail can take it back.
        seed.append(ChangeBatch(sequence=-1, change=earlier.proposed_change))
    batches = fold_proposed_changes(records, seed)
    return compose_code_changes(batch.change for batch in batches if batch.change is not None)


def protect_retained_reverts(
    boundary: int | None, messages: Sequence[RecordLike], compacted_to: int = 0
) -> int | None:
    """Lower a boundary below the origin of every revert that stays in the tail.

    Replay names a revert's origin by a change id that only the retained records give. None when
    the lowered boundary would not advance beyond ``compacted_to``.
    """
    if boundary is None:
        return None
    cut = boundary
    for record in reversed(parse_records(messages)):
        if (
            isinstance(record, RevertMessage)
            and record.sequence >= cut
            and record.revert_from < cut
        ):
            cut = record.revert_from
    return cut if cut > compacted_to else None


def protect_retained_references(
    boundary: int | None, messages: Sequence[RecordLike], compacted_to: int = 0
) -> int | None:
    """:func:`protect_retained_reverts`, and the same for merges that accept only part.

    A checkpoint holds its proposals composed into one change. A retained merge that accepts some
    of them and not others could not be replayed, so the cut goes below the ones left over.
    """
    records = parse_records(messages)
    cut = boundary
    while cut is not None:
        lowered = protect_retained_reverts(cut, records, compacted_to)
        if lowered is not None:
            lowered = _protect_partial_merges(lowered, records)
            if lowered <= compacted_to:
                lowered = None
        if lowered == cut:
            return cut
        cut = lowered
    return None


def _protect_partial_merges(cut: int, records: Sequence[AiChatMessage]) -> int:
    lowest = cut
    for record in records:
        if not isinstance(record, MergeMessage) or record.sequence < cut:
            continue
        left_over = [
            other.sequence
            for other in records
            if isinstance(other, ChangesMessage) and record.merge_through < other.sequence < cut
        ]
        lowest = min([lowest, *left_over])
    return lowest


def checkpoint_is_current(compacted_to: int, tail: Iterable[RecordLike]) -> bool:
    """Whether no revert or partial merge in the tail reaches below the boundary."""
    for record in parse_records(tail):
        if isinstance(record, RevertMessage) and record.revert_from < compacted_to:
            return False
        if isinstance(record, MergeMessage) and record.merge_through < compacted_to - 1:
            return False
    return True


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a chat's log amounts to."""

    state: CompactionState
    change_ids: dict[int, int]
    """Change id by the sequence of each replayed "changes" record."""

    statuses: dict[int, ChangeStatus]
    """What became of each replayed record in its proposal."""


def replay(
    checkpoint: CompactionCheckpoint | Mapping[str, Any] | None,
    tail: Iterable[RecordLike],
    initial_bindings: InitialBindings = (),
    carried: Iterable[RecordLike] = (),
) -> ReplayResult:
    """Replay a checkpoint and its tail, or with None the whole log.

    :param tail: records in order; those below the checkpoint are left out.
    :param carried: the present form of the requests that were pending when the checkpoint was
        taken (``carried_requests``): one accepted since then binds its name here.
    """
    earlier = parse_checkpoint(checkpoint)
    floor = earlier.compacted_to if isinstance(earlier, CompactionCheckpoint) else 0
    records = [record for record in parse_records(tail) if record.sequence >= floor]
    end = max((record.sequence for record in records), default=0) + 1
    answered = [
        record
        for record in parse_records(carried)
        if isinstance(record, ConnectionRequestMessage) and record.sequence < floor
    ]
    state = build_compaction_state(
        [*answered, *records], max(end, floor), initial_bindings, earlier
    )
    change_ids: dict[int, int] = {}
    next_change_id = earlier.next_change_id if earlier else 0
    for record in records:
        if isinstance(record, ChangesMessage):
            change_ids[record.sequence] = next_change_id
            next_change_id += 1
    return ReplayResult(state, change_ids, chat_change_statuses(records))
