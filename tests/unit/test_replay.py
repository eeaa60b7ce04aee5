"""Replaying a checkpoint and its tail gives what replaying everything gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palimpsest.compaction.budget_ratio import (
    AiChatMessage,
    CodeChangeError,
    CompactionCheckpoint,
    RevertMessage,
    apply_code_change,
    build_compaction_state,
    compose_code_change,
    protect_retained_references,
    replay,
)
from palimpsest.compaction.code_change import apply_edit, compose_edits
from palimpsest.store.checkpoints import CheckpointStore
from palimpsest.testing import LocalHost

SEED = {"S": {"type": "workpiece", "id": 1}}


def random_log(randomness: random.Random, size: int) -> list[dict[str, Any]]:
    """Records as a chat might hold them; names and pins collide on purpose."""
    log: list[dict[str, Any]] = []
    for sequence in range(size):
        base: dict[str, Any] = {"chatId": "c", "sequence": sequence, "timestamp": sequence}
        name = f"N{randomness.randrange(6)}"
        kind = randomness.choice(
            [
                "user",
                "agent",
                "changes",
                "changes",
                "merge",
                "revert",
                "callback",
                "request",
                "nudge",
            ]
        )
        if kind in ("merge", "revert") and sequence == 0:
            kind = "user"
        if kind == "user":
            capsule = {"position": 0, "length": 1, "gatekeeperId": sequence, "bindingName": name}
            base |= {"type": "message", "message": "hi", "capsules": [capsule]}
        elif kind == "agent":
            call: dict[str, Any] = {
                "toolCallId": f"t{sequence}",
                "toolName": "createGadget",
                "input": {"bindingName": name},
                "output": {"gadgetId": sequence},
            }
            if randomness.random() < 0.3:
                call["error"] = "failed"
            author = {"type": "agent", "id": "m", "name": "m"}
            base |= {"type": "message", "author": author, "message": "ok", "toolCalls": [call]}
        elif kind == "changes":
            base |= {"type": "changes"}
            if randomness.random() < 0.7:
                path = f"f{randomness.randrange(3)}"
                operation = (
                    {"set": f"v{sequence}"} if randomness.random() < 0.8 else {"remove": True}
                )
                base["change"] = {str(randomness.randrange(2)): [[path, operation]]}
            if randomness.random() < 0.4:
                base["pins"] = [{"gadgetId": randomness.randrange(3), "baseCommit": f"c{sequence}"}]
            if randomness.random() < 0.2:
                base["conversionBoundary"] = True
            if randomness.random() < 0.3:
                base["createdGadgets"] = [{"gadgetId": sequence, "title": "", "bindingName": name}]
        elif kind == "merge":
            through = randomness.randrange(sequence) if randomness.random() < 0.4 else sequence - 1
            boundary = randomness.random() < 0.3
            base |= {"type": "merge", "mergeThrough": through, "epochBoundary": boundary}
        elif kind == "revert":
            base |= {"type": "revert", "revertFrom": max(0, sequence - 1 - randomness.randrange(6))}
        elif kind == "callback":
            base |= {"type": "agentCallback", "methodName": "m", "argsSummary": ""}
        elif kind == "request":
            state = randomness.choice(["accepted", "denied", "pending"])
            base |= {
                "type": "connectionRequest",
                "state": state,
                "gatekeeperId": sequence,
                "bindingName": name,
            }
        else:
            base |= {"type": "agentNudge", "text": "go on"}
        log.append(base)
    return log


def checkpoint_at(
    log: list[dict[str, Any]], cut: int, previous: CompactionCheckpoint | None = None
) -> CompactionCheckpoint:
    state = build_compaction_state(log, cut, SEED, previous)
    return CompactionCheckpoint(
        chat_bindings=state.chat_bindings,
        next_change_id=state.next_change_id,
        pins=state.pins,
        epoch=state.epoch,
        proposed_change=state.proposed_change,
        chat_id="c",
        compacted_to=cut,
        summary="s",
    )


def assert_same(log: list[dict[str, Any]], checkpoint: CompactionCheckpoint) -> None:
    whole = replay(None, log, SEED)
    short = replay(checkpoint, log[checkpoint.compacted_to :], SEED)
    assert short.state == whole.state
    assert short.change_ids.items() <= whole.change_ids.items()
    assert set(short.change_ids) == {s for s in whole.change_ids if s >= checkpoint.compacted_to}


def possible_cuts(log: list[dict[str, Any]], above: int = 0) -> list[int]:
    cuts = range(above + 1, len(log) + 1)
    return [cut for cut in cuts if protect_retained_references(cut, log[above:], above) == cut]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 30))
def test_every_cut_and_every_second_cut(seed: int, size: int) -> None:
    log = random_log(random.Random(seed), size)
    cuts = possible_cuts(log)
    for cut in cuts:
        first = checkpoint_at(log, cut)
        assert_same(log, first)
        for second in possible_cuts(log, cut):
            assert_same(log, checkpoint_at(log[cut:], second, first))
    protected = [protect_retained_references(cut, log) for cut in range(1, size + 1)]
    assert all(cut is None or cut in cuts for cut in protected), "what it gives can be cut"


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(2, 40))
def test_a_log_compacted_at_any_moments_replays_the_same(seed: int, size: int) -> None:
    """Also where a later revert or merge reaches below a boundary: checkpoints then roll back."""
    randomness = random.Random(seed)
    log = random_log(randomness, size)
    host = LocalHost()
    store = CheckpointStore(host.sql)
    for position, record in enumerate(log):
        store.append_record(record)
        written = log[: position + 1]
        active = store.get_active_compaction("c")
        floor = active.compacted_to if active else 0
        if randomness.random() < 0.3:
            cuts = possible_cuts(written, floor)
            if cuts:
                new = checkpoint_at(written[floor:], randomness.choice(cuts), active)
                store.commit_chat_compaction(new, expected_compacted_to=floor)
        assert store.replay("c", SEED).state == replay(None, written, SEED).state
        active = store.get_active_compaction("c")
        if active is not None:
            tail = store.list_chat_tail("c", active)
            assert all(
                record.revert_from >= active.compacted_to
                for record in tail
                if isinstance(record, RevertMessage)
            )
    assert [record.sequence for record in store.list_records("c")] == list(range(size))
    host.close()


def test_records_keep_every_field_in_storage() -> None:
    host = LocalHost()
    store = CheckpointStore(host.sql)
    for record in random_log(random.Random(5), 60):
        store.append_record(record)
        stored = store.get_record("c", record["sequence"])
        assert stored == AiChatMessage.model_validate(record)
    host.close()


def _edit(text: str, randomness: random.Random) -> list[Any]:
    sections: list[Any] = []
    left = len(text.encode("utf-16-le", "surrogatepass")) // 2
    while left:
        size = randomness.randint(1, left)
        if randomness.random() < 0.5:
            sections.append(size)
        else:
            sections.append([size, *randomness.choice([[], ["x"], ["a", "b"], ["é🙂"]])])
        left -= size
    if randomness.random() < 0.5:
        sections.append([0, "end"])
    return sections


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=30), seed=st.integers(0, 2**32))
def test_composed_edits_do_what_both_do(text: str, seed: int) -> None:
    randomness = random.Random(seed)
    first = _edit(text, randomness)
    middle = apply_edit(text, first)
    second = _edit(middle, randomness)
    assert apply_edit(text, compose_edits(first, second)) == apply_edit(middle, second)


def test_composed_changes_supersede() -> None:
    first = {1: [("a", {"set": "hello"}), ("b", {"edit": [5, [0, "!"]]})]}
    second = {
        1: [("a", {"edit": [5, [0, " you"]]}), ("b", {"remove": True})],
        2: [("c", {"set": ""})],
    }
    both = compose_code_change(first, second)
    files = {(1, "b"): "12345"}
    assert apply_code_change(files, both) == apply_code_change(
        apply_code_change(files, first), second
    )
    with pytest.raises(CodeChangeError, match="removed"):
        compose_code_change({1: [("b", {"remove": True})]}, {1: [("b", {"edit": [1]})]})
    with pytest.raises(CodeChangeError):
        apply_edit("abc", [2])
    with pytest.raises(CodeChangeError):
        compose_edits([[3, "ab"]], [5])
