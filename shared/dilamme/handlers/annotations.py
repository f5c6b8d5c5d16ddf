"""What a handler's annotations say of its payload and its result."""

import inspect
import sys
import typing
from collections.abc import Awaitable, Callable, Coroutine, Mapping, MutableMapping
from functools import partial
from typing import Any


def annotations_of(handler: Callable[..., Any]) -> tuple[str, Any, Any]:
    """The first parameter's name and annotation, and the result's: resolved, of an async function what it returns in the end.

    Raises:
        NameError: one of them names what is not there, or not yet.
    """
    try:
        signature = inspect.signature(handler)
    except NameError:
        raise
    except Exception:  # built-in functions have none
        return "payload", Any, Any
    first = next(iter(signature.parameters.values()), None)
    if first is None or first.kind is first.VAR_POSITIONAL:
        return "payload", Any, Any
    given = {"payload": first.annotation, "result": Any if isinstance(handler, type) else signature.return_annotation}
    resolved = _evaluated({name: hint for name, hint in given.items() if hint is not inspect.Parameter.empty}, handler)
    result = resolved.get("result", Any)
    if typing.get_origin(result) in (Awaitable, Coroutine):
        result = typing.get_args(result)[-1]
    if result in (type(None), typing.NoReturn, typing.Never):
        result = Any  # what most handlers say; a type checker sees what they return all the same
    return first.name, resolved.get("payload", Any), result


def _evaluated(annotations: dict[str, Any], handler: Callable[..., Any]) -> dict[str, Any]:
    class Holder:
        """What `get_type_hints` reads: of the function itself it would resolve the context's annotation too."""

    holder = Holder()
    holder.__annotations__ = annotations
    namespace = getattr(_function_of(handler), "__globals__", {})
    return typing.get_type_hints(holder, globalns=namespace, localns=namespace, include_extras=True)


def _function_of(handler: Any) -> Any:
    """The function whose module an annotation belongs to."""
    while True:
        if isinstance(handler, partial):
            handler = handler.func
        elif hasattr(handler, "__wrapped__"):
            handler = handler.__wrapped__
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif isinstance(handler, type):
            return handler.__init__  # type: ignore[misc]  # a class, not an instance
        elif hasattr(handler, "__globals__"):
            return handler
        else:
            return type(handler).__call__


def says_nothing(annotation: Any) -> bool:
    """Is it ``Any``, ``object``, or any JSON object?"""
    if annotation in (Any, object, dict, Mapping, MutableMapping):
        return True
    if typing.get_origin(annotation) not in (dict, Mapping, MutableMapping):
        return False
    return not (arguments := typing.get_args(annotation)) or (
        arguments[0] in (str, Any) and arguments[1] in (Any, object)
    )


def is_being_imported(handler: Any) -> bool:
    """Is its module being imported, so that a name may yet be defined there?"""
    name = getattr(_function_of(handler), "__module__", None)
    spec = getattr(sys.modules.get(name or ""), "__spec__", None)
    return name == "__main__" or bool(getattr(spec, "_initializing", False))
