"""A Workers AI binding in JavaScript's own types: what ``env.AI`` is, over a test's server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import js
from pyodide.ffi import create_proxy, to_js

from palimpsest.hosts.workers.bindings import AiBinding

_running: set[asyncio.Task[None]] = set()


def javascript_ai(url: str) -> AiBinding:
    """A binding whose ``run`` answers with a ReadableStream or an object, as ``env.AI`` does.

    It fails as that does, too: with a rejected promise of a JavaScript error.
    """

    async def ask(fields: dict[str, Any], resolve: Any, reject: Any) -> None:
        init = to_js(
            {"method": "POST", "body": json.dumps(fields)}, dict_converter=js.Object.fromEntries
        )
        response = await js.fetch(url, init)
        if response.status >= 400:
            reject(js.Error.new(f"AiError: {await response.text()}"))
        elif "event-stream" in str(response.headers.get("content-type")):
            resolve(response.body)
        else:
            resolve(await response.json())

    def run(model: str, inputs: Any, options: Any = None) -> Any:
        fields = {"model": model, **json.loads(js.JSON.stringify(inputs))}

        def start(resolve: Any, reject: Any) -> None:
            # The two functions are borrowed for the call of the executor only.
            task = asyncio.create_task(ask(fields, resolve.bind(None), reject.bind(None)))
            _running.add(task)
            task.add_done_callback(_running.discard)

        return js.Promise.new(create_proxy(start))

    return AiBinding(to_js({"run": create_proxy(run)}, dict_converter=js.Object.fromEntries))
