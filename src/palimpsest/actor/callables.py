"""Callable methods: what clients, other Workers and other objects may call, and nothing else.

Only a method that carries :func:`callable_method` on the class's own definition of it can be
called. Arguments are checked with pydantic against the annotations; results go out as JSON.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FunctionType
from typing import Any, TypeVar, cast, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from palimpsest.abort import contained
from palimpsest.actor.state import validation_text
from palimpsest.errors import CallError, error_words
from palimpsest.signatures import resolve_types, signature_of

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__palimpsest_callable__"


@dataclass(frozen=True, slots=True)
class _Mark:
    name: str
    description: str
    read_only: bool


@overload
def callable_method(method: F, /) -> F: ...
@overload
def callable_method(
    *, name: str | None = None, description: str | None = None, read_only: bool = False
) -> Callable[[F], F]: ...
def callable_method(
    method: F | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
) -> F | Callable[[F], F]:
    """Let clients call this method of an agent: ``@callable_method`` or with arguments.

    The method may be ``def`` or ``async def``; an async generator streams: each value it yields
    is sent as it comes.

    :param name: the name on the wire; the method's own by default.
    :param description: for :meth:`Agent.callable_methods`; the docstring's first line by default.
    :param read_only: it changes nothing, so that holders of read-only tokens may call it, too.
    :raises TypeError: it is not a function, its name begins with an underscore, or it is a static
        or class method.
    """

    def mark(function: F) -> F:
        if not isinstance(function, FunctionType):
            raise TypeError(
                f"@callable_method decorates a method, got {type(function).__name__} "
                "(put it under @staticmethod or @classmethod: these cannot be callable)"
            )
        wire: str = name or function.__name__
        if wire.startswith("_") or not wire.isidentifier():
            raise TypeError(f"a callable method needs a public name, got {wire!r}")
        text = description or (inspect.getdoc(function) or "").split("\n", 1)[0]
        setattr(function, _MARK, _Mark(wire, text, read_only))
        return cast("F", function)

    return mark if method is None else mark(method)


@dataclass(frozen=True, slots=True)
class CallableMethod:
    """What may be called on an agent's class."""

    name: str
    attribute: str
    description: str
    streaming: bool
    plain: bool
    """Whether it is a plain function, which returns its result at once."""
    parameters: tuple[str, ...]
    """Names of the parameters that can be given by position, in order."""
    required: int
    """How many of them have no default."""
    variadic: str | None
    """Name of the parameter that takes all further arguments (``*args``)."""
    arguments: type[BaseModel]
    read_only: bool = False
    """Whether holders of read-only tokens may call it."""
    problem: str | None = None
    """Why it cannot be called as it is defined; None where it can."""

    def schema(self) -> dict[str, Any]:
        """Name, description, whether it streams, and the JSON Schema of the arguments.

        A type that JSON Schema cannot describe is ``{}`` there. Of a method whose definition cannot
        be called, ``problem`` says why.
        """
        described: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "streaming": self.streaming,
            "parameters": list(self.parameters),
            "schema": self.arguments.model_json_schema(
                by_alias=True, schema_generator=_Schemas
            ),
        }
        return described if self.problem is None else {**described, "problem": self.problem}

    def bind(self, arguments: Sequence[Any]) -> list[Any]:
        """The arguments in the types that the method declares.

        :raises CallError: too few or too many, of a wrong type, or the definition has a problem.
        """
        if self.problem is not None:
            raise CallError(f"{self.name}() cannot be called: {self.problem}")
        given = list(arguments)
        if len(given) > len(self.parameters) and self.variadic is None:
            raise CallError(
                f"{self.name}() takes at most {len(self.parameters)} arguments, got {len(given)}"
            )
        if len(given) < self.required:
            missing = ", ".join(self.parameters[len(given) : self.required])
            raise CallError(f"{self.name}() needs the arguments: {missing}")
        named: dict[str, Any] = dict(zip(self.parameters, given, strict=False))
        if self.variadic is not None:
            named[self.variadic] = given[len(self.parameters) :]
        try:
            checked = self.arguments.model_validate(named)
        except ValidationError as error:
            raise CallError(f"{self.name}(): {validation_text(error)}") from None
        count = min(len(given), len(self.parameters))
        values = [getattr(checked, field_name(index)) for index in range(count)]
        if self.variadic is not None:
            values += getattr(checked, field_name(len(self.parameters)))
        return values


