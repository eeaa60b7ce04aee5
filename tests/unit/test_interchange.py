"""Conversations in other programs' forms."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from palimpsest.errors import InvalidImportError
from palimpsest.interchange import ImportedMessage, read_conversation
from palimpsest.messages import Message


def read(document: Any) -> list[Message]:
    numbers = count(1)
    text = document if isinstance(document, str) else json.dumps(document)
    conversation = read_conversation(text, lambda: f"new-{next(numbers)}")
    return [imported.message for imported in conversation.messages]


def test_openai_tool_results_join_their_calls() -> None:
    messages = read(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}], "name": "Ann"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "a", "function": {"name": "look", "arguments": '{"city": "Rome"}'}},
                    {"id": "b", "function": {"name": "look", "arguments": "{broken"}},
                ],
            },
            {"role": "tool", "tool_call_id": "b", "content": "no such city"},
            {"role": "tool", "tool_call_id": "a", "content": '{"sky": "blue"}'},
            {"role": "assistant", "content": "Blue sky."},
        ]
    )
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "assistant"]
    assert messages[1]["metadata"] == {"name": "Ann"}
    assert messages[2]["parts"] == [
        {
            "type": "tool-look",
            "toolCallId": "a",
            "state": "output-available",
            "input": {"city": "Rome"},
            "output": {"sky": "blue"},
        },
        {
            "type": "tool-look",
            "toolCallId": "b",
            "state": "output-available",
            "input": "{broken",
            "output": "no such city",
        },
    ]


def test_openai_result_without_call_and_call_without_result_are_kept() -> None:
    stray, called = read(
        [
            {"role": "tool", "tool_call_id": "lost", "name": "look", "content": "42"},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f"}}]},
        ]
    )
    assert stray["role"] == "assistant"
    assert stray["parts"][0]["output"] == 42
    assert called["parts"][0]["state"] == "input-available"


def test_openai_images_become_file_parts() -> None:
    (message,) = read(
        [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                    {"type": "input_audio", "input_audio": {"data": "x"}},
                ],
            }
        ]
    )
    image, audio = message["parts"]
    assert image == {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA=="}
    assert audio["type"] == "data-input_audio"


def test_ai_sdk_messages_stay_as_they_are() -> None:
    given = [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "hi"}], "extra": [1]}]
    assert read(given) == given
    assert read({"messages": given}) == given


def test_ai_sdk_version_4_messages_get_parts() -> None:
    (message,) = read(
        [
            {
                "id": "1",
                "role": "assistant",
                "content": "It rains.",
                "reasoning": "look first",
                "toolInvocations": [
                    {
                        "state": "result",
                        "toolCallId": "t",
                        "toolName": "look",
                        "args": {"a": 1},
                        "result": "rain",
                    }
                ],
                "experimental_attachments": [
                    {"name": "a.png", "contentType": "image/png", "url": "https://x.example/a.png"}
                ],
            }
        ]
    )
    assert [part["type"] for part in message["parts"]] == ["reasoning", "tool-look", "text", "file"]
    assert message["parts"][1]["output"] == "rain"
    assert "content" not in message


def test_own_export_keeps_tree_and_overlays() -> None:
    message: Message = {"id": "1", "role": "user", "parts": []}
    lines: list[Any] = [
        {"type": "session", "id": "s", "name": "Trip"},
        {"type": "message", "message": message, "parentId": None},
        {"type": "message", "message": {**message, "id": "2"}, "parentId": "1"},
        {"type": "compaction", "summary": "s", "fromMessageId": "1", "toMessageId": "2"},
    ]
    conversation = read_conversation("\n".join(map(json.dumps, lines)), lambda: "x")
    assert conversation.session["name"] == "Trip"
    assert conversation.messages == [
        ImportedMessage(message, None, True),
        ImportedMessage({**message, "id": "2"}, "1", True),
    ]
    assert conversation.compactions[0]["summary"] == "s"


def test_one_exported_line_is_enough() -> None:
    line: Any = {"type": "message", "message": {"id": "1", "role": "user", "parts": []}}
    assert len(read(json.dumps(line))) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("not json", "line 1 is not JSON"),
        ("5", "expected JSON Lines"),
        ('{"a": 1}', "expected JSON Lines"),
        ('[{"role": "user", "content": "x"}, 5]', "message 1 is not a JSON object"),
        ('[{"content": "x"}]', "message 0 has no role"),
        ('[{"id": "1", "parts": []}]', "message 0: message field 'role'"),
        ('{"type": "session"}\n[1]', "line 2 is not a JSON object"),
        ('{"type": "session"}\n{"type": "odd"}', "line 2: unknown type 'odd'"),
        ('{"type": "session"}\n{"type": "message", "message": {}}', "line 2: message field 'id'"),
        (
            '{"type": "session"}\n{"type": "message", "message": {"id": "compaction_1",'
            ' "role": "user", "parts": []}}',
            "line 2: message id 'compaction_1'",
        ),
    ],
)
def test_unreadable_input_names_the_place(text: str, says: str) -> None:
    with pytest.raises(InvalidImportError, match=says):
        read(text)
