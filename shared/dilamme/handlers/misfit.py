"""What does not fit a handler's annotation: which fields, and why, without their values, which may be secrets."""

import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dilamme.domain.errors import Fault, pointer

if TYPE_CHECKING:
    from pydantic import ValidationError

FAULTS_MAX = 20
_QUOTING = ("error", "encoding_error", "tag")  # parts of pydantic's messages that quote the value


class Misfit(Exception):
    """A payload or a result that does not fit. A fault's pointer begins there."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(f"{fault.pointer or 'as a whole'}: {fault.detail}" for fault in faults))
        self.faults = faults


def faults_in(error: "ValidationError", value: Callable[[], Any]) -> Iterator[Fault]:
    """The first faults that pydantic found in a value. ``value()`` is that value as JSON, or a result."""
    found = error.errors(include_url=False, include_input=False)
    whole = value()
    for fault in found[:FAULTS_MAX]:
        yield Fault(pointer(_place(fault["loc"], whole, missing=fault["type"] == "missing")), _detail(fault))
    if (more := len(found) - FAULTS_MAX) > 0:
        yield Fault("", f"and {more:,} more faults")


def _place(location: Iterable[str | int], value: Any, *, missing: bool) -> list[str | int]:
    """The part of a location that leads into the value: pydantic also names the members of a union that it tried."""
    place: list[str | int] = []
    *_, last = ("", *location)
    for part in location:
        inside = isinstance(value, Mapping) and part in value
        if inside or (isinstance(value, list | tuple) and isinstance(part, int) and -1 < part < len(value)):
            value = value[part]
        elif not (missing and part is last):
            continue
        place.append(part)
    return place


def _detail(fault: Mapping[str, Any]) -> str:
    context = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a known field"
        case "union_tag_invalid":
            return f"must have as its {context['discriminator']} one of {context['expected_tags']}"
        case kind if kind not in _kinds() or kind in ("value_error", "assertion_error"):
            return "is refused by a validator of its type's own"  # whose words may quote the value
    message: str = fault["msg"]
    for name in _QUOTING:
        if name in context:
            message = message.replace(str(context[name]), "").rstrip(" ,:")
    return "must" + message.removeprefix("Input should") if message.startswith("Input should") else message


@cache
def _kinds() -> frozenset[str]:
    from pydantic_core.core_schema import ErrorType  # noqa: PLC0415

    return frozenset(typing.get_args(ErrorType))