class _Schemas(GenerateJsonSchema):
    """JSON Schemas in which what has none is ``{}``, instead of none at all."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}


def field_name(index: int) -> str:
    """The model's field for the parameter at ``index``; its alias is the parameter's name."""
    return f"argument_{index}"


@lru_cache(maxsize=256)
def callables_of(agent_class: type) -> Mapping[str, CallableMethod]:
    """The callable methods of a class, by their name on the wire.

    An override without the decorator is not callable: what the newest definition says stands.
    """
    found: dict[str, CallableMethod] = {}
    seen: set[str] = set()
    for owner in agent_class.__mro__:
        for attribute, value in vars(owner).items():
            if attribute in seen:
                continue
            seen.add(attribute)
            mark = getattr(value, _MARK, None)
            if isinstance(mark, _Mark):
                # What a subclass calls by a name stands before what its bases call so.
                found.setdefault(mark.name, _describe(attribute, value, mark))
    return found


def _describe(attribute: str, function: Callable[..., Any], mark: _Mark) -> CallableMethod:
    """The method; one that cannot be called says so when it is, and harms no other."""
    try:
        return _read(attribute, function, mark)
    except (TypeError, NameError, PydanticUserError) as error:
        return CallableMethod(
            name=mark.name,
            attribute=attribute,
            description=mark.description,
            streaming=False,
            plain=False,
            parameters=(),
            required=0,
            variadic=None,
            arguments=create_model(mark.name),
            problem=" ".join(str(error).split())[:500],
        )


def _read(attribute: str, function: Callable[..., Any], mark: _Mark) -> CallableMethod:
    """The method as its signature says.

    :raises TypeError: it has a keyword-only parameter without a default.
    :raises NameError: a parameter's type cannot be resolved.
    :raises pydantic.errors.PydanticUserError: pydantic cannot check a parameter's type.
    """
    parameters = list(signature_of(function).parameters.values())[1:]
    hints = _hints(function, parameters)
    names: list[str] = []
    required = 0
    variadic: str | None = None
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = parameter.name
            kind = hints.get(parameter.name, Any)
            fields[field_name(len(names))] = (
                list[kind],
                Field(default_factory=list, alias=parameter.name),
            )
            continue
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty:
                raise TypeError(
                    f"{function.__qualname__}: keyword-only parameter {parameter.name!r} needs a "
                    "default, calls give arguments by position"
                )
            continue
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            required = len(names) + 1
            fields[field_name(len(names))] = (kind, Field(alias=parameter.name))
        else:
            fields[field_name(len(names))] = (
                kind,
                Field(default=parameter.default, alias=parameter.name),
            )
        names.append(parameter.name)
    model = create_model(
        mark.name, __config__=ConfigDict(arbitrary_types_allowed=True), **fields
    )
    return CallableMethod(
        name=mark.name,
        attribute=attribute,
        description=mark.description,
        streaming=inspect.isasyncgenfunction(function),
        plain=not (
            inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        ),
        parameters=tuple(names),
        required=required,
        variadic=variadic,
        arguments=model,
        read_only=mark.read_only,
    )


def _hints(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> dict[str, Any]:
    """The parameters' types. What the method returns may be known to type checkers only."""
    inner: Any = inspect.unwrap(function)
    closure: Mapping[str, Any] = {}
    if inspect.isfunction(inner):
        closure = inspect.getclosurevars(inner).nonlocals
    annotations = {
        parameter.name: parameter.annotation
        for parameter in parameters
        if parameter.annotation is not parameter.empty
    }
    return resolve_types(annotations, getattr(inner, "__globals__", {}), closure)


def find_callable(agent_class: type, name: Any) -> CallableMethod:
    """The callable method of this name.

    :raises CallError: there is no such method, or it is not callable from outside.
    """
    method = callables_of(agent_class).get(name) if isinstance(name, str) else None
    if method is not None:
        return method
    shown = f"{name!s:.100}"
    public = isinstance(name, str) and not name.startswith("_")
    if public and callable(getattr(agent_class, name, None)):
        raise CallError(f"Method {shown} is not callable")
    raise CallError(f"Method {shown} does not exist")


async def invoke(agent: object, name: Any, arguments: Any) -> Any:
    """Check the arguments and call the method; an async generator is returned as it is.

    :raises CallError: see :func:`find_callable` and :meth:`CallableMethod.bind`.
    """
    agent_class = type(agent)
    method = find_callable(agent_class, name)
    if not isinstance(arguments, (list, tuple)):
        raise CallError(f"{method.name}(): args must be an array")
    values = method.bind(cast("Sequence[Any]", arguments))
    with contained(f"{method.name}()", CallError):
        result = getattr(agent, method.attribute)(*values)
        if method.streaming or (method.plain and type(result) in _JSON_TYPES):
            return result
        return await result if inspect.isawaitable(result) else result


def to_json(method: str, value: Any) -> Any:
    """A result as plain JSON; pydantic models, dataclasses, dates and the like are turned into it.

    :raises CallError: it has no JSON form.
    """
    if value is None or isinstance(value, str | bool):
        return value
    try:
        return _ANY.dump_python(value, mode="json", by_alias=True)
    except Exception as error:
        raise CallError(f"{method}(): the result is not JSON: {error}") from error


_JSON_TYPES = frozenset({type(None), bool, int, float, str, list, dict})
"""Types of results that are neither awaited nor streamed."""

_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def error_text(error: BaseException) -> str:
    """What a client is told of an error: its message, or its class if it has none.

    Errors of a method are shown as it raised them; a traceback never is.
    """
    return error_words(error)[:2000]


def is_stream(value: Any) -> bool:
    """Whether a result is streamed."""
    return type(value) not in _JSON_TYPES and isinstance(value, AsyncIterator)


async def close_stream(chunks: AsyncIterator[Any]) -> None:
    """End a streaming method early; one that has ended already is left alone."""
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
