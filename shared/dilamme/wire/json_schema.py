"""Does a payload fit the JSON Schema that its type's workers have published?

Only what pydantic writes into a schema is looked at; what this code does not know is left to the worker, which checks every
payload by the type itself. The rivals: `jsonschema` costs a tenth of a second of a cold start and six packages,
`jsonschema-rs` 15 MB of the layer; both quote values, match patterns by backtracking, and may fetch what a schema refers to.
A test holds this and jsonschema-rs equal.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from dilamme.domain.errors import Fault, pointer

FAULTS_MAX = 20
STEPS_MAX = 150_000  # the largest payload has not as many parts; a recursive union may take a step for each subset of a payload's objects

# pydantic's own pattern for a Decimal looks ahead, which Rust's engine does not know; it is harmless to Python's.
_OF_A_DECIMAL = "^(?!^[-+.]*$)[+-]?0*"

Schema = Mapping[str, Any]
Place = tuple[str | int, ...]


def faults_of(schema: Schema, payload: Any) -> list[Fault]:
    """Why ``payload`` does not fit, up to `FAULTS_MAX` faults, without its values; none if it fits, or is too deep to tell."""
    try:
        return _Check(schema).faults(payload)
    except (_TooFar, RecursionError):
        return []


class _TooFar(Exception):
    pass


class _Check:
    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._steps = 0

    def faults(self, payload: Any) -> list[Fault]:
        found = []
        for place, detail in self._look(self._root, payload, ()):
            found.append(Fault(pointer(place), detail))
            if len(found) == FAULTS_MAX:
                break
        return found

    def _fits(self, schema: Any, value: Any) -> bool:
        return next(self._look(schema, value, ()), None) is None

    def _look(self, schema: Any, value: Any, place: Place) -> Iterator[tuple[Place, str]]:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise _TooFar
        if schema is False:
            yield place, "is not allowed"
        if not isinstance(schema, Mapping):
            return
        if isinstance(reference := schema.get("$ref"), str):
            yield from self._look(self._at(reference), value, place)
        if "type" in schema and not _is_of_type(value, schema["type"]):
            yield place, f"must be {_in_words(schema['type'])}"
            return
        yield from ((place, detail) for detail in _of_value(schema, value))
        yield from self._of_combinations(schema, value, place)
        if isinstance(value, dict):
            yield from self._of_object(schema, value, place)
        elif isinstance(value, list):
            yield from self._of_array(schema, value, place)

    def _of_combinations(self, schema: Schema, value: Any, place: Place) -> Iterator[tuple[Place, str]]:
        for part in schema.get("allOf", ()):
            yield from self._look(part, value, place)
        if (members := schema.get("anyOf")) and not any(self._fits(one, value) for one in members):
            yield from self._of_members(members, {}, value, place)
        if (members := schema.get("oneOf")) and sum(self._fits(one, value) for one in members) != 1:
            yield from self._of_members(members, schema.get("discriminator", {}), value, place)
        if "not" in schema and self._fits(schema["not"], value):
            yield place, "is not allowed"

    def _at(self, reference: str) -> Any:
        """The part of the schema that a reference names; whatever is elsewhere allows everything."""
        here: Any = self._root
        head, *path = reference.split("/")
        for part in path:
            if head != "#" or not isinstance(here, Mapping):
                return True
            here = here.get(part.replace("~1", "/").replace("~0", "~"), True)
        return here if head == "#" else True

    def _of_members(self, members: Any, tags: Schema, value: Any, place: Place) -> Iterator[tuple[Place, str]]:
        """The faults of the one member of a union that is meant, by its tag or its type; else one for the whole."""
        name, known = tags.get("propertyName"), tags.get("mapping", {})
        if known and isinstance(value, dict) and isinstance(tag := value.get(name), str):
            if tag not in known:
                yield (*place, str(name)), f"must be one of {', '.join(map(repr, known))}"
                return
            members = [{"$ref": known[tag]}]
        near = [one for one in members if self._type_fits(one, value)]
        found = list(self._look(near[0], value, place)) if len(near) == 1 else []
        yield from found or [(place, "fits none of the types that it may have")]

    def _type_fits(self, schema: Any, value: Any) -> bool:
        while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str):
            self._steps += 1
            if self._steps > STEPS_MAX:
                raise _TooFar
            schema = self._at(reference)
        return not isinstance(schema, Mapping) or "type" not in schema or _is_of_type(value, schema["type"])

    def _of_object(self, schema: Schema, value: dict[str, Any], place: Place) -> Iterator[tuple[Place, str]]:
        properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield (*place, name), "is required"
        for name, one in value.items():
            inner = (*place, name)
            parts = [properties[name]] if name in properties else []
            parts += [part for pattern, part in patterns.items() if _found_in(name, pattern)]
            for part in parts or [schema.get("additionalProperties", True)]:
                if part is False:
                    yield inner, "is not a known field"
                else:
                    yield from self._look(part, one, inner)
            if "propertyNames" in schema:
                yield from self._look(schema["propertyNames"], name, inner)

    def _of_array(self, schema: Schema, value: list[Any], place: Place) -> Iterator[tuple[Place, str]]:
        prefix = schema.get("prefixItems", [])
        for index, one in enumerate(value):
            part = prefix[index] if index < len(prefix) else schema.get("items", True)
            yield from self._look(part, one, (*place, index))


def _of_value(schema: Schema, value: Any) -> Iterator[str]:
    if "enum" in schema and not any(_equal(value, one) for one in schema["enum"]):
        yield f"must be one of {', '.join(map(repr, schema['enum']))}"
    if "const" in schema and not _equal(value, schema["const"]):
        yield f"must be {schema['const']!r}"
    for keyword, check in _LIMITS.items():
        if keyword in schema and (detail := check(value, schema[keyword])):
            yield detail


def _is_of_type(value: Any, name: Any) -> bool:
    if isinstance(name, list):
        return any(_is_of_type(value, one) for one in name)
    match name:
        case "integer":
            return not isinstance(value, bool) and (
                isinstance(value, int) or (_is_number(value) and value.is_integer())
            )
        case "number":
            return _is_number(value)
        case _:
            kind = _TYPES.get(name)
            return kind is None or isinstance(value, kind)


def _found_in(text: str, pattern: str) -> object:
    """Is the pattern found in the text? By Rust's engine, in linear time; what that does not know is left to the worker."""
    return _finder(pattern)(text)


