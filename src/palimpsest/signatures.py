"""Reading a function's parameters where a type may be known to type checkers only.

From Python 3.14 on, annotations are evaluated when they are asked for. A name that was imported for
type checkers alone then fails for all parameters at once, unless references are asked for instead.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from typing import Any

if sys.version_info >= (3, 14):
    import annotationlib

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """The signature; types that cannot be resolved are references."""
        return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)

else:

    def signature_of(function: Callable[..., Any]) -> inspect.Signature:
        """The signature; types that cannot be resolved are texts."""
        return inspect.signature(function)


def resolve_types(
    annotations: Mapping[str, Any], names: Mapping[str, Any], closure: Mapping[str, Any]
) -> dict[str, Any]:
    """The types that annotations mean.

    :param names: the function's globals.
    :param closure: the variables of the functions around it.
    :raises NameError: a name is unknown.
    :raises TypeError: an annotation is no type.
    """

    def holder() -> None:
        """Holds the annotations to resolve."""

    holder.__annotations__ = dict(annotations)
    return typing.get_type_hints(holder, dict(names), dict(closure), include_extras=True)
