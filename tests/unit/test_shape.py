"""What a handler's annotations say of its payload and its result, and how payloads of older versions are brought up."""

import importlib
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator
from typing_extensions import TypedDict

from dilamme.domain.errors import ConfigurationError, Fault
from dilamme.handlers.misfit import FAULTS_MAX, Misfit
from dilamme.handlers.registry import Registry
from dilamme.handlers.shape import SCHEMA_BYTES_MAX, Shape

SECRET = "hunter2"


class Line(BaseModel):
    """A part of an order."""

    sku: str
    count: int = 1


class Order(BaseModel):
    """A payload with everything that JSON has no word for."""

    id: UUID
    day: date
    total: Decimal
    lines: list[Line] = []


@dataclass
class Parcel:
    """A payload that is a plain dataclass."""

    weight: float
    marks: list[str] = field(default_factory=list)


class Point(NamedTuple):
    """A payload that is a tuple with names."""

    x: int
    y: int = 0


class Letter(TypedDict):
    """A payload that stays a dict."""

    to: str


class Colour(Enum):
    """A payload of few values."""

    RED = "red"


def shape_of(payload: Any, result: Any = Any, version: int = 1) -> Shape:
    """The shape of a handler with these annotations."""

    def handler(payload: Any, context: Any) -> Any:
        """Does nothing."""

    handler.__annotations__ = {"payload": payload, "return": result}
    return Shape("mail.welcome", handler, "jobs.mail.welcome", version)


def read(payload: Any, value: Any, version: int | None = None) -> Any:
    """What a handler with this annotation gets for a stored value."""
    return shape_of(payload).read(json.dumps(value), version)


def faults(payload: Any, value: Any) -> list[tuple[str, str]]:
    """What is wrong with a stored value."""
    with pytest.raises(Misfit) as refused:
        read(payload, value)
    return [(fault.pointer, fault.detail) for fault in refused.value.faults]


# ===== which handlers have a shape =====


def bare(payload, context):  # type: ignore[no-untyped-def]
    """Says nothing."""


@pytest.mark.parametrize(
    "annotation",
    [Any, object, dict, dict[str, Any], dict[str, object], Mapping, Mapping[str, Any], "dict[str, Any]"],
    ids=str,
)
def test_a_handler_that_takes_anything_or_any_object_has_none(annotation: Any) -> None:
    assert shape_of(annotation).says_nothing
    registry = Registry()
    handlers: list[Any] = [bare, print, lambda *args: None, partial(bare)]
    for number, handler in enumerate(handlers):
        registry.job(f"bare.{number}")(handler)
    assert registry.unread == frozenset()


@pytest.mark.parametrize("annotation", [Order, Parcel, Letter, Point, int, dict[str, int], Order | None, list], ids=str)
def test_any_other_annotation_is_one(annotation: Any) -> None:
    assert not shape_of(annotation).says_nothing
    assert not shape_of(Any, annotation).says_nothing
    assert shape_of(annotation).reads_payloads
    assert not shape_of(Any, annotation).reads_payloads


@pytest.mark.parametrize("annotation", [None, "None", NoReturn])
def test_that_nothing_is_returned_says_nothing(annotation: Any) -> None:
    """Most handlers are annotated so; a check would cost each of their jobs a microsecond."""
    assert shape_of(Any, annotation).says_nothing
    assert shape_of(Any, annotation).fit_result(5) == 5


class Sender:
    """Handlers that are no functions."""

    def __call__(self, payload: Line, context: Any) -> None:
        """Does nothing."""

    def send(self, payload: Line, context: Any) -> None:
        """Does nothing either."""


def handler_of_lines(payload: Line, context: Any) -> None:
    """Does nothing."""


@wraps(handler_of_lines)
def wrapped(*args: Any) -> None:
    """Adds nothing."""


async def awaited(payload: Line, context: Any) -> Order:
    raise NotImplementedError


def handing_out(payload: Line, context: Any) -> Coroutine[Any, Any, Order]:
    raise NotImplementedError


@pytest.mark.parametrize(
    "handler", [handler_of_lines, Sender(), Sender().send, partial(handler_of_lines), wrapped, awaited]
)
def test_whatever_can_be_a_handler_can_have_a_shape(handler: Callable[..., Any]) -> None:
    shape = Shape("line", handler, "jobs.line", 1)
    assert shape.read('{"sku": "a"}', None) == Line(sku="a", count=1)


@pytest.mark.parametrize("handler", [awaited, handing_out])
def test_an_async_handlers_result_is_what_it_returns_in_the_end(handler: Callable[..., Any]) -> None:
    order = Order(id=UUID(int=1), day=date(2030, 1, 31), total=Decimal("9.90"))
    assert Shape("line", handler, "jobs.line", 1).fit_result(order)["total"] == "9.90"


