"""What a deployment gives an agent: variables, secrets and bindings, as Python sees them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import js
from pyodide.ffi import JsException, JsProxy, to_js

from palimpsest.errors import CallError
from palimpsest.hosts.workers.ffi import bytes_of, is_nothing, json_from_js, json_to_js, to_object
from palimpsest.hosts.workers.outgoing import stream_chunks


class RemoteError(CallError):
    """A call to another agent failed there; ``kind`` is the error's class name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class AgentStub:
    """Another object of an agent's namespace."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    async def call(self, method: str, *arguments: Any) -> Any:
        """Run one of its callable methods; arguments and result are JSON values.

        :raises RemoteError: the method is not callable or failed.
        :raises ConnectionError: the object could not be reached or was reset.
        """
        payload = json.dumps({"method": method, "arguments": arguments})
        try:
            answer = json.loads(await self.raw.call(payload))
        except JsException as error:
            raise ConnectionError(str(error.message)) from None
        if not answer["ok"]:
            raise RemoteError(answer["error"]["type"], answer["error"]["message"])
        return answer["value"]


class AgentNamespace:
    """A Durable Object binding: all agents of one class, by name."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def get(
        self, name: str, *, jurisdiction: str | None = None, location_hint: str | None = None
    ) -> AgentStub:
        """The agent of that name; it comes into being when it is first used.

        :param jurisdiction: where the object must be (``eu``, ``fedramp``): part of its identity.
        :param location_hint: where it should be, if this is its first use (``weur``, ...).
        """
        options = {"jurisdiction": jurisdiction, "location_hint": location_hint}
        return AgentStub(get_stub(self.raw, name, **options))


def get_stub(
    namespace: Any, name: str, *, jurisdiction: str | None = None, location_hint: str | None = None
) -> Any:
    """The raw stub of a namespace's object."""
    if jurisdiction is not None:
        namespace = namespace.jurisdiction(jurisdiction)
    if location_hint is not None:
        return namespace.getByName(name, to_object({"locationHint": location_hint}))
    return namespace.getByName(name)


class AiBinding:
    """The Workers AI binding."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    async def run(self, model: str, inputs: Mapping[str, Any], **options: Any) -> Any:
        """Run a model: its answer as Python values, or an async iterator of bytes when it streams.

        :raises ConnectionError: the model could not be run.
        """
        try:
            arguments = [json_to_js(inputs), *([json_to_js(options)] if options else [])]
            answer = await self.raw.run(model, *arguments)
        except JsException as error:
            raise ConnectionError(str(error.message)) from None
        if isinstance(answer, JsProxy):
            if hasattr(answer, "getReader"):
                return stream_chunks(answer)
            return json_from_js(answer)
        return answer


class R2Bucket:
    """An R2 bucket of small objects."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    async def get(self, key: str) -> bytes | None:
        """An object's content, or None if there is none."""
        found = await self.raw.get(key)
        return None if is_nothing(found) else bytes_of(await found.arrayBuffer())

    async def put(
        self, key: str, content: bytes | str, *, metadata: Mapping[str, str] | None = None
    ) -> None:
        """Store an object, with custom metadata."""
        body = content if isinstance(content, str) else to_js(content)
        await self.raw.put(key, body, to_object({"customMetadata": dict(metadata or {})}))

    async def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        await self.raw.delete(key)

    async def list(self, prefix: str = "") -> list[dict[str, Any]]:
        """All objects under a prefix: ``key``, ``size`` (bytes) and ``metadata`` of each."""
        found: list[dict[str, Any]] = []
        cursor: Any = None
        while True:
            options: dict[str, Any] = {"prefix": prefix, "include": ["customMetadata"]}
            if cursor is not None:
                options["cursor"] = cursor
            page = await self.raw.list(to_object(options))
            for item in page.objects:
                metadata = item.customMetadata
                found.append(
                    {
                        "key": item.key,
                        "size": int(item.size),
                        "metadata": {} if is_nothing(metadata) else metadata.to_py(),
                    }
                )
            if not page.truncated:
                return found
            cursor = page.cursor


_WRAPPERS: Mapping[str, Callable[[Any], Any]] = {
    "DurableObjectNamespace": AgentNamespace,
    "Ai": AiBinding,
    "R2Bucket": R2Bucket,
}


class Environment(Mapping[str, Any]):
    """Variables, secrets and bindings by name, as Python sees them.

    Text is ``str``; JSON variables are Python values; Durable Object, R2 and AI bindings have
    wrappers of this module; other bindings are those of the ``workers`` package.
    """

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped
        self._raw: Any = getattr(wrapped, "_env", wrapped)
        self._found: dict[str, Any] = {}

    @cached_property
    def _names(self) -> list[str]:
        """Asked for at first use: most wakes need no variable."""
        return list(js.Object.keys(self._raw).to_py())

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._found:
            self._found[name] = self._convert(name)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def object_bindings(self) -> list[str]:
        """The names of the Durable Object bindings."""
        return [name for name in self._names if hasattr(getattr(self._raw, name), "idFromName")]

    def _convert(self, name: str) -> Any:
        raw = getattr(self._raw, name)
        if not isinstance(raw, JsProxy):
            return None if is_nothing(raw) else raw
        kind = str(raw.constructor.name)
        if kind in {"Object", "Array"}:
            return json_from_js(raw)
        wrapper = _WRAPPERS.get(kind)
        return getattr(self._wrapped, name) if wrapper is None else wrapper(raw)
