"""A chat agent that answers as the message says: our side of the differential test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from palimpsest.chat.agent import ChatAgent
from palimpsest.chat.turns import Turn
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import text_of, tool_parts


@durable_object
class Chat(ChatAgent):
    """The same answers as ``chat_peer.mjs`` gives."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[dict[str, Any]]:
        history = await turn.session.get_history(turn.leaf_id)
        start = max(index for index, item in enumerate(history) if item["role"] == "user")
        text = text_of(history[start])
        results = [part for message in history[start:] for part in tool_parts(message)]
        word, _, rest = text.partition(" ")
        if word == "throw":
            raise RuntimeError("a bug")
        yield {"type": "start"}
        yield {"type": "start-step"}
        for part in results:
            if part["state"] == "approval-responded":
                call = part["toolCallId"]
                yield {"type": "tool-output-available", "toolCallId": call, "output": "removed"}
        if results:
            yield {"type": "text-start", "id": "t"}
            yield {"type": "text-delta", "id": "t", "delta": "after"}
            yield {"type": "text-end", "id": "t"}
        elif word == "call":
            for name in rest.split():
                call = f"call-{name}"
                yield {
                    "type": "tool-input-available",
                    "toolCallId": call,
                    "toolName": name,
                    "input": {"path": "x"},
                }
                if name == "remove":
                    yield {
                        "type": "tool-approval-request",
                        "approvalId": "approval",
                        "toolCallId": call,
                    }
            yield {"type": "finish-step"}
            yield {"type": "finish", "finishReason": "tool-calls"}
            return
        else:
            yield {"type": "text-start", "id": "t"}
            for piece in rest.split() if word == "slow" else f"you said {text}".split():
                yield {"type": "text-delta", "id": "t", "delta": f"{piece} "}
                if word == "slow":
                    await asyncio.sleep(0.3)
                if word == "fail":
                    yield {"type": "error", "errorText": "the model is tired"}
                    return
            yield {"type": "text-end", "id": "t"}
        yield {"type": "finish-step"}
        yield {"type": "finish", "finishReason": "stop"}


Default = worker_entrypoint()
