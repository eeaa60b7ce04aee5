"""A model provider for tests: speaks each provider's stream format over real HTTP, with faults.

A test makes itself a *run* by posting a script, then points an adapter at the run's address, and
afterwards reads what the server received. A script is a list of steps, one per request; the last
one repeats. Fields of a step, all optional:

``text``, ``reasoning``, ``calls`` (``[{"id", "name", "arguments": "<text>"}]``), ``usage``
(``[input, output]`` or null), ``finish``     what the model answers
``status``, ``headers``, ``body``             an error status with its body
``raw``, ``content_type``                     literal bytes of the answer's body, with status 200
``cut``                                       close the connection after so many events
``unfinished``                                end the stream properly after so many events
``delay``                                     seconds before each event
``silent``                                    seconds before the headers
A script may also hold ``max_tokens``: larger requests, counted with the o200k vocabulary, are
refused as providers refuse them.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from tests.support.o200k import count_o200k

Json = dict[str, Any]
_WORDS_PER_EVENT = 3


@dataclass(slots=True)
class Run:
    """One test's script and what it received."""

    steps: list[Json]
    max_tokens: int | None
    requests: list[Json] = field(default_factory=lambda: list[Json]())


class ModelServer:
    """The server, in a thread of its own."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the model server did not start")
        return self

    def __exit__(self, *details: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1"))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _version = head[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip()
            for name, _colon, value in (line.partition(":") for line in head[1:])
        }
        body = await _read_body(reader, headers)
        _slash, name, *rest = path.split("/")
        if rest == ["script"] and method == "POST":
            script = json.loads(body)
            self._runs[name] = Run(script["steps"], script.get("max_tokens"))
            await _send_json(writer, 200, {})
        elif rest == ["log"]:
            await _send_json(writer, 200, {"requests": self._runs[name].requests})
        elif rest == ["echo"]:
            answer = {"method": method, "headers": headers, "body": body.decode()}
            await _send_json(writer, 200, answer)
        elif name in self._runs:
            watcher = asyncio.create_task(reader.read(1))
            try:
                await self._play(self._runs[name], "/".join(rest), headers, body, writer, watcher)
            finally:
                watcher.cancel()
        else:
            await _send_json(writer, 404, {"error": {"message": f"unknown address {path}"}})

    async def _play(
        self,
        run: Run,
        path: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
        watcher: asyncio.Task[bytes],
    ) -> None:
        request = json.loads(body)
        entry: Json = {
            "path": path,
            "headers": headers,
            "body": request,
            "tokens": count_request_tokens(request) if run.max_tokens else None,
            "events": 0,
            "ended": False,
            "gone": False,
        }
        step = run.steps[min(len(run.requests), len(run.steps) - 1)]
        run.requests.append(entry)
        if run.max_tokens and entry["tokens"] > run.max_tokens:
            words = f"This model's maximum context length is {run.max_tokens} tokens"
            error = {"message": words, "code": "context_length_exceeded"}
            await _send_json(writer, 400, {"error": error})
            return
        await asyncio.sleep(step.get("silent", 0))
        if "status" in step:
            given = step.get("body", "")
            text = given if isinstance(given, str) else json.dumps(given)
            await _send(writer, step["status"], text.encode(), step.get("headers", {}))
            return
        if "raw" in step:
            kind = step.get("content_type", "text/event-stream")
            await _send(writer, 200, step["raw"].encode(), {"content-type": kind})
            return
        await _stream(step, list(_FORMATS[_format_of(path)](step)), entry, writer, watcher)


async def _stream(
    step: Json,
    events: list[str],
    entry: Json,
    writer: asyncio.StreamWriter,
    watcher: asyncio.Task[bytes],
) -> None:
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
        "transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    writer.write(head.encode())
    await writer.drain()
    for number, event in enumerate(events):
        if number == step.get("cut"):
            writer.transport.abort()
            return
        if number == step.get("unfinished"):
            break
        if step.get("delay"):
            await asyncio.wait([watcher], timeout=step["delay"])
        if watcher.done() or writer.is_closing():
            entry["gone"] = True
            return
        data = event.encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        entry["events"] += 1
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    entry["ended"] = True


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "content-length" in headers:
        return await reader.readexactly(int(headers["content-length"]))
    if headers.get("transfer-encoding") != "chunked":
        return b""
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return body


async def _send_json(writer: asyncio.StreamWriter, status: int, value: Json) -> None:
    await _send(writer, status, json.dumps(value).encode(), {"content-type": "application/json"})


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: dict[str, str]
) -> None:
    lines = [f"HTTP/1.1 {status} Status", f"content-length: {len(body)}", "connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    await writer.drain()


def _format_of(path: str) -> str:
    if path.endswith("chat/completions"):
        return "openai"
    return "anthropic" if path.endswith("v1/messages") else "workers-ai"


def _pieces(text: str) -> Iterator[str]:
    words = text.split(" ")
    for start in range(0, len(words), _WORDS_PER_EVENT):
        piece = " ".join(words[start : start + _WORDS_PER_EVENT])
        yield piece if start == 0 else f" {piece}"


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [text[:middle], text[middle:]]


def _data(value: Json, event: str = "") -> str:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value)}\n\n"


def _openai(step: Json) -> Iterator[str]:
    def chunk(delta: Json, reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _data({"object": "chat.completion.chunk", "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(step["reasoning"]) if step.get("reasoning") else ():
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(step["text"]) if step.get("text") else ():
        yield chunk({"content": piece})
    for index, call in enumerate(step.get("calls", ())):
        start = {"name": call["name"], "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call["id"], "function": start}]})
        for half in _halves(call["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    yield chunk({}, step.get("finish", "tool_calls" if step.get("calls") else "stop"))
    if step.get("usage"):
        given, made = step["usage"]
        usage = {"prompt_tokens": given, "completion_tokens": made}
        yield _data({"choices": [], "usage": usage})
    yield "data: [DONE]\n\n"


def _anthropic(step: Json) -> Iterator[str]:
    given, made = step.get("usage") or (0, 0)
    message: Json = {"role": "assistant", "content": [], "usage": {"input_tokens": given}}
    yield _data({"type": "message_start", "message": message}, "message_start")
    yield _data({"type": "ping"}, "ping")
    index = 0

    def block(start: Json, deltas: list[Json]) -> Iterator[str]:
        nonlocal index
        fields = {"index": index, "content_block": start}
        yield _data({"type": "content_block_start", **fields}, "content_block_start")
        for delta in deltas:
            fields = {"index": index, "delta": delta}
            yield _data({"type": "content_block_delta", **fields}, "content_block_delta")
        yield _data({"type": "content_block_stop", "index": index}, "content_block_stop")
        index += 1

    if step.get("reasoning"):
        deltas: list[Json] = [
            {"type": "thinking_delta", "thinking": piece} for piece in _pieces(step["reasoning"])
        ]
        deltas.append({"type": "signature_delta", "signature": "signed"})
        yield from block({"type": "thinking", "thinking": ""}, deltas)
    if step.get("text"):
        texts: list[Json] = [
            {"type": "text_delta", "text": piece} for piece in _pieces(step["text"])
        ]
        yield from block({"type": "text", "text": ""}, texts)
    for call in step.get("calls", ()):
        parts: list[Json] = [
            {"type": "input_json_delta", "partial_json": half}
            for half in _halves(call["arguments"])
        ]
        start: Json = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
        yield from block(start, parts)
    reason = {"tool_calls": "tool_use", "stop": "end_turn", "content_filter": "refusal"}.get(
        step.get("finish", "tool_calls" if step.get("calls") else "stop"), "max_tokens"
    )
    delta = {"delta": {"stop_reason": reason}, "usage": {"output_tokens": made}}
    yield _data({"type": "message_delta", **delta}, "message_delta")
    yield _data({"type": "message_stop"}, "message_stop")


def _workers_ai(step: Json) -> Iterator[str]:
    for piece in _pieces(step["text"]) if step.get("text") else ():
        yield _data({"response": piece})
    calls: list[Json] = []
    for call in step.get("calls", ()):
        try:
            arguments: Any = json.loads(call["arguments"])
        except ValueError:
            arguments = call["arguments"]
        calls.append({"name": call["name"], "arguments": arguments})
    if calls:
        yield _data({"tool_calls": calls})
    given, made = step.get("usage") or (0, 0)
    usage = {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}
    yield _data({"response": "", "usage": usage})
    yield "data: [DONE]\n\n"


_FORMATS: dict[str, Callable[[Json], Iterator[str]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "workers-ai": _workers_ai,
}


def count_request_tokens(request: Json) -> int:
    """Tokens of a request as a provider would count them: real o200k tokens of all its texts."""
    total = 0
    for message in request.get("messages", ()):
        total += 4 + _value_tokens(message.get("content"))
        for call in message.get("tool_calls", ()):
            total += _value_tokens([call["function"]["name"], call["function"]["arguments"]])
    total += _value_tokens(request.get("system"))
    return total + sum(_value_tokens(json.dumps(tool)) for tool in request.get("tools", ()))


def _value_tokens(value: Any) -> int:
    if isinstance(value, str):
        return count_o200k(value)
    if isinstance(value, list):
        return sum(_value_tokens(entry) for entry in cast("list[Any]", value))
    if isinstance(value, dict):
        fields = cast("Json", value)
        return sum(
            _value_tokens(entry) for key, entry in fields.items() if key not in ("type", "id")
        )
    return 0