@lru_cache(1_000)
def _finder(pattern: str) -> Callable[[str], object]:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:
        return re.compile(pattern).search if pattern.startswith(_OF_A_DECIMAL) else lambda text: True


_TYPES: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_WORDS = {
    "object": "a JSON object",
    "array": "an array",
    "string": "a string",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}


def _in_words(name: Any) -> str:
    return " or ".join(_in_words(one) for one in name) if isinstance(name, list) else _WORDS.get(name, str(name))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(one: Any, other: Any) -> bool:
    """JSON's equality: 1 is 1.0, and is not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    return bool(one == other)


def _are_unique(items: list[Any]) -> bool:
    return not any(_equal(one, other) for place, one in enumerate(items) for other in items[:place])


def _limit(
    kind: Callable[[Any], bool], holds: Callable[[Any, Any], object], words: str
) -> Callable[[Any, Any], str | None]:
    return lambda value, limit: words.format(limit) if kind(value) and not holds(value, limit) else None


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


_LIMITS: dict[str, Callable[[Any, Any], str | None]] = {
    "minimum": _limit(_is_number, lambda value, limit: value >= limit, "must be {} or more"),
    "maximum": _limit(_is_number, lambda value, limit: value <= limit, "must be {} or less"),
    "exclusiveMinimum": _limit(_is_number, lambda value, limit: value > limit, "must be more than {}"),
    "exclusiveMaximum": _limit(_is_number, lambda value, limit: value < limit, "must be less than {}"),
    "multipleOf": _limit(
        _is(int), lambda value, step: not isinstance(step, int) or value % step == 0, "must be a multiple of {}"
    ),
    "minLength": _limit(_is(str), lambda value, limit: len(value) >= limit, "must have {} characters or more"),
    "maxLength": _limit(_is(str), lambda value, limit: len(value) <= limit, "must have {} characters or fewer"),
    "pattern": _limit(_is(str), _found_in, "must match {}"),
    "minItems": _limit(_is(list), lambda value, limit: len(value) >= limit, "must have {} items or more"),
    "maxItems": _limit(_is(list), lambda value, limit: len(value) <= limit, "must have {} items or fewer"),
    "uniqueItems": _limit(
        _is(list),
        lambda value, wanted: not wanted or len(value) > 1_000 or _are_unique(value),
        "must have no item twice",
    ),
    "minProperties": _limit(_is(dict), lambda value, limit: len(value) >= limit, "must have {} fields or more"),
    "maxProperties": _limit(_is(dict), lambda value, limit: len(value) <= limit, "must have {} fields or fewer"),
}
