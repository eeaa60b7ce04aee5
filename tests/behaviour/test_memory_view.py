"""What ``GET memory`` shows: the newest messages and summaries, and figures of the whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_rig import Rig

from palimpsest.chat import memory_view as view
from palimpsest.chat.agent import ChatAgent
from palimpsest.messages import text_message
from palimpsest.models.offline import OfflineModel


class Remembering(ChatAgent):
    def model(self) -> Any:
        return OfflineModel()


async def memory_of(host: Any, count: int) -> tuple[Rig, Any]:
    """A started agent and its session, with messages m1 to m``count``."""
    rig = Rig(host, Remembering)
    await rig.start()
    session = rig.agent.session("")
    await session.append_messages(
        [text_message(f"m{number}", "user", f"word {number}") for number in range(1, count + 1)]
    )
    return rig, session


async def read(rig: Rig) -> dict[str, Any]:
    status, memory = await rig.http("GET", "memory")
    assert status == 200
    return memory


async def test_an_empty_session(host: Any) -> None:
    rig, _ = await memory_of(host, 0)
    memory = await read(rig)
    assert memory["timeline"] == memory["overlays"] == memory["checkpoints"] == []
    assert (memory["timelineOffset"], memory["timelineTruncated"]) == (0, False)
    assert memory["stats"]["messages"] == memory["stats"]["bytes"] == 0


async def test_the_figures_are_those_of_the_messages(host: Any) -> None:
    rig, session = await memory_of(host, 30)
    await session.delete_messages(["m4", "m9"])
    await session.update_message(text_message("m12", "user", "longer than it was before, much"))
    await session.append_message(text_message("side", "user", "on another branch"), "m5")
    laid = await session.add_compaction("what was said", "m3", "m20")
    await session.add_compaction("elsewhere", "m2", "side")
    rig.agent.lane("").conversation.show("m30")
    memory = await read(rig)
    stats = await session.get_history_row_stats("m30")
    assert [entry["id"] for entry in memory["timeline"]] == [one.id for one in stats]
    assert memory["timelineOffset"] == 0
    assert memory["stats"]["messages"] == len(stats) == 28
    assert memory["stats"]["bytes"] == sum(one.bytes for one in stats)
    numbers = {one.id: number for number, one in enumerate(stats, start=1)}
    overlay, other = memory["overlays"]
    assert overlay["id"] == laid.id
    assert (overlay["fromNumber"], overlay["toNumber"]) == (numbers["m3"], numbers["m20"])
    covered = stats[numbers["m3"] - 1 : numbers["m20"]]
    assert overlay["tokensBefore"] == sum(one.tokens for one in covered)
    assert overlay["active"]
    assert not other["active"]
    assert other["toNumber"] is other["tokensBefore"] is None
    assert [one["messageId"] for one in memory["checkpoints"]] == ["m20", "side"]


async def test_a_long_conversation_is_shown_by_its_end(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "MAX_TIMELINE", 10)
    rig, session = await memory_of(host, 40)
    await session.add_compaction("the beginning", "m2", "m35")
    memory = await read(rig)
    assert [entry["id"] for entry in memory["timeline"]] == [f"m{i}" for i in range(31, 41)]
    assert (memory["timelineOffset"], memory["timelineTruncated"]) == (30, True)
    assert memory["stats"]["messages"] == 40
    (overlay,) = memory["overlays"]
    assert (overlay["fromNumber"], overlay["toNumber"]) == (2, 35)


async def test_old_summaries_are_few_and_short(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MAX_OVERLAYS", 4)
    rig, session = await memory_of(host, 40)
    kept = await session.add_compaction("kept " * 1_000, "m1", "m3")
    laid = [
        await session.add_compaction(f"{number} " * 1_000, "m5", f"m{number}")
        for number in range(10, 20)
    ]
    memory = await read(rig)
    ids = [overlay["id"] for overlay in memory["overlays"]]
    assert ids == [kept.id, *(one.id for one in laid[-4:])], "those in use, and the newest"
    assert [overlay["active"] for overlay in memory["overlays"]] == [True] + [False] * 3 + [True]
    for overlay in memory["overlays"]:
        assert overlay["summaryTruncated"] is not overlay["active"]
        assert (len(overlay["summary"]) < 700) is overlay["summaryTruncated"]
    _, whole = await rig.http("GET", f"overlays/{laid[-2].id}")
    assert whole == {"id": laid[-2].id, "summary": laid[-2].summary}
    assert (await rig.http("GET", "overlays/nothing"))[0] == 404


async def test_what_is_read_does_not_grow_with_the_conversation(host: Any) -> None:
    rig, session = await memory_of(host, 3_000)
    host.sql.counting = True
    reads: list[int] = []
    for start in (3_001, 9_001):
        before = host.sql.rows_read
        await read(rig)
        reads.append(host.sql.rows_read - before)
        await session.append_messages(
            [text_message(f"m{i}", "user", f"word {i}") for i in range(start, start + 6_000)]
        )
    assert reads[1] < reads[0] * 1.1


async def test_large_payloads_of_jobs_are_left_out(host: Any) -> None:
    rig, _ = await memory_of(host, 1)
    rig.agent.jobs.put(
        id="big", kind="k", at_ms=host.now() + 10**6, payload={"callback": "c", "x": "y" * 9_000}
    )
    memory = await read(rig)
    assert {"callback": "c"} in [job["payload"] for job in memory["schedules"]]
    assert len(json.dumps(memory)) < 5_000
