"""The budget-ratio policy's pure functions: the documented numbers for the documented inputs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from palimpsest.compaction.budget_ratio import (
    AiChatMessage,
    ChangeBatch,
    CompactionCheckpoint,
    CompactionProjectionMessage,
    RevertMessage,
    TextMessage,
    build_compaction_state,
    build_summary_prompt,
    chat_change_statuses,
    estimate_projection_tokens,
    find_compaction_boundary,
    find_live_boundary,
    find_protected_from_sequence,
    fold_proposed_changes,
    frame_summary,
    get_model_token_limits,
    is_compaction_turn,
    measure_context_tokens,
    pending_requests,
    process_turn,
    project_chat_messages,
    projection_message_weight,
    protect_retained_reverts,
    should_compact_chat,
    starts_agent_turn,
)
from palimpsest.errors import CompactionError

USER = {"type": "user", "id": 1, "name": "Ada"}
AGENT = {"type": "agent", "id": "model-x", "name": "Agent"}


def record(kind: str, sequence: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "chatId": 7,
        "sequence": sequence,
        "timestamp": sequence,
        "author": USER,
        **fields,
    }


def said(sequence: int, text: str) -> dict[str, Any]:
    return record("message", sequence, message=text)


def step(sequence: int, text: str, calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return record("message", sequence, author=AGENT, message=text, toolCalls=calls or [])


COMPACT = {"id": {"builtin": True, "commandId": "compact"}, "args": ""}


def entry(
    sequence: int | None, size: int = 100, *, can_cut: bool = True
) -> CompactionProjectionMessage:
    message = {"role": "user", "content": "x" * size}
    return CompactionProjectionMessage(message=message, sequence=sequence, can_cut=can_cut)


@pytest.mark.parametrize(
    ("config", "budget", "answer"),
    [
        ({"provider": "cloudflare", "model": "custom"}, 95_232, 32_768),
        ({"provider": "cloudflare", "model": "@cf/moonshotai/kimi-k2.7-code"}, 229_376, 32_768),
        ({"provider": "anthropic", "model": "claude-opus-5"}, 1_000_000, None),
        ({"provider": "anthropic", "model": "unheard-of"}, 128_000, None),
        ({"provider": "openai", "model": "gpt-5.6-sol"}, 922_000, 128_000),
        ({"provider": "ollama", "model": "llama"}, 128_000, None),
    ],
)
def test_model_limits(config: dict[str, Any], budget: int, answer: int | None) -> None:
    limits = get_model_token_limits(config)
    assert (limits.input_budget, limits.max_output_tokens) == (budget, answer)


@pytest.mark.parametrize(
    ("tokens", "budget", "expected"),
    [
        (84_999, 100_000, False),
        (85_000, 100_000, True),
        (108_799, 128_000, False),
        (108_800, 128_000, True),
        (194_969, 229_376, False),
        (194_970, 229_376, True),
        (0, 0, True),
    ],
)
def test_trigger_is_inclusive(tokens: int, budget: int, expected: bool) -> None:
    assert should_compact_chat(tokens, budget) is expected


def test_compaction_turn_is_the_builtin_command_as_newest_record() -> None:
    assert not is_compaction_turn([])
    assert is_compaction_turn([said(0, "hi"), record("slashCommand", 1, request=COMPACT)])
    assert not is_compaction_turn([record("slashCommand", 0, request=COMPACT), said(1, "hi")])
    foreign = {"id": {"gatekeeperId": 3, "commandId": "compact"}, "args": ""}
    assert not is_compaction_turn([record("slashCommand", 0, request=foreign)])
    almost = {"id": {"builtin": 1, "commandId": "compact"}, "args": ""}
    assert not is_compaction_turn([record("slashCommand", 0, request=almost)])
    other = {"id": {"builtin": True, "commandId": "help"}, "args": ""}
    assert not is_compaction_turn([record("slashCommand", 0, request=other)])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (said(0, "hi"), True),
        (record("message", 0, author={"type": "gadget", "id": 2, "name": "g"}), True),
        (step(0, "hello"), False),
        (record("agentCallback", 0, methodName="m", argsSummary="()"), True),
        (record("agentNudge", 0, text="go on"), True),
        (record("connectionRequest", 0, state="accepted"), True),
        (record("connectionRequest", 0, state="pending"), False),
        (record("connectionRequest", 0, state="denied"), False),
        (record("changes", 0), False),
        (record("merge", 0, mergeThrough=0), False),
        (record("revert", 0, revertFrom=0), False),
        (record("slashCommand", 0, request=COMPACT), False),
        (record("action", 0, actionId=1), False),
        (record("useGadget", 0), False),
        (record("error", 0, message="x"), False),
    ],
)
def test_what_starts_a_turn(message: dict[str, Any], expected: bool) -> None:
    assert starts_agent_turn(message) is expected


def test_weight_is_the_length_of_the_json_in_utf16() -> None:
    assert projection_message_weight({"role": "user", "content": "", "timestamp": 0}) == 42
    plain = {"role": "user", "content": "a"}
    assert projection_message_weight(plain) == len('{"role":"user","content":"a"}')
    assert projection_message_weight({"role": "user", "content": "\n"}) == 30
    assert projection_message_weight({"role": "user", "content": "é"}) == 29
    assert projection_message_weight({"role": "user", "content": "🙂"}) == 30
    # A lone surrogate is an escape of six characters in JavaScript's JSON.
    assert projection_message_weight({"role": "user", "content": "\ud800"}) == 34
    assert projection_message_weight({"n": 1.0}) == len('{"n":1}')


def test_long_data_strings_are_masked_wherever_they_stand() -> None:
    short, long = "x" * 64, "x" * 65
    assert projection_message_weight({"data": short}) == 64 + 11
    assert projection_message_weight({"data": long}) == 8 + 11
    nested = {"content": [{"arguments": {"data": "y" * 4_000}}]}
    bare = {"content": [{"arguments": {"data": ""}}]}
    assert projection_message_weight(nested) == projection_message_weight(bare) + 8
    assert projection_message_weight({"text": long}) == 65 + 11


def test_estimate_is_a_quarter_of_the_weight_rounded_up() -> None:
    assert estimate_projection_tokens([]) == 0
    empty = CompactionProjectionMessage(message={"role": "user", "content": "", "timestamp": 0})
    assert estimate_projection_tokens([empty]) == 11
    assert estimate_projection_tokens([empty, empty]) == 21


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (25_000, 9),
        (30_000, 9),
        (35_000, 1),
        (50_000, 4),
        (85_000, 6),
        (100_000, 7),
        (150_000, 8),
        (300_000, 9),
    ],
)
def test_boundary_of_ten_equal_records(tokens: int, expected: int) -> None:
    projection = [entry(sequence) for sequence in range(10)]
    assert find_compaction_boundary(projection, 100_000, tokens) == expected


def test_boundary_of_degenerate_input() -> None:
    assert find_compaction_boundary([], 100_000, 50_000) is None
    assert find_compaction_boundary([entry(None, can_cut=False)], 100_000, 50_000) is None
    assert find_compaction_boundary([entry(0)], 100_000, 50_000) is None
    assert find_compaction_boundary([entry(5)], 100_000, 50_000) == 5
    ten = [entry(sequence) for sequence in range(10)]
    assert find_compaction_boundary(ten, 100_000, 0) == 9
    assert find_compaction_boundary(ten, 100_000, math.nan) == 9
    assert find_compaction_boundary(ten, 0, 50_000) == 9
    assert find_compaction_boundary(ten, -5, 50_000) == 9
    no_cuts = [entry(sequence, can_cut=False) for sequence in range(10)]
    assert find_compaction_boundary(no_cuts, 100_000, 50_000) is None


def test_boundary_respects_protection_and_advances_strictly() -> None:
    ten = [entry(sequence) for sequence in range(10)]
    assert find_compaction_boundary(ten, 100_000, 85_000, 0, 3) == 3
    assert find_compaction_boundary(ten, 100_000, 85_000, 5, 4) is None
    assert find_compaction_boundary(ten, 100_000, 85_000, 6) == 9
    assert find_compaction_boundary(ten, 100_000, 85_000, 9) is None
    sparse = [entry(0), entry(10), entry(20)]
    assert find_compaction_boundary(sparse, 100_000, 500_000, 0, 7) == 7


def test_boundary_never_splits_a_record() -> None:
    # One step with two tool results: only its first message may begin the tail.
    projection = [
        entry(0),
        entry(1, 1_000),
        entry(2, 10),
        entry(2, 10, can_cut=False),
        entry(2, 4_000, can_cut=False),
    ]
    assert find_compaction_boundary(projection, 1_000, 1_300) == 2


def test_protected_from_the_turn_of_the_oldest_pending_request() -> None:
    log = [
        said(3, "connect it"),
        step(4, "asking"),
        record("connectionRequest", 5, state="pending"),
        said(6, "later"),
        record("connectionRequest", 7, state="pending"),
    ]
    assert find_protected_from_sequence(log) == 3
    assert find_protected_from_sequence(log[1:]) == 4
    assert find_protected_from_sequence([said(0, "a"), step(1, "b")]) is None
    assert find_protected_from_sequence([]) is None


def test_retained_reverts_lower_the_boundary_or_refuse() -> None:
    log = [record("changes", s) for s in range(8)]
    assert protect_retained_reverts(None, log) is None
    assert protect_retained_reverts(5, log) == 5
    assert protect_retained_reverts(5, [*log, record("revert", 8, revertFrom=3)]) == 3
    assert protect_retained_reverts(5, [*log, record("revert", 8, revertFrom=5)]) == 5
    assert protect_retained_reverts(5, [*log, record("revert", 8, revertFrom=0)]) is None
    assert protect_retained_reverts(5, [*log, record("revert", 8, revertFrom=2)], 2) is None
    # The lowered cut retains an older revert, which lowers it again.
    chain = [
        *log[:4],
        record("revert", 4, revertFrom=1),
        *log[5:],
        record("revert", 8, revertFrom=4),
    ]
    assert protect_retained_reverts(6, chain) == 1
    below = [record("revert", 2, revertFrom=0), *log[3:]]
    assert protect_retained_reverts(5, below) == 5


def test_proposed_changes_fold_in_log_order() -> None:
    a, b, c = ({1: [("f", {"set": text})]} for text in "abc")
    log = [
        record("changes", 0, change=a),
        record("changes", 1, change=b),
        record("merge", 2, mergeThrough=0, commits=[]),
        record("changes", 3, change=c),
        record("changes", 4, conversionBoundary=True),
        record("changes", 5, createdGadgets=[{"gadgetId": 9, "title": "t", "bindingName": "G"}]),
    ]
    assert [batch.sequence for batch in fold_proposed_changes(log)] == [1, 3, 5]
    reverted = [*log, record("revert", 6, revertFrom=3)]
    assert [batch.sequence for batch in fold_proposed_changes(reverted)] == [1]
    seed = [ChangeBatch(sequence=-1, change=a)]
    assert [batch.sequence for batch in fold_proposed_changes([], seed)] == [-1]
    assert fold_proposed_changes([record("merge", 9, mergeThrough=3)], seed) == []
    kept = fold_proposed_changes([record("revert", 9, revertFrom=3)], seed)
    assert [batch.sequence for batch in kept] == [-1]


def test_the_first_mark_of_a_record_wins() -> None:
    log = [
        record("changes", 0),
        said(1, "x"),
        record("changes", 2),
        record("merge", 3, mergeThrough=1),
        record("changes", 4),
        record("revert", 5, revertFrom=0),
    ]
    assert chat_change_statuses(log) == {
        0: "merged",
        1: "merged",
        2: "reverted",
        3: "reverted",
        4: "reverted",
    }
    assert chat_change_statuses(log[4:]) == {4: "reverted"}


def test_bindings_fold_in_order_and_continue_from_a_checkpoint() -> None:
    log = [
        record(
            "message",
            0,
            message="@x",
            capsules=[
                {
                    "position": 0,
                    "length": 2,
                    "gatekeeperId": 5,
                    "description": "",
                    "bindingName": "X",
                },
            ],
        ),
        record("agentCallback", 1, methodName="m", argsSummary=""),
        step(
            2,
            "",
            [
                {
                    "toolCallId": "c1",
                    "toolName": "createGadget",
                    "input": {"bindingName": "X"},
                    "output": {"gadgetId": 8},
                },
                {
                    "toolCallId": "c2",
                    "toolName": "createGadget",
                    "input": {"bindingName": "Y"},
                    "error": "no",
                },
            ],
        ),
        record("connectionRequest", 3, state="accepted", gatekeeperId=6, bindingName="C"),
        record(
            "changes",
            4,
            createdGadgets=[
                {"gadgetId": 7, "title": "", "bindingName": "X"},
                {"gadgetId": 7, "title": "", "bindingName": "G"},
            ],
        ),
        record("revert", 5, revertFrom=4),
        record("agentCallback", 6, methodName="m", argsSummary=""),
    ]
    seed = {"S": {"type": "workpiece", "id": 1}}
    whole = build_compaction_state(log, 7, seed)
    names = {name: bound.model_dump() for name, bound in whole.chat_bindings}
    assert names == {
        "S": {"type": "workpiece", "id": 1},
        "X": {"type": "workpiece", "id": 8},
        "PARAMS_1": {"type": "value", "message_sequence": 1},
        "C": {"type": "workpiece", "id": 6},
        "G": {"type": "workpiece", "id": 7},
        "PARAMS_2": {"type": "value", "message_sequence": 6},
    }
    assert whole.next_change_id == 1
    first = build_compaction_state(log, 3, seed)
    second = build_compaction_state(log[3:], 7, {"unused": {"type": "workpiece", "id": 0}}, first)
    assert second == whole


def test_pins_and_epoch() -> None:
    def pin(gadget: int, commit: str) -> dict[str, Any]:
        return {"gadgetId": gadget, "baseCommit": commit}

    log = [
        record("changes", 0, pins=[pin(1, "a")]),
        record("merge", 1, mergeThrough=0, epochBoundary=True),
        record("changes", 2, pins=[pin(1, "b"), pin(2, "c")]),
        record("changes", 3, pins=[pin(2, "d")]),
        record("changes", 4, pins=[pin(3, "e")]),
        record("revert", 5, revertFrom=4),
    ]
    state = build_compaction_state(log, 6)
    assert state.epoch == 1
    assert [(p.gadget_id, p.base_commit) for p in state.pins or []] == [(1, "b"), (2, "d")]
    assert build_compaction_state(log, 2).pins is None
    boundary = record("changes", 6, conversionBoundary=True, pins=[pin(4, "f")])
    converted = build_compaction_state([*log, boundary], 7)
    assert converted.epoch == 6
    assert [p.gadget_id for p in converted.pins or []] == [4]


def test_proposed_change_is_composed_and_carried() -> None:
    log = [
        record("changes", 0, change={1: [("f", {"set": "hello"})]}),
        record("changes", 1, change={1: [("f", {"edit": [5, [0, "!"]]})]}),
        record("changes", 2, change={1: [("g", {"remove": True})]}),
    ]
    first = build_compaction_state(log[:2], 2)
    assert first.proposed_change == {1: [("f", {"set": "hello!"})]}
    both = build_compaction_state(log[2:], 3, (), first)
    assert both.proposed_change == {1: [("f", {"set": "hello!"}), ("g", {"remove": True})]}
    merged = build_compaction_state([record("merge", 3, mergeThrough=2)], 4, (), both)
    assert merged.proposed_change is None


def test_summary_prompt_is_text_only_and_joins_roles() -> None:
    log = [
        said(0, "do it"),
        step(
            1,
            "calling",
            [
                {
                    "toolCallId": "c1",
                    "toolName": "readFile",
                    "input": {"path": "a.py"},
                    "output": "x=1",
                },
                {"toolCallId": "c2", "toolName": "writeFile", "input": {}, "error": "disk full"},
            ],
        ),
        said(2, ""),
        said(3, "kept"),
    ]
    checkpoint = CompactionCheckpoint(chat_id=7, compacted_to=0, summary="earlier work")
    prompt = build_summary_prompt(project_chat_messages(log, checkpoint), 3, {"id": "m"})
    assert [message["role"] for message in prompt] == ["user", "assistant", "user"]
    assert "earlier work" in prompt[0]["content"]
    assert prompt[0]["content"].endswith("do it")
    text = prompt[1]["content"][0]["text"]
    assert '"path":"a.py"' in text
    assert len(prompt[1]["content"]) == 1
    assert "x=1" in prompt[2]["content"]
    assert "error" in prompt[2]["content"]
    assert "disk full" in prompt[2]["content"]
    assert "kept" not in str(prompt)
    only_summary = build_summary_prompt(project_chat_messages(log, checkpoint), 0, "m")
    assert len(only_summary) == 1
    image = CompactionProjectionMessage(
        message={
            "role": "user",
            "content": [{"type": "image", "mimeType": "image/png", "data": "A" * 500}],
        },
        sequence=0,
        can_cut=True,
    )
    (shown,) = build_summary_prompt([image], 1, "m")
    assert "image/png" in shown["content"]
    assert "AAAA" not in shown["content"]
    empty_result = CompactionProjectionMessage(
        message={
            "role": "toolResult",
            "toolName": "t",
            "toolCallId": "c",
            "content": [],
            "isError": False,
        },
        sequence=0,
        can_cut=True,
    )
    assert build_summary_prompt([empty_result], 1, "m")[0]["content"] == "[tool t result]"


def test_context_tokens_use_the_measured_figure_and_what_came_after() -> None:
    log = [
        said(0, "a"),
        step(1, "b", [{"toolCallId": "c", "toolName": "t", "input": {}, "output": "z" * 400}]),
        said(2, "c" * 40),
    ]
    projection = project_chat_messages(log)
    added = [e for e in projection if e.sequence == 2 or e.message["role"] == "toolResult"]
    measured = measure_context_tokens(projection, log, 5_000, "ignored")
    assert measured == 5_000 + estimate_projection_tokens(added)
    estimated = measure_context_tokens(projection, log, 0, "s" * 9)
    assert estimated == estimate_projection_tokens(projection) + 3
    without_steps = measure_context_tokens(projection[:1], log[:1], 5_000, "")
    assert without_steps == estimate_projection_tokens(projection[:1])


def test_projection_marks_the_first_message_of_each_record() -> None:
    log = [
        said(0, "a"),
        step(1, "b", [{"toolCallId": "c", "toolName": "t", "input": {}, "output": 1}]),
        step(2, ""),
        record("error", 3, message="x"),
        record("revert", 4, revertFrom=3),
    ]
    shape = [(e.sequence, e.can_cut, e.message["role"]) for e in project_chat_messages(log)]
    assert shape == [
        (0, True, "user"),
        (1, True, "assistant"),
        (1, False, "toolResult"),
        (4, True, "assistant"),
        (4, False, "toolResult"),
    ]


def test_a_summary_cannot_escape_its_frame() -> None:
    text = frame_summary("a </conversation-summary> b < / CONVERSATION_SUMMARY > c <transcript>")
    assert text.lower().count("conversation-summary") == 2
    assert "transcript" not in text


def test_records_accept_both_forms_and_refuse_unknown_types() -> None:
    made = AiChatMessage(**record("revert", 3, revertFrom=1))
    assert isinstance(made, RevertMessage)
    assert made.revert_from == 1
    parsed = AiChatMessage.model_validate(step(1, "hi", [{"toolCallId": "c", "toolName": "t"}]))
    assert isinstance(parsed, TextMessage)
    assert parsed.tool_calls[0].tool_call_id == "c"
    assert TextMessage(chat_id=1, sequence=0, message="x").chat_id == 1
    for wrong in (
        {"type": "nothing", "sequence": 0},
        {"sequence": 0},
        {"type": "merge", "sequence": 0},
        {"type": "message", "sequence": -1},
    ):
        with pytest.raises(ValidationError):
            AiChatMessage.model_validate(wrong)


def test_live_boundary_prefers_turn_starts_and_keeps_turns() -> None:
    log: list[dict[str, Any]] = []
    for turn in range(10):
        log.append(said(turn * 3, "q" * 400))
        log.append(step(turn * 3 + 1, "a" * 400))
        log.append(step(turn * 3 + 2, "b" * 400))
    projection = project_chat_messages(log)
    for tokens in (20_000, 29_000, 31_000, 60_000, 90_000, 400_000):
        cut = find_live_boundary(projection, log, 100_000, tokens)
        assert cut is not None
        assert cut % 3 == 0, "the tail begins with a turn"
        assert cut <= 24, "two whole turns stay"


def test_live_boundary_goes_past_a_blocking_revert() -> None:
    log = [
        said(0, "a" * 400),
        record("changes", 1, change={1: [("f", {"set": "x"})]}),
        record("revert", 2, revertFrom=0),
        said(3, "b" * 400),
        step(4, "c" * 400),
        said(5, "d" * 400),
        step(6, "e" * 400),
    ]
    projection = project_chat_messages(log)
    assert find_live_boundary(projection, log, 100_000, 300_000) == 3
    assert protect_retained_reverts(1, log) is None


def test_live_boundary_carries_pending_requests() -> None:
    log = [said(0, "a"), record("connectionRequest", 1, state="pending")]
    log += [said(s, "x" * 400) for s in range(2, 12)]
    projection = project_chat_messages(log)
    cut = find_live_boundary(projection, log, 1_000, 2_000)
    assert cut is not None
    assert cut > 1
    assert pending_requests(log, cut) == [1]


@pytest.mark.parametrize("budget", [0, -1])
def test_live_boundary_refuses_a_budget_of_nothing(budget: int) -> None:
    log = [said(0, "a"), said(1, "b")]
    with pytest.raises(ValueError, match="above 0"):
        find_live_boundary(project_chat_messages(log), log, budget, 10)


def long_log(size: int = 40) -> list[dict[str, Any]]:
    log: list[dict[str, Any]] = []
    for sequence in range(0, size, 2):
        log.append(
            said(sequence, f"Please set the port of server-{sequence} to {8000 + sequence}.")
        )
        log.append(step(sequence + 1, f"Done: server-{sequence} listens on {8000 + sequence}."))
    return log


async def test_a_turn_below_the_trigger_is_left_alone() -> None:
    log = long_log()
    result = await process_turn(log, 500, {"inputBudget": 1_000}, None)
    assert result.status == "skipped"
    assert [r.sequence for r in result.continue_with] == list(range(40))
    assert result.checkpoint is None


async def test_a_turn_at_the_trigger_is_compacted_without_a_model() -> None:
    log = long_log()
    result = await process_turn(log, 900, {"inputBudget": 1_000}, None)
    assert result.status == "compacted"
    assert result.checkpoint is not None
    cut = result.checkpoint.compacted_to
    assert [r.sequence for r in result.continue_with[1:]] == list(range(cut, 40))
    first = result.continue_with[0]
    assert isinstance(first, TextMessage)
    assert result.checkpoint.summary in first.message
    again = await process_turn(result.continue_with, 900, {"inputBudget": 1_000}, result.checkpoint)
    assert again.status == "compacted"
    assert again.checkpoint is not None
    assert again.checkpoint.compacted_to > cut


async def test_a_failing_summarizer_leaves_an_automatic_turn_as_it_was() -> None:
    def broken(prompt: Any) -> str:
        raise TimeoutError("no answer")

    log = long_log()
    result = await process_turn(log, 900, {"inputBudget": 1_000}, None, summarize=broken)
    assert result.status == "failed"
    assert isinstance(result.error, TimeoutError)
    assert len(result.continue_with) == 40
    asked = [*log, record("slashCommand", 40, request=COMPACT)]
    with pytest.raises(CompactionError, match="no answer"):
        await process_turn(asked, 10, {"inputBudget": 1_000}, None, summarize=broken)


async def test_compact_without_anything_to_cut_calls_no_summarizer() -> None:
    def never(prompt: Any) -> str:
        raise AssertionError("called")

    log = [record("slashCommand", 0, request=COMPACT)]
    result = await process_turn(log, 10, {"inputBudget": 1_000}, None, summarize=never)
    assert result.status == "nothing"


async def test_the_request_follows_the_prompt_given_to_a_model() -> None:
    seen: list[Any] = []

    async def summarize(prompt: Any) -> str:
        seen.extend(prompt)
        return "## Goal\nports are set"

    result = await process_turn(long_log(), 900, {"inputBudget": 1_000}, None, summarize=summarize)
    assert result.status == "compacted"
    assert seen[-1]["role"] == "user"
    assert "Write the hand-off now" in seen[-1]["content"]
