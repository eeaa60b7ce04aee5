"""Logs and checkpoints in storage: paging, rollback, compare-and-set, on both hosts."""

from __future__ import annotations

from typing import Any

import pytest

from palimpsest.compaction.budget_ratio import (
    CompactionCheckpoint,
    build_compaction_state,
    checkpoint_is_current,
)
from palimpsest.store.checkpoints import CheckpointStore, LogConflictError


def said(sequence: int, text: str = "x") -> dict[str, Any]:
    return {"type": "message", "chatId": "c", "sequence": sequence, "message": text}


def checkpoint_at(
    log: list[dict[str, Any]],
    cut: int,
    previous: CompactionCheckpoint | None = None,
    **fields: Any,
) -> CompactionCheckpoint:
    state = build_compaction_state(log, cut, {}, previous)
    known = {name: getattr(state, name) for name in type(state).model_fields}
    return CompactionCheckpoint.model_validate(
        {**known, "chat_id": "c", "compacted_to": cut, "summary": f"to {cut}", **fields}
    )


def opened(host: Any, log: list[dict[str, Any]]) -> CheckpointStore:
    store = CheckpointStore(host.sql)
    for record in log:
        store.append_record(record)
    return store


async def test_history_is_paged_by_checkpoint(host: Any) -> None:
    log = [said(sequence) for sequence in range(12)]
    store = opened(host, log)
    for cut in (4, 9):
        active = store.get_active_compaction("c")
        start = active.compacted_to if active else 0
        store.commit_chat_compaction(
            checkpoint_at(log[start:], cut, active),
            expected_compacted_to=start,
            expected_next_sequence=12,
        )
    pages: list[tuple[list[int], str | None]] = []
    page = store.get_chat_history("c")
    while True:
        summary = page.compacted.summary if page.compacted else None
        pages.append(([message.sequence for message in page.messages], summary))
        if page.compacted is None:
            break
        page = store.get_chat_history("c", page.compacted.to)
    assert pages == [([9, 10, 11], "to 9"), ([4, 5, 6, 7, 8], "to 4"), ([0, 1, 2, 3], None)]
    assert store.get_chat_history("c", 0).messages == []
    record = store.get_record("c", 2)
    assert record is not None
    assert record.sequence == 2


async def test_a_revert_across_a_boundary_rolls_checkpoints_back(host: Any) -> None:
    log: list[dict[str, Any]] = [
        {"type": "changes", "chatId": "c", "sequence": s, "change": {"1": [["f", {"set": str(s)}]]}}
        for s in range(10)
    ]
    store = opened(host, log)
    for cut in (3, 6, 8):
        active = store.get_active_compaction("c")
        start = active.compacted_to if active else 0
        store.commit_chat_compaction(checkpoint_at(log[start:], cut, active))
    store.record_total_tokens("c", 5_000)
    store.append_record({"type": "revert", "chatId": "c", "sequence": 10, "revertFrom": 6})
    active = store.get_active_compaction("c")
    assert active is not None
    assert active.compacted_to == 6
    assert store.total_tokens("c") == 0
    assert [c.compacted_to for c in store.list_checkpoints("c")] == [3, 6]
    assert checkpoint_is_current(6, store.list_chat_tail("c", active))
    assert store.replay("c").state.proposed_change == {"1": [("f", {"set": "5"})]}
    store.append_record({"type": "revert", "chatId": "c", "sequence": 11, "revertFrom": 0})
    assert store.get_active_compaction("c") is None
    assert store.list_checkpoints("c") == []
    assert store.replay("c").state.proposed_change is None


async def test_a_request_carried_by_a_checkpoint_binds_when_it_is_accepted(host: Any) -> None:
    request: dict[str, Any] = {
        "type": "connectionRequest",
        "chatId": "c",
        "sequence": 1,
        "state": "pending",
    }
    log = [said(0, "connect"), request, *(said(s, "x" * 400) for s in range(2, 12))]
    store = opened(host, log)
    boundary, carried = store.find_boundary("c", 1_000)
    assert boundary is not None
    assert boundary > 1
    assert carried == [1]
    store.commit_chat_compaction(checkpoint_at(log, boundary, carried_requests=carried))
    accepted = {**request, "state": "accepted", "gatekeeperId": 9, "bindingName": "DB"}
    store.replace_record(accepted)
    assert dict(store.replay("c").state.chat_bindings)["DB"].model_dump()["id"] == 9


async def test_commits_are_compared_with_what_is_stored(host: Any) -> None:
    log = [said(sequence) for sequence in range(6)]
    store = opened(host, log)
    first = checkpoint_at(log, 3)
    with pytest.raises(LogConflictError, match="boundary"):
        store.commit_chat_compaction(first, expected_compacted_to=1)
    with pytest.raises(LogConflictError, match="grown"):
        store.commit_chat_compaction(first, expected_next_sequence=5)
    store.commit_chat_compaction(first)
    for cut in (2, 3, 7):
        with pytest.raises(LogConflictError, match="between"):
            store.commit_chat_compaction(checkpoint_at(log, cut))
    with pytest.raises(LogConflictError, match="next sequence"):
        store.append_record(said(9))
    with pytest.raises(LogConflictError, match="no such record"):
        store.replace_record({"type": "merge", "chatId": "c", "sequence": 2, "mergeThrough": 0})
    assert [c.compacted_to for c in store.list_checkpoints("c")] == [3]
    store.delete_chat("c")
    assert store.next_sequence("c") == 0
    assert store.list_checkpoints("c") == []


async def test_a_request_is_committed_once(host: Any) -> None:
    log = [said(sequence) for sequence in range(6)]
    store = opened(host, log)
    store.commit_chat_compaction(checkpoint_at(log, 3, requested_by_sequence=5))
    active = store.get_active_compaction("c")
    store.commit_chat_compaction(checkpoint_at(log[3:], 5, active, requested_by_sequence=5))
    assert [c.compacted_to for c in store.list_checkpoints("c")] == [3]
    found = store.find_request("c", 5)
    assert found is not None
    assert found.compacted_to == 3


async def test_chats_survive_a_restart_and_do_not_mix(host: Any) -> None:
    store = opened(host, [said(sequence) for sequence in range(4)])
    store.append_record({**said(0), "chatId": 7})
    store.commit_chat_compaction(checkpoint_at([said(s) for s in range(4)], 2))
    again = CheckpointStore(host.restarted().sql)
    assert [record.sequence for record in again.list_records("c")] == [0, 1, 2, 3]
    assert again.next_sequence(7) == 1
    assert again.next_sequence("7") == 1, "a number and its text are the same chat"
    assert again.get_active_compaction(7) is None
    active = again.get_active_compaction("c")
    assert active is not None
    assert active.summary == "to 2"
