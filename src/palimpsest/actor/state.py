"""State sync: one JSON value per agent, which every client sees and may be allowed to change."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from palimpsest.errors import StateRejectedError
from palimpsest.hosts.interface import MAX_VALUE_BYTES, Host
from palimpsest.messages import dump_json
from palimpsest.store.state import StateStore

MAX_STATE_BYTES = MAX_VALUE_BYTES - 4096
"""The largest state, as JSON in bytes: one row of the platform holds it."""


@lru_cache(maxsize=64)
def adapter_for(kind: Any) -> TypeAdapter[Any]:
    """The pydantic adapter of a type, made once per process (it holds no object's state)."""
    return TypeAdapter(kind)


class StateSync:
    """The state of one agent: loaded at first use, checked and stored at each change.

    :param initial: the state while none is stored; a callable makes it.
    :param kind: a type that pydantic checks and builds; None keeps plain JSON.
    """

    def __init__(self, host: Host, *, initial: Any, kind: Any) -> None:
        self._store = StateStore(host.sql)
        self._kind = kind
        self._initial = initial
        self._loaded = False
        self._exists = False
        self._json: Any = None
        self._value: Any = None
        self._built = True

    @property
    def exists(self) -> bool:
        """Whether there is a state, stored or initial."""
        self._load()
        return self._exists

    @property
    def value(self) -> Any:
        """The state: an instance of the type given, else plain JSON; None if there is none.

        :raises StateRejectedError: what is stored is not of the type (any more).
        """
        self._load()
        if not self._built:
            self._value = self._build(self._json)
            self._built = True
        return self._value

    @property
    def json(self) -> Any:
        """The state as plain JSON, as it goes to clients; also one that is not of the type."""
        self._load()
        return self._json

    def _load(self) -> None:
        if self._loaded:
            return
        exists, stored = self._store.load()
        if exists:
            self._json = stored
            # Built when it is asked for: a state that a deploy has outdated must not keep clients
            # out, nor its agent from bringing it up to date.
            self._built = False
        else:
            initial = self._initial() if callable(self._initial) else self._initial
            if initial is not None:
                self._value, self._json, _ = self.check(copy.deepcopy(initial))
        self._exists = exists or self._json is not None
        self._loaded = True

    def _build(self, value: Any) -> Any:
        if self._kind is None:
            return value
        try:
            return adapter_for(self._kind).validate_python(value)
        except ValidationError as error:
            raise StateRejectedError(validation_text(error)) from None

    def check(self, value: Any) -> tuple[Any, Any, str]:
        """The value in its type, as plain JSON, and as text.

        :raises StateRejectedError: it is not of the type, is not JSON, or is too large.
        """
        if self._kind is not None:
            value = self._build(value)
            plain = adapter_for(self._kind).dump_python(value, mode="json", by_alias=True)
        elif isinstance(value, BaseModel):
            plain = value = value.model_dump(mode="json", by_alias=True)
        else:
            plain = value
        try:
            text = dump_json(plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise StateRejectedError(f"state is not JSON: {error}") from None
        size = len(text.encode())
        if size > MAX_STATE_BYTES:
            raise StateRejectedError(f"state is at most {MAX_STATE_BYTES} bytes, got {size}")
        plain = json.loads(text)  # a copy: later changes to the caller's object are not state
        return (plain if self._kind is None else value), plain, text

    def commit(self, checked: tuple[Any, Any, str]) -> None:
        """Store what :meth:`check` returned."""
        value, plain, text = checked
        self._store.save(text)
        self._value, self._json = value, plain
        self._built = True
        self._loaded = self._exists = True


def validation_text(error: ValidationError) -> str:
    """What pydantic found, one line per fault, without the input and without links."""
    faults: list[str] = []
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in fault["loc"])
        faults.append(f"{place}: {fault['msg']}" if place else fault["msg"])
    return "; ".join(faults)[:1000]