# ===== payloads =====


@pytest.mark.case("Y3")
def test_a_payload_comes_back_as_the_types_that_were_submitted() -> None:
    order = Order(id=UUID(int=7), day=date(2030, 1, 31), total=Decimal("0.10000000000000000001"), lines=[Line(sku="a")])
    shape = shape_of(Order)
    stored = json.dumps(shape.write(order))
    assert shape.read(stored, None) == order
    assert '"0.10000000000000000001"' in stored


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Parcel, Parcel(1.5, ["fragile"])),
        (Point, Point(1, 2)),
        (Letter, {"to": "ada"}),
        (Colour, Colour.RED),
        (datetime, datetime(2030, 1, 31, 9, tzinfo=UTC)),
        (timedelta, timedelta(minutes=90)),
        (bytes, b"ab"),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (Annotated[int, Field(gt=0)], 3),
        (Order | None, None),
        (dict[str, Decimal], {"a": Decimal("1.10")}),
    ],
    ids=str,
)
def test_any_type_that_pydantic_knows_comes_back(annotation: Any, value: Any) -> None:
    shape = shape_of(annotation)
    assert shape.read(json.dumps(shape.write(value)), None) == value


class Strict(BaseModel):
    """A payload that takes nothing for anything else."""

    model_config = ConfigDict(strict=True)
    id: UUID


def test_a_strict_model_takes_what_json_can_say() -> None:
    assert read(Strict, {"id": str(UUID(int=7))}) == Strict(id=UUID(int=7))


@pytest.mark.case("Y2")
@pytest.mark.parametrize("annotation", [Line, Parcel, Letter])
def test_unknown_fields_are_taken_and_defaults_are_filled(annotation: Any) -> None:
    stored = {"sku": "a", "weight": 1, "to": "ada", "of_tomorrow": True}
    assert (
        read(annotation, stored)
        == {Line: Line(sku="a", count=1), Parcel: Parcel(1.0, []), Letter: {"to": "ada"}}[annotation]
    )


class Aliased(BaseModel):
    """A payload whose names differ in JSON."""

    model_config = ConfigDict(extra="forbid")
    order_id: int = Field(alias="orderId")


def test_what_is_written_is_what_will_be_read_also_under_an_alias() -> None:
    assert shape_of(Aliased).write(Aliased(orderId=7)) == {"orderId": 7}
    with pytest.raises(Misfit, match=r"^/order: is not a known field"):
        read(Aliased, {"orderId": 7, "order": 7})


@pytest.mark.parametrize("payload", [Parcel("heavy"), {"weight": "heavy"}, {}, 5, None, object()])  # type: ignore[arg-type]
def test_what_the_handler_could_not_read_is_refused_where_it_is_written(payload: Any) -> None:
    with pytest.raises(Misfit):
        shape_of(Parcel).write(payload)


# ===== faults =====


class Cat(BaseModel):
    """A member of a union."""

    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    """The other."""

    kind: Literal["dog"]
    name: str


