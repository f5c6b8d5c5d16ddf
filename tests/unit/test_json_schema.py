"""What does not fit a published schema, told by pointers; held equal to jsonschema-rs on what pydantic writes."""

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, Optional
from uuid import UUID

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema

from dilamme.wire.json_schema import FAULTS_MAX, STEPS_MAX, faults_of

SECRET = "hunter2"


class Line(BaseModel):
    """A part of an order."""

    sku: str = Field(pattern=r"^[A-Z]{2}-\d+$", max_length=8)
    count: int = Field(1, ge=1, le=9, multiple_of=2)


class Cat(BaseModel):
    """A member of a union."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """The other."""

    kind: Literal["dog", "wolf"]
    name: str


class Tree(BaseModel):
    """Holds itself."""

    name: str
    branches: list["Tree"] = []
    best: Optional["Tree"] = None


class Closed(BaseModel):
    """Takes no other field."""

    model_config = ConfigDict(extra="forbid")
    a: bool | None


class Colour(enum.Enum):
    """Few values, of two types."""

    RED = "red"
    ONE = 1


class Point(NamedTuple):
    """An array of two."""

    x: int
    y: float = 0.0


@dataclass
class Everything:
    """One of each."""

    line: Line
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    tree: Tree
    colour: Colour
    point: Point
    pair: tuple[int, str]
    tags: Annotated[set[str], Field(min_length=1, max_length=3)]
    prices: dict[str, Decimal]
    ids: dict[UUID, date]
    either: int | list[int] | Closed | None = None


TYPES: list[Any] = [
    *(dict[Literal["a", "ab"], int], Annotated[int, WithJsonSchema({"oneOf": [{"type": "integer"}, {"minimum": 2}]})]),
    *(Line, Cat, Tree, Closed, Colour, Point, Everything, int, float, str, bool, None, Any, list[int], set[int]),
    *(dict[str, int], Cat | Dog, Annotated[Cat | Dog, Field(discriminator="kind")], Literal[1, "a", True], Decimal),
    *(tuple[int, ...], tuple[int, str], Annotated[str, Field(min_length=2)], Annotated[float, Field(gt=0, lt=1)]),
    *(Annotated[dict[str, Any], Field(min_length=1, max_length=2)], dict[Annotated[str, Field(pattern="^a")], int]),
]
words = st.sampled_from(["", "a", "-.", "+07.10", "cat", "dog", "red", "AB-12", "AB-123456", "ab", "é", "1.5", SECRET])
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 12), st.sampled_from([0.5, 1.0, -2.0, 1e300, 2**70]), words
)
names = st.sampled_from(
    [
        "sku",
        "count",
        "kind",
        "lives",
        "name",
        "branches",
        "best",
        "a",
        "x",
        "line",
        "pet",
        "tree",
        "colour",
        "point",
        "pair",
        "tags",
        "prices",
        "ids",
        "either",
        "b",
        "ab",
    ]
)
payloads = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.parametrize("annotation", TYPES, ids=str)
def test_it_finds_what_jsonschema_rs_finds(annotation: Any) -> None:
    schema = TypeAdapter(annotation).json_schema()
    oracle = jsonschema_rs.validator_for(schema)

    @given(payloads | like(schema))
    @example({"kind": "cat", "lives": 1.0})
    @example([1, "a", 2])
    @example({"x": 1})
    @example({"name": "a", "branches": [{"name": "b", "best": {"name": 1}}]})
    def agrees(payload: Any) -> None:
        assert (not faults_of(schema, payload)) == oracle.is_valid(payload)

    agrees()


def like(schema: Any) -> st.SearchStrategy[Any]:
    """Payloads that nearly fit, so that what is deep inside is looked at as well."""
    root = schema

    def of(part: Any, depth: int) -> st.SearchStrategy[Any]:  # noqa: PLR0911
        if depth > 4 or not isinstance(part, dict):
            return leaves
        if "$ref" in part:
            return of(root["$defs"][part["$ref"].rsplit("/", 1)[1]], depth + 1)
        if union := part.get("anyOf") or part.get("oneOf"):
            return st.one_of([of(one, depth + 1) for one in union])
        if "enum" in part or "const" in part:
            return st.sampled_from([*part.get("enum", [part.get("const")]), "another"])
        match part.get("type"):
            case "object":
                fields = {name: of(one, depth + 1) for name, one in part.get("properties", {}).items()}
                return st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(fields)
            case "array":
                items = [of(one, depth + 1) for one in part.get("prefixItems", [])]
                return st.tuples(*items).map(list) if items else st.lists(of(part.get("items"), depth + 1), max_size=3)
            case "string":
                return words
            case "integer" | "number":
                return st.integers(-1, 12) | st.just(0.5)
            case _:
                return leaves

    return of(root, 0) | st.just({})


def found(annotation: Any, payload: Any) -> list[tuple[str, str]]:
    schema = TypeAdapter(annotation).json_schema()
    return [(fault.pointer, fault.detail) for fault in faults_of(schema, payload)]


@pytest.mark.parametrize(
    ("annotation", "payload", "faults"),
    [
        (Line, {}, [("/sku", "is required")]),
        (Line, [], [("", "must be a JSON object")]),
        (Line, {"sku": SECRET, "count": 10}, [
            ("/sku", r"must match ^[A-Z]{2}-\d+$"), ("/count", "must be 9 or less"),
        ]),
        (Closed, {"a": None, "b": 1}, [("/b", "is not a known field")]),
        (list[Line], [{"sku": "AB-1"}, {"count": 2}], [("/1/sku", "is required")]),
        (Line | None, {"count": 2}, [("/sku", "is required")]),
        (int | str, [], [("", "fits none of the types that it may have")]),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat"}, [("/lives", "is required")]),
        (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": SECRET},
         [("/kind", "must be one of 'cat', 'dog', 'wolf'")]),
        (dict[str, int], {"a/b": "1"}, [("/a~1b", "must be a whole number")]),
        (Literal["a", "b"], SECRET, [("", "must be one of 'a', 'b'")]),
        (tuple[int, str], [1], [("", "must have 2 items or more")]),
    ],
)  # fmt: skip
def test_a_fault_names_its_place_and_no_value(annotation: Any, payload: Any, faults: list[tuple[str, str]]) -> None:
    assert found(annotation, payload) == faults


def test_of_very_many_faults_the_first_are_told() -> None:
    assert len(found(list[int], ["a"] * 1_000)) == FAULTS_MAX


def nested(depth: int, wrap: Callable[[Any], Any], core: Any) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


class Left(BaseModel):
    """A union that says nothing of which member is meant."""

    down: "Left | Right | int"


class Right(BaseModel):
    """The same again."""

    down: "Left | Right | int"


Left.model_rebuild()


@pytest.mark.parametrize(
    ("annotation", "payload"),
    [
        (Left, nested(60, lambda inner: {"down": inner}, SECRET)),
        (Tree, nested(190, lambda inner: {"name": "a", "best": inner}, SECRET)),
        (list[Any], [0] * 2 * STEPS_MAX),
    ],
    ids=["a member for each path", "deep", "large"],
)
def test_a_payload_that_would_keep_the_door_busy_is_left_to_the_worker(annotation: Any, payload: Any) -> None:
    assert found(annotation, payload) == []


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"if": {}, "then": False},
        {"$ref": "https://example.com/schema"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"pattern": "(?=a)b"},
        {"pattern": "("},
        {"type": "of tomorrow"},
    ],
    ids=json.dumps,
)
def test_what_a_schema_says_in_words_that_this_code_does_not_know_allows_everything(schema: Any) -> None:
    assert faults_of(schema, "b") == []


def test_a_pattern_takes_no_more_time_than_its_text_is_long() -> None:
    assert faults_of({"pattern": "^(a+)+$"}, "a" * 100_000 + "b")
