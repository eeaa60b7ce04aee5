"""Reading a Python function as a tool: its schema, how to check arguments and write results."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pydantic

from palimpsest.errors import ToolDefinitionError, ToolError
from palimpsest.signatures import resolve_types, signature_of
from palimpsest.tools.tool import ToolContext

_PARAM_LINE = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's parameters as a pydantic model, and its result as a pydantic type."""

    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    context_parameter: str | None
    """The parameter that takes the :class:`ToolContext`, if there is one."""
    _model: type[pydantic.BaseModel]
    _fields: Mapping[str, str]
    _result: pydantic.TypeAdapter[Any]

    def validate(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function's own types.

        :raises ToolError: they do not fit the schema; the text tells the model what is wrong.
        """
        checked = self._checked(arguments)
        given = checked.model_fields_set
        return {
            parameter: getattr(checked, field)
            for parameter, field in self._fields.items()
            if field in given
        }

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as JSON values of the function's own types, defaults included.

        Where a type or default has no JSON form, the values are the function's own.

        :raises ToolError: as for :meth:`validate`.
        """
        checked = self._checked(arguments)
        try:
            return checked.model_dump(mode="json", by_alias=True, warnings="none")
        except (ValueError, TypeError):
            return checked.model_dump(by_alias=True, warnings="none")

    def _checked(self, arguments: Mapping[str, Any]) -> pydantic.BaseModel:
        try:
            return self._model.model_validate(arguments)
        except pydantic.ValidationError as error:
            raise ToolError(_explain(error)) from error

    def dump_result(self, result: Any) -> Any:
        """The result as a JSON value.

        :raises ToolError: JSON has no form for it.
        """
        try:
            return self._result.dump_python(result, mode="json", by_alias=True, warnings="none")
        except (pydantic.ValidationError, ValueError, TypeError) as error:
            raise ToolError(f"the result cannot be written as JSON: {error}") from error


def read_signature(function: Callable[..., Any]) -> Signature:
    """Read a function's or bound method's parameters, result and docstring.

    :raises ToolDefinitionError: a parameter has no type, is positional-only or variadic, or a
        type has no JSON Schema.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        hints = _read_hints(function)
    except (NameError, TypeError) as error:
        raise ToolDefinitionError(f"tool {name!r}: its types cannot be read: {error}") from error
    description, described = _read_docstring(function)
    definitions: dict[str, Any] = {}
    fields: dict[str, str] = {}
    context_parameter: str | None = None
    for index, parameter in enumerate(signature_of(function).parameters.values()):
        hint = hints.get(parameter.name)
        if hint is ToolContext:
            context_parameter = parameter.name
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ToolDefinitionError(
                f"tool {name!r}: parameter {parameter.name!r} cannot be given by name"
            )
        if hint is None:
            raise ToolDefinitionError(f"tool {name!r}: parameter {parameter.name!r} has no type")
        # The field has a name of its own, so that a parameter may be called like a model method.
        field = f"field_{index}"
        fields[parameter.name] = field
        default = ... if parameter.default is parameter.empty else parameter.default
        definitions[field] = (
            hint,
            pydantic.Field(
                default, alias=parameter.name, description=described.get(parameter.name)
            ),
        )
    try:
        model = pydantic.create_model(
            f"{name}_arguments",
            __config__=pydantic.ConfigDict(extra="forbid", allow_inf_nan=False),
            **definitions,
        )
        schema = model.model_json_schema(by_alias=True)
    except pydantic.errors.PydanticUserError as error:
        reason = _unusable_type(fields, definitions) or str(error)
        raise ToolDefinitionError(f"tool {name!r}: {reason}") from error
    return Signature(
        description,
        _plain_schema(schema),
        context_parameter,
        model,
        fields,
        _read_result(function),
    )


def _unusable_type(fields: dict[str, str], definitions: dict[str, Any]) -> str | None:
    """Which parameter's type has no JSON Schema: pydantic's own error does not say."""
    for parameter, field in fields.items():
        hint = definitions[field][0]
        try:
            pydantic.TypeAdapter(hint).json_schema()
        except pydantic.errors.PydanticUserError:
            shown = hint.__qualname__ if isinstance(hint, type) else str(hint)
            return f"parameter {parameter!r}: its type {shown} has no JSON Schema"
    return None


def _read_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' types; names of the function's own closure are known."""
    annotations = {
        parameter.name: parameter.annotation
        for parameter in signature_of(function).parameters.values()
        if parameter.annotation is not parameter.empty
    }
    return _resolve(function, annotations)


def _read_result(function: Callable[..., Any]) -> pydantic.TypeAdapter[Any]:
    """How results are written: by their declared type, or as what they are where that is unknown.

    A declared type may only exist for the type checker, so that it cannot be a reason to refuse.
    """
    declared = signature_of(function).return_annotation
    if declared is inspect.Signature.empty:
        return pydantic.TypeAdapter(Any)
    try:
        return pydantic.TypeAdapter(_resolve(function, {"return": declared})["return"])
    except (NameError, TypeError, pydantic.errors.PydanticUserError):
        return pydantic.TypeAdapter(Any)


def _resolve(function: Callable[..., Any], annotations: dict[str, Any]) -> dict[str, Any]:
    inner: Any = inspect.unwrap(getattr(function, "__func__", function))
    closure: dict[str, Any] = {}
    if inspect.isfunction(inner):
        closure.update(inspect.getclosurevars(inner).nonlocals)

    return resolve_types(annotations, getattr(inner, "__globals__", {}), closure)


def _plain_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the titles that pydantic makes up: they cost tokens and say nothing."""

    def strip(value: Any, *, named: bool) -> Any:
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            return {
                key: strip(entry, named=key in ("properties", "$defs") and not named)
                for key, entry in entries.items()
                if named or key != "title" or not isinstance(entry, str)
            }
        if isinstance(value, list):
            return [strip(entry, named=False) for entry in cast("list[Any]", value)]
        return value

    plain = strip(schema, named=False)
    plain.setdefault("properties", {})
    return plain


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The first paragraph and the ``:param name: text`` lines (each may go on, indented)."""
    text = inspect.getdoc(function) or ""
    paragraph = " ".join(text.split("\n\n", 1)[0].split())
    described: dict[str, str] = {}
    current: str | None = None
    for line in text.splitlines():
        if match := _PARAM_LINE.match(line.strip()):
            name, start = match.groups()
            described[name] = start
            current = name
        elif current and line.startswith((" ", "\t")) and line.strip():
            described[current] += " " + line.strip()
        else:
            current = None
    return paragraph, {name: " ".join(value.split()) for name, value in described.items()}


def _explain(error: pydantic.ValidationError) -> str:
    problems: list[str] = []
    for problem in error.errors(include_url=False, include_context=False):
        place = ".".join(str(step) for step in problem["loc"]) or "arguments"
        problems.append(f"{place}: {problem['msg']} (got {problem['input']!r:.100})")
    return "invalid arguments: " + "; ".join(problems)