class Vault(BaseModel):
    """A payload full of secrets."""

    owner: UUID
    code: SecretStr
    day: date
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    either: int | list[int]
    lines: list[Line]
    a_b: int = Field(alias="a/b~")

    @field_validator("code")
    @classmethod
    def _is_long(cls, value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < 10:
            raise ValueError(f"{value.get_secret_value()} is too short")
        return value


def test_each_fault_points_to_its_field_and_none_tells_a_value() -> None:
    found = faults(
        Vault,
        {
            "owner": SECRET,
            "code": SECRET,
            "day": SECRET,
            "pet": {"kind": SECRET},
            "either": SECRET,
            "lines": [{"sku": "a"}, {"count": SECRET}],
            "a/b~": SECRET,
        },
    )
    assert [pointer for pointer, _ in found] == [
        *("/owner", "/code", "/day", "/pet", "/either", "/either", "/lines/1/sku", "/lines/1/count", "/a~1b~0"),
    ]
    assert SECRET not in str(found)
    assert dict(found)["/lines/1/sku"] == "is required"
    assert dict(found)["/owner"] == "must be a valid UUID"
    assert dict(found)["/code"] == "is refused by a validator of its type's own"
    assert dict(found)["/pet"] == "must have as its 'kind' one of 'cat', 'dog'"


def test_of_very_many_faults_the_first_are_told() -> None:
    found = faults(list[int], ["a"] * 100)
    assert len(found) == FAULTS_MAX + 1
    assert found[-1] == ("", "and 80 more faults")


def test_a_value_that_is_wrong_as_a_whole_says_so() -> None:
    with pytest.raises(Misfit, match=r"^as a whole: must be a valid integer$"):
        read(int, [])


# ===== results =====


@pytest.mark.parametrize(
    ("annotation", "result", "stored"),
    [
        (Line, Line(sku="a"), {"sku": "a", "count": 1}),
        (Line, {"sku": "a"}, {"sku": "a", "count": 1}),
        (Line | None, None, None),
        (list[UUID], [UUID(int=1)], [str(UUID(int=1))]),
        (Any, {"as": "it is"}, {"as": "it is"}),
    ],
    ids=str,
)
def test_a_result_is_stored_as_its_annotations_json(annotation: Any, result: Any, stored: Any) -> None:
    assert shape_of(Any, annotation).fit_result(result) == stored


@pytest.mark.parametrize(("annotation", "result"), [(Line, None), (Line, {"count": 1}), (int, SECRET)])
def test_a_result_that_does_not_fit_is_refused_without_its_value(annotation: Any, result: Any) -> None:
    with pytest.raises(Misfit) as refused:
        shape_of(Any, annotation).fit_result(result)
    assert SECRET not in str(refused.value)


# ===== annotations that cannot be resolved =====


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports a module of handlers, as a worker does."""

    def import_(source: str) -> Any:
        (tmp_path / "jobs_of_a_test.py").write_text(source, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "jobs_of_a_test", raising=False)
        return importlib.import_module("jobs_of_a_test")

    return import_


HEAD = """
from __future__ import annotations
from typing import TYPE_CHECKING, Any
from pydantic import BaseModel
from dilamme import Context
from dilamme.handlers.registry import Registry
registry = Registry()
"""


def test_an_annotation_may_be_text_and_name_what_comes_later(imported: Callable[[str], Any]) -> None:
    module = imported(
        HEAD
        + """
if TYPE_CHECKING:
    from nowhere import ContextOfOthers

@registry.job("mail.welcome")
def welcome(payload: Welcome, context: ContextOfOthers) -> dict[str, Any]: ...

@registry.job("mail.bare")
def bare(payload: Later, context: Context): ...

class Welcome(BaseModel):
    to: To

class To(BaseModel):
    name: str

Later = dict[str, Any]
""",
    )
    module.registry.resolve_shapes()
    assert module.registry.unread == {"mail.welcome"}
    assert module.registry["mail.welcome"].shape.read('{"to": {"name": "Ada"}}', None).to.name == "Ada"


@pytest.mark.parametrize(
    "signature", ["payload: Nowhere, context: Context", "payload: list[Nowhere], context: Context"]
)
def test_one_that_never_comes_is_named_with_its_place(imported: Callable[[str], Any], signature: str) -> None:
    module = imported(HEAD + f"@registry.job('mail.welcome')\ndef welcome({signature}): ...")
    with pytest.raises(ConfigurationError) as refused:
        module.registry.resolve_shapes()
    assert str(refused.value) == (
        "job type 'mail.welcome': jobs_of_a_test.welcome: an annotation of its payload or result cannot be resolved: name"
        " 'Nowhere' is not defined. Import the name in that module, also at run time, or define it there at the module's level"
    )


class Unknown:
    """A class that pydantic knows nothing of."""


def test_a_class_that_cannot_come_from_json_is_refused_with_the_parameters_name() -> None:
    def welcome(order: Unknown, context: Any) -> None:
        """Does nothing."""

    with pytest.raises(ConfigurationError) as refused:
        Registry().job("mail.welcome")(welcome)
    assert str(refused.value).startswith(f"job type 'mail.welcome': {__name__}.test_a_class")
    assert "the annotation of its parameter 'order' is no type that pydantic knows: " in str(refused.value)


# ===== versions =====


def chained() -> Registry:
    """A type at its third version: {name} → {first, last} → {to: {first, last}}."""
    registry = Registry()

    @registry.job("mail.welcome", version=3)
    def welcome(payload: dict[str, dict[str, str]], context: Any) -> None:
        """Does nothing."""

    @registry.upcast("mail.welcome", from_version=1)
    def split(old: dict[str, Any]) -> dict[str, Any]:
        first, last = old["name"].split()
        return {"first": first, "last": last}

    @registry.upcast("mail.welcome", from_version=2)
    def wrap(old: dict[str, Any]) -> dict[str, Any]:
        return {"to": old}

    registry.resolve_shapes()
    return registry


@pytest.mark.case("Y2")
@pytest.mark.parametrize(
    ("version", "stored"),
    [
        (None, {"name": "Ada Lovelace"}),
        (1, {"name": "Ada Lovelace"}),
        (2, {"first": "Ada", "last": "Lovelace"}),
        (3, {"to": {"first": "Ada", "last": "Lovelace"}}),
    ],
)
def test_an_older_payload_is_brought_up_step_by_step(version: int | None, stored: Any) -> None:
    shape = chained()["mail.welcome"].shape
    assert shape is not None
    assert shape.read(json.dumps(stored), version) == {"to": {"first": "Ada", "last": "Lovelace"}}


def test_an_upcast_that_raises_does_not_tell_the_value_but_keeps_its_cause() -> None:
    shape = chained()["mail.welcome"].shape
    assert shape is not None
    with pytest.raises(Misfit, match=r"^as a whole: the upcast from version 1 raised ValueError$") as refused:
        shape.read(json.dumps({"name": SECRET}), None)
    assert isinstance(refused.value.__cause__, ValueError)


def test_a_type_without_a_shape_may_have_versions() -> None:
    registry = Registry()
    registry.job("mail.welcome", version=2)(bare)
    registry.upcast("mail.welcome", from_version=1)(lambda old: {**old, "new": UUID(int=1)})
    registry.resolve_shapes()
    shape = registry["mail.welcome"].shape
    assert shape is not None
    assert shape.read("{}", None) == {"new": str(UUID(int=1))}
    assert shape.read("{}", 2) == {}
    assert shape.schema() is None


@pytest.mark.parametrize(
    ("version", "given", "missing"),
    [
        (2, [], "version 1: add"),
        (3, [1], "version 2: add"),
        (4, [1], "version 2 and 3: add"),
        (4, [2], "version 3: add"),
    ],
)
def test_a_gap_in_the_chain_is_refused_at_the_start(version: int, given: list[int], missing: str) -> None:
    registry = Registry()
    registry.job("mail.welcome", version=version)(bare)
    for step in given:
        registry.upcast("mail.welcome", from_version=step)(lambda old: old)
    with pytest.raises(ConfigurationError) as refused:
        registry.resolve_shapes()
    assert f"has no upcast from {missing} @bare.upcast(from_version=" in str(refused.value)


def test_versions_that_nobody_has_any_more_may_be_left_out_and_are_dead_by_name() -> None:
    registry = Registry()
    registry.job("mail.welcome", version=3)(bare)
    registry.upcast("mail.welcome", from_version=2)(lambda old: old)
    registry.resolve_shapes()
    shape = registry["mail.welcome"].shape
    assert shape is not None
    with pytest.raises(Misfit, match="no upcast leads from version 1 to version 3"):
        shape.read("{}", None)


@pytest.mark.parametrize("step", [0, 2, 3, "1", None])
def test_an_upcast_that_leads_nowhere_is_refused(step: Any) -> None:
    registry = Registry()
    registry.job("mail.welcome", version=2)(bare)
    with pytest.raises(ConfigurationError, match="is at version 2: an upcast from version"):
        registry.upcast("mail.welcome", from_version=step)(lambda old: old)


def test_two_upcasts_of_one_version_are_refused_with_both_places() -> None:
    registry = Registry()
    registry.job("mail.welcome", version=2)(bare)
    registry.upcast("mail.welcome", from_version=1)(json.dumps)
    with pytest.raises(ConfigurationError, match=r"has two upcasts from version 1: json\.dumps and json\.loads"):
        registry.upcast("mail.welcome", from_version=1)(json.loads)


@pytest.mark.parametrize("version", [0, -1, 32_768, True, "2", 2.0])
def test_a_version_that_a_job_could_not_carry_is_refused(version: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"version must be a whole number from 1 to 32,767, not"):
        Registry().job("mail.welcome", version=version)(bare)


# ===== the schema =====


def test_the_schema_is_that_of_what_is_read() -> None:
    text = shape_of(Line).schema()
    assert text is not None
    schema = json.loads(text)
    assert schema["properties"]["count"] == {"default": 1, "title": "Count", "type": "integer"}
    assert schema["required"] == ["sku"]


def test_a_schema_that_is_too_large_is_not_published_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    long = Annotated[int, Field(description="x" * SCHEMA_BYTES_MAX)]
    assert shape_of(long).schema() is None
    assert "the JSON schema of job type 'mail.welcome' is not published: it is 65," in caplog.text


def test_a_type_that_has_no_schema_is_published_without_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    assert shape_of(Callable[[], int]).schema() is None
    assert "job type 'mail.welcome' has no JSON schema to publish" in caplog.text


class Broken(BaseModel):
    """Its schema cannot be made."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> Any:
        raise RuntimeError("boom")


@pytest.mark.parametrize("annotation", [Broken, Annotated[int, Field(description="a\0b")]], ids=["raises", "NUL"])
def test_a_schema_that_postgresql_or_its_own_hook_refuses_does_not_keep_a_worker_from_starting(
    annotation: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert shape_of(annotation).schema() is None
    assert "job type 'mail.welcome' has no JSON schema to publish" in caplog.text


def test_faults_are_plain_data() -> None:
    assert Misfit(Fault("/a", "is required")).faults == (Fault("/a", "is required"),)
