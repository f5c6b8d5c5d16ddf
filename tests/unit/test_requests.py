"""What a caller may ask for, field by field: the right, the wrong and the hostile."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dilamme.domain.errors import Fault, InvalidInput, TooLarge, pointer
from dilamme.domain.job import OnDependencyFailure
from dilamme.wire.canonical_json import JSON_DEPTH_MAX, json_text
from dilamme.wire.requests import (
    DEPENDENCIES_MAX,
    INTERVAL_SECONDS_MAX,
    PAYLOAD_BYTES_MAX,
    BatchSubmission,
    Submission,
    parse,
    request_hash,
)
from tests.unit.strategies import json_values, texts

pytestmark = pytest.mark.filterwarnings("error")  # a function's log is no place for pydantic's doubts

ID = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
NAN, INFINITY = float("nan"), float("inf")

hostile_leaves = st.sampled_from(
    [NAN, INFINITY, -INFINITY, "\0", "a\0b", "\ud800", "\udfff!", b"bytes", {1, 2}, object()]
)


def submission(**fields: Any) -> BatchSubmission:
    """A job of a batch, parsed."""
    return parse(BatchSubmission, {"type": "email.send", **fields})


def faults(model: type[Submission] = BatchSubmission, index: int | None = None, **fields: Any) -> tuple[Fault, ...]:
    """What is wrong with the fields."""
    with pytest.raises(InvalidInput) as refused:
        parse(model, {"type": "email.send", **fields}, index)
    return refused.value.faults


class ZoneThatDoesNotKnow(tzinfo):
    """Its times are as good as naive."""

    def utcoffset(self, _: datetime | None) -> None:
        return None

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> None:
        return None


def nested(depth: int, core: Any, wrap: Callable[[Any], Any]) -> Any:
    """``core`` with ``depth`` levels around it."""
    for _ in range(depth):
        core = wrap(core)
    return core


# ===== the whole =====


def test_a_type_is_enough_and_the_rest_has_its_defaults() -> None:
    job = parse(Submission, {"type": "email.send"})
    assert job.model_dump() == {
        "type": "email.send",
        "payload": "{}",
        "priority": 2,
        "scheduled_at": None,
        "interval_seconds": None,
        "dependency_ids": [],
        "max_attempts": None,
        "payload_version": None,
        "on_dependency_failure": OnDependencyFailure.WAIT,
    }


def test_every_field_is_read_from_json_in_camel_case() -> None:
    job = submission(
        payload={"to": "a@b.c"},
        priority=1,
        scheduledAt="2030-01-31T09:30:00Z",
        intervalSeconds=60,
        dependencyIds=[str(ID)],
        maxAttempts=5,
        payloadVersion=2,
        onDependencyFailure="cancel",
        ref="a",
        dependencyRefs=["b"],
    )
    assert job.model_dump() == {
        "type": "email.send",
        "payload": '{"to":"a@b.c"}',
        "priority": 1,
        "scheduled_at": datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
        "interval_seconds": 60,
        "dependency_ids": [ID],
        "max_attempts": 5,
        "payload_version": 2,
        "on_dependency_failure": OnDependencyFailure.CANCEL,
        "ref": "a",
        "dependency_refs": ["b"],
    }


def test_a_single_job_has_no_name_and_waits_for_none() -> None:
    assert [fault.pointer for fault in faults(Submission, ref="a", dependencyRefs=["b"])] == ["/ref", "/dependencyRefs"]


def test_a_job_without_a_type_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(Submission, {})
    assert refused.value.faults == (Fault("/type", "is required"),)


def test_every_wrong_field_is_told_at_once() -> None:
    assert [fault.pointer for fault in faults(priority=0, maxAttempts=0, scheduledAt="soon")] == [
        "/priority",
        "/scheduledAt",
        "/maxAttempts",
    ]


def test_the_place_in_a_batch_stands_in_the_pointer() -> None:
    assert faults(index=7, priority=0) == (Fault("/jobs/7/priority", "must be greater than or equal to 1"),)


HOSTILE: dict[str, list[Any]] = {
    "type": ["", "A", "a b", "a\n", "a\0", "ä", "a" * 101, "\ud800", 1, None, ["a"], True],
    "priority": [0, 4, -1, 1.5, 1.0, "1", True, None, 2**70, NAN, [1]],
    "maxAttempts": [0, 26, -1, 1.0, "3", True, 2**63, [3]],
    "intervalSeconds": [0, -1, 0.5, 60.0, "60", True, INTERVAL_SECONDS_MAX + 1, 2**63, INFINITY],
    "onDependencyFailure": ["", "WAIT", "wait ", None, 0, [], {}],
    "dependencyIds": [str(ID), None, {}, (ID,), 5, [ID] * (DEPENDENCIES_MAX + 1)],
    "dependencyIds/0": [
        *([text] for text in ("", "a", f"{ID}0", f"{{{ID}}}", ID.hex, f"urn:uuid:{ID}", f"0_{ID}"[:36], "\ud800" * 36)),
        *([value] for value in (str(ID).replace("8057", "٨057"), None, 1, ID.int, [ID])),
    ],
    "ref": ["", "a b", "a\n", "a\0", "é", "a" * 101, 1, ["a"], True],
    "dependencyRefs": ["a", None, {}, ("a",), ["a"] * (DEPENDENCIES_MAX + 1)],
    "dependencyRefs/0": [["", "b"], ["a b"], ["a\0"], [None], [1], [["a"]]],
    "payload": [
        *(NAN, [INFINITY], "\0", {"\0": 1}, "\ud800", {"\ud800": 1}),
        *(b"", {1, 2}, {1: 0, "1": 0}, {(1,): 2}, object()),
    ],
    "priorty": [1],
    "Priority": [1],
    "": [1],
}
CASES = [(where, value) for where, values in HOSTILE.items() for value in values]


@pytest.mark.parametrize(("where", "value"), CASES)
def test_a_wrong_value_is_refused_with_a_pointer_to_it(where: str, value: Any) -> None:
    (fault,) = faults(**{where.removesuffix("/0"): value})
    assert fault.pointer == f"/{where}"
    assert 0 < len(json.dumps(fault.detail)) < 300


def test_a_strange_name_is_escaped_in_its_pointer() -> None:
    strange: dict[str, Any] = {"a/b~c": 1}
    assert faults(**strange) == (Fault("/a~1b~0c", "is not a known field: remove it or correct its name"),)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("pryority", "priority"),
        ("maxAttempt", "maxAttempts"),
        ("max_attempt", "max_attempts"),
        ("dependencyId", "dependencyIds"),
    ],
)
def test_a_misspelt_field_is_told_what_was_probably_meant(name: str, known: str) -> None:
    misspelt: dict[str, Any] = {name: 1}
    assert faults(**misspelt) == (Fault(f"/{name}", f"is not a known field: did you mean '{known}'?"),)


def test_only_the_first_misspelt_fields_are_compared() -> None:
    misspelt: dict[str, Any] = {f"priority{number}": 1 for number in range(20)}
    told = faults(**misspelt)
    assert ["did you mean" in fault.detail for fault in told] == [True] * 10 + [False] * 10


@pytest.mark.parametrize("name", [*Submission.model_fields, *BatchSubmission.model_fields, "unknown"])
def test_what_is_refused_is_not_repeated_since_it_may_be_a_secret(name: str) -> None:
    secret: Any = "S3CR3T VALUE"
    value = {"payload": {(secret,): secret}, "dependency_ids": [secret], "dependency_refs": [secret]}.get(name, secret)
    assert not any("S3CR3T" in fault.pointer + fault.detail for fault in faults(**{name: value}))


# ===== the time =====

TIMES = {
    "2030-01-31T09:30:00Z": datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
    "2030-01-31t09:30:00z": datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
    "2030-01-31 09:30:00Z": datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
    "2030-01-31T09:30:00.5Z": datetime(2030, 1, 31, 9, 30, 0, 500_000, tzinfo=UTC),
    "2030-01-31T09:30:00.123456789Z": datetime(2030, 1, 31, 9, 30, 0, 123_456, tzinfo=UTC),
    "2030-01-31T09:30:00+05:30": datetime(2030, 1, 31, 4, 0, tzinfo=UTC),
    "2030-01-31T09:30:00-00:00": datetime(2030, 1, 31, 9, 30, tzinfo=UTC),
    "2028-02-29T00:00:00Z": datetime(2028, 2, 29, tzinfo=UTC),
    "1970-01-01T00:00:00Z": datetime(1970, 1, 1, tzinfo=UTC),
    "2999-12-31T23:59:59.999999Z": datetime(2999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
}


@pytest.mark.parametrize(("text", "moment"), TIMES.items())
def test_a_time_in_rfc_3339_is_kept_in_utc(text: str, moment: datetime) -> None:
    kept = submission(scheduledAt=text).scheduled_at
    assert kept == moment
    assert kept is not None
    assert kept.tzinfo is UTC


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2999, 12, 30)),  # noqa: DTZ001
    st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
def test_a_time_survives_being_written_in_any_zone(naive: datetime, zone: tzinfo) -> None:
    moment = naive.replace(tzinfo=zone)
    assert submission(scheduledAt=moment.isoformat()).scheduled_at == moment
    assert submission(scheduledAt=moment).scheduled_at == moment


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "2031-05-06",
        "2031-05-06T09:30Z",
        "2031-05-06T09:30:00",
        "2031-W05-4T09:30:00Z",
        "20310506T093000Z",
        "2031-05-06T09:30:00+0530",
        "2031-05-06T09:30:00 Z",
        "2031-05-06T09:30:00Z\n",
        "2031-02-30T09:30:00Z",
        "2031-05-06T24:30:00Z",
        "2031-05-06T09:30:60Z",
        "2031-05-06T09:30:00+24:00",
        "2031-05-06T09:30:00+05:60",
        "2031-05-06T09:30:00.0000000001Z",
        "٢٠٣٠-01-31T09:30:00Z",
        "1969-12-31T23:59:59Z",
        "1970-01-01T00:00:00+00:01",
        "3000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-12:00",
        "0001-01-01T00:00:00+12:00",
        "10000-01-01T00:00:00Z",
        "2031-05-06T09:30:00\ud800Z",
        1_900_000_000,
        1.9e9,
        True,
        [],
        {},
        datetime(2031, 5, 6, 9, 30),  # noqa: DTZ001
        datetime(2031, 5, 6, 9, 30, tzinfo=ZoneThatDoesNotKnow()),
        datetime(1969, 12, 31, tzinfo=UTC),
        datetime(3000, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=12))),
    ],
)
def test_another_time_is_refused_with_a_pointer_and_without_an_echo(value: Any) -> None:
    (fault,) = faults(scheduledAt=value)
    assert fault.pointer == "/scheduledAt"
    assert fault.detail.isascii()
    assert not isinstance(value, str) or value == "" or value not in fault.detail


def test_no_time_is_now() -> None:
    assert submission(scheduledAt=None).scheduled_at is None


# ===== the payload =====


@given(json_values)
def test_any_json_is_stored_as_it_is(value: Any) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    assert submission(payload=value).payload == text


@given(st.dictionaries(texts, json_values, max_size=6).flatmap(lambda value: st.permutations(list(value.items()))))
def test_the_order_of_keys_does_not_count(items: list[tuple[str, Any]]) -> None:
    assert json_text(dict(items)) == json_text(dict(sorted(items, key=lambda item: item[0])))


@given(json_values, hostile_leaves, st.lists(st.booleans(), max_size=5))
def test_what_jsonb_cannot_hold_is_refused_wherever_it_stands(value: Any, leaf: Any, way: list[bool]) -> None:
    hidden = leaf
    for as_list in way:
        hidden = [value, hidden] if as_list else {"a": value, "b": hidden}
    with pytest.raises(ValueError, match=r"^(holds|is not JSON)"):
        json_text(hidden)


@given(texts.filter(bool), st.sampled_from(["\0", "\ud800", "\udfff"]))
def test_a_name_that_jsonb_cannot_hold_is_refused_too(name: str, character: str) -> None:
    with pytest.raises(ValueError, match=r"^holds"):
        json_text([{name + character: 1}])


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "\\0", "\ufffd", "\U0001f600"])
def test_text_that_only_looks_like_nul_or_like_half_a_pair_is_stored(text: str) -> None:
    assert json.loads(json_text({text: [text]})) == {text: [text]}


@pytest.mark.parametrize("wrap", [lambda core: [core], lambda core: {"a": core}, lambda core: [[], core, {}]])
@pytest.mark.parametrize("core", [[], {}, [1], {"a": "["}])
def test_json_is_stored_up_to_its_depth_and_no_deeper(wrap: Callable[[Any], Any], core: Any) -> None:
    json_text(nested(JSON_DEPTH_MAX - 1, core, wrap))
    with pytest.raises(ValueError, match="nested more than 200 levels"):
        json_text(nested(JSON_DEPTH_MAX, core, wrap))


@pytest.mark.parametrize("wrap", [lambda core: [core], lambda core: {"a": core}])
def test_json_too_deep_to_be_written_is_refused_with_the_same_remedy(wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="at most 200 levels"):
        json_text(nested(100_000, 1, wrap))


def test_json_that_is_wide_is_not_deep() -> None:
    wide = [[[{"[": "{"}]] for _ in range(1_000)]
    assert json.loads(json_text(wide)) == wide


def test_a_number_too_long_to_be_written_is_refused() -> None:
    (fault,) = faults(payload=[10**5_000])
    assert fault.pointer == "/payload"


def test_keys_that_are_not_all_strings_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match="keys of an object must all be strings"):
        json_text({1: 1, "a": 2})


def test_something_that_contains_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(ValueError, match="is not JSON: Circular reference"):
        json_text(ring)


@pytest.mark.parametrize("character", ["x", "é", "€", "\U0001f600"])
def test_a_payload_is_measured_in_bytes_of_its_json(character: str) -> None:
    fits = (PAYLOAD_BYTES_MAX - 2) // len(character.encode())
    assert submission(payload=character * fits).payload == f'"{character * fits}"'
    (fault,) = faults(payload=character * (fits + 1))
    assert fault.pointer == "/payload"
    assert f"at most {PAYLOAD_BYTES_MAX} are stored" in fault.detail


def test_when_all_that_is_wrong_is_a_size_the_request_is_too_large() -> None:
    with pytest.raises(TooLarge):
        parse(Submission, {"type": "a", "payload": "x" * PAYLOAD_BYTES_MAX})


def test_when_something_else_is_wrong_too_the_request_is_invalid() -> None:
    with pytest.raises(InvalidInput) as refused:
        parse(Submission, {"type": "a", "payload": "x" * PAYLOAD_BYTES_MAX, "priority": 0})
    assert type(refused.value) is InvalidInput


def test_null_is_a_payload_and_no_payload_is_an_empty_object() -> None:
    assert submission(payload=None).payload == "null"
    assert submission().payload == "{}"


# ===== what was asked for =====

SPELLINGS: list[dict[str, Any]] = [
    {"type": "a", "payload": {"x": [1, None], "y": "é"}, "scheduledAt": "2030-01-31T09:30:00Z", "dependencyIds": [str(ID)]},
    {"dependencyIds": [str(ID)], "scheduledAt": "2030-01-31T09:30:00Z", "payload": {"y": "é", "x": [1, None]}, "type": "a"},
    {"type": "a", "payload": {"x": [1, None], "y": "\u00e9"}, "scheduledAt": "2030-01-31t10:30:00.000+01:00", "dependencyIds": [str(ID).upper()]},
    {"type": "a", "payload": {"x": [1, None], "y": "é"}, "scheduled_at": datetime(2030, 1, 31, 9, 30, tzinfo=UTC), "dependency_ids": [ID]},
    {
        "type": "a",
        "payload": {"x": [1, None], "y": "é"},
        "scheduledAt": "2030-01-31T09:30:00Z",
        "dependencyIds": [str(ID)],
        "priority": 2,
        "intervalSeconds": None,
        "maxAttempts": None,
        "onDependencyFailure": "wait",
    },
]  # fmt: skip


@pytest.mark.parametrize("fields", SPELLINGS)
def test_the_same_request_in_another_spelling_has_the_same_hash(fields: dict[str, Any]) -> None:
    assert request_hash([parse(Submission, fields)]) == request_hash([parse(Submission, SPELLINGS[0])])


DIFFERENT: list[dict[str, Any]] = [
    {},
    {"type": "b"},
    {"payload": None},
    {"payload": []},
    {"payload": {"a": 1}},
    {"payload": {"a": "1"}},
    {"payload": {"a": True}},
    {"payload": '{"a":1}'},
    {"priority": 1},
    {"scheduledAt": "2030-01-31T09:30:00Z"},
    {"scheduledAt": "2030-01-31T09:30:00.000001Z"},
    {"intervalSeconds": 60},
    {"maxAttempts": 3},
    {"onDependencyFailure": "cancel"},
    {"dependencyIds": [ID]},
    {"dependencyIds": [UUID(int=1)]},
    {"ref": "a"},
    {"dependencyRefs": ["a"]},
]


def test_no_two_different_requests_share_a_hash() -> None:
    jobs = [submission(**fields) for fields in DIFFERENT]
    batches = [[], *([job] for job in jobs), [jobs[0], jobs[1]], [jobs[1], jobs[0]], [jobs[0]] * 2]
    assert all(request_hash(one) != request_hash(other) for one, other in combinations(batches, 2))
    assert {len(request_hash(batch)) for batch in batches} == {32}


@given(json_values, json_values)
def test_payloads_share_a_hash_only_if_they_are_the_same_json(one: Any, other: Any) -> None:
    same = json_text(one) == json_text(other)
    assert (request_hash([submission(payload=one)]) == request_hash([submission(payload=other)])) == same


# ===== pointers =====


@pytest.mark.parametrize(
    ("path", "wanted"), [((), ""), (("jobs", 3, "type"), "/jobs/3/type"), (("a/b", "c~d", ""), "/a~1b/c~0d/")]
)
def test_a_pointer_is_written_as_rfc_6901_has_it(path: tuple[str | int, ...], wanted: str) -> None:
    assert pointer(path) == wanted


def test_integers_and_their_floats_are_different_json() -> None:
    assert json_text(1) != json_text(1.0)
    assert math.isclose(json.loads(json_text(0.1 + 0.2)), 0.1 + 0.2, rel_tol=0)


def test_the_hash_of_a_request_stays_what_it_was_stored_as() -> None:
    """A key may be used again after an upgrade: a new field must not change the hash of a request without it."""
    stored = "0086f48a82630786036f0976bf29355c5ce3fa862a47204d239691f43026392c"
    assert request_hash([parse(Submission, {"type": "email.send", "payload": {"to": "a@b.c"}})]).hex() == stored
