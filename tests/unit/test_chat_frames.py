"""The protocol's frames: parsed with clear refusals, built as clients read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palimpsest.chat import frames
from palimpsest.chat.frames import (
    CancelRequest,
    ChatRequest,
    ClearRequest,
    FrameError,
    ResponseFrames,
    ResumeRequest,
    SetMessages,
    ToolApproval,
    ToolResult,
    parse_client_frame,
)


def request(body: Any, **init: Any) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(body)
    settings = {"method": "POST", "body": text, **init}
    return {"type": "cf_agent_use_chat_request", "id": "r", "init": settings}


def test_a_chat_request_is_taken_apart() -> None:
    parsed = parse_client_frame(
        request(
            {
                "messages": [{"id": "u"}],
                "trigger": "regenerate-message",
                "clientTools": [{"name": "t"}],
                "mood": 1,
            }
        )
    )
    assert parsed == ChatRequest(
        "r", [{"id": "u"}], "regenerate-message", [{"name": "t"}], {"mood": 1}
    )
    assert parse_client_frame(request({"messages": []}, method="GET")) is None


def test_the_other_frames_are_taken_apart() -> None:
    assert parse_client_frame({"type": "cf_agent_chat_clear"}) == ClearRequest()
    assert parse_client_frame({"type": "cf_agent_chat_request_cancel", "id": "r"}) == (
        CancelRequest("r")
    )
    assert parse_client_frame({"type": "cf_agent_stream_resume_request"}) == ResumeRequest(None)
    assert parse_client_frame({"type": "cf_agent_chat_messages", "messages": []}) == SetMessages([])
    assert parse_client_frame({"type": "rpc"}) is None
    assert parse_client_frame({"type": None}) is None
    result = {"type": "cf_agent_tool_result", "toolCallId": "c", "toolName": "t", "output": [1]}
    assert parse_client_frame(result) == ToolResult(
        "c", "t", "output-available", [1], None, False, []
    )
    approval = {"type": "cf_agent_tool_approval", "toolCallId": "c", "approved": False}
    assert parse_client_frame({**approval, "autoContinue": True, "reason": "no"}) == (
        ToolApproval("c", False, True, "no")
    )


@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        ({"type": "cf_agent_use_chat_request"}, None),
        ({"type": "cf_agent_use_chat_request", "id": 5}, None),
        ({"type": "cf_agent_use_chat_request", "id": "x" * 257}, None),
        ({"type": "cf_agent_use_chat_request", "id": "\ud800"}, None),
        ({"type": "cf_agent_use_chat_request", "id": "r"}, "r"),
        (request("{"), "r"),
        (request("[]"), "r"),
        (request("[" * 100_000), "r"),
        (request({}), "r"),
        (request({"messages": {}}), "r"),
        (request({"messages": [1]}), "r"),
        (request({"messages": [{"id": 1}]}), "r"),
        (request({"messages": [{"id": "\ud800"}]}), "r"),
        (request({"messages": [], "trigger": "other"}), "r"),
        (request({"messages": [], "clientTools": {}}), "r"),
        (request({"messages": [], "clientTools": [{}]}), "r"),
        ({**request({}), "init": {"method": "POST", "body": None}}, "r"),
        ({"type": "cf_agent_chat_request_cancel"}, None),
        ({"type": "cf_agent_chat_messages"}, None),
        ({"type": "cf_agent_stream_resume_ack", "id": ""}, None),
        ({"type": "cf_agent_stream_resume_request", "probeId": 1}, None),
        ({"type": "cf_agent_tool_result"}, None),
        ({"type": "cf_agent_tool_result", "toolCallId": "c", "state": "odd"}, None),
        ({"type": "cf_agent_tool_result", "toolCallId": "c", "errorText": 1}, None),
        ({"type": "cf_agent_tool_approval", "toolCallId": "c"}, None),
    ],
)
def test_a_wrong_field_is_named(frame: dict[str, Any], request_id: str | None) -> None:
    with pytest.raises(FrameError) as caught:
        parse_client_frame(frame)
    assert caught.value.request_id == request_id
    assert str(caught.value)


@given(st.text())
def test_any_text_survives_the_two_layers_of_json(text: str) -> None:
    for chunk in (
        {"type": "text-delta", "id": text, "delta": text},
        {"type": "reasoning-delta", "id": "r", "delta": text, "providerMetadata": {"x": text}},
    ):
        body = frames.encode_chunk(chunk)
        assert json.loads(body) == chunk
        frame = ResponseFrames(text or "r").chunk(body, 7)
        frame.encode()  # UTF-8 carries it
        assert json.loads(json.loads(frame)["body"]) == chunk
        assert json.loads(frame)["seq"] == 7


def test_lone_surrogates_survive() -> None:
    for text in ("\ud800", "a\udfffb", "\U0001f600\ud83d"):
        body = frames.encode_chunk({"type": "text-delta", "id": "t", "delta": text})
        frame = ResponseFrames("r").chunk(body, 0)
        assert frame.isascii() or frame.encode()
        assert json.loads(json.loads(frame)["body"])["delta"] == text


def test_response_frames_have_the_fields_that_clients_read() -> None:
    plain, continued = ResponseFrames("r"), ResponseFrames("r", continuation=True)
    kind = {"type": "cf_agent_use_chat_response", "id": "r"}
    assert json.loads(plain.chunk("{}", 0)) == {**kind, "body": "{}", "done": False, "seq": 0}
    assert json.loads(continued.replayed("{}", 3)) == {
        **kind,
        "body": "{}",
        "done": False,
        "replay": True,
        "seq": 3,
        "continuation": True,
    }
    assert json.loads(plain.replay_complete()) == {
        **kind,
        "body": "",
        "done": False,
        "replay": True,
        "replayComplete": True,
    }
    assert json.loads(plain.done("aborted", ["u"], replay=True)) == {
        **kind,
        "body": "",
        "done": True,
        "outcome": "aborted",
        "messageIds": ["u"],
        "replay": True,
    }
    assert json.loads(continued.error('a "b"')) == {
        **kind,
        "body": 'a "b"',
        "error": True,
        "done": True,
        "outcome": "error",
        "continuation": True,
    }
    assert json.loads(frames.chat_messages(['{"id":"a"}'], connect=True)) == {
        "type": "cf_agent_chat_messages",
        "messages": [{"id": "a"}],
        "connect": True,
    }
