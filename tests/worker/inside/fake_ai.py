"""A Workers AI binding in JavaScript's own types: what ``env.AI`` is, over a test's server."""

from __future__ import annotations

import json
from typing import Any

import js
from pyodide.ffi import create_proxy, to_js

from palimpsest.hosts.workers.bindings import AiBinding


def javascript_ai(url: str) -> AiBinding:
    """A binding whose ``run`` answers with a ReadableStream or an object, as ``env.AI`` does."""

    async def run(model: str, inputs: Any, options: Any = None) -> Any:
        fields = json.loads(js.JSON.stringify(inputs))
        init = to_js(
            {"method": "POST", "body": json.dumps({"model": model, **fields})},
            dict_converter=js.Object.fromEntries,
        )
        response = await js.fetch(url, init)
        if response.status >= 400:
            words = str(await response.text())
            raise js.Error.new(f"AiError: {words}")
        if "event-stream" in str(response.headers.get("content-type")):
            return response.body
        return await response.json()

    return AiBinding(to_js({"run": create_proxy(run)}, dict_converter=js.Object.fromEntries))
