"""What each field of a job refuses, and how a refusal looks."""

from typing import Any
from uuid import UUID

from dilamme.store.connection import Connection
from dilamme.wire.requests import PAYLOAD_BYTES_MAX
from tests.support.answers import Answer

JOB = {"type": "demo.echo"}
SURROGATE, NUL = "\ud800", "\0"
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"  # not a random one: the same test has the same name at every run
DEEP: list[Any] = []
for _ in range(250):
    DEEP = [DEEP]

ANYTHING = [
    True, 0, -1, 1.5, 2**63, 10**400, "", "1", NUL, SURROGATE, "x" * 100_000, [], [[]], {}, {"": NUL}, DEEP,
    "' OR 1=1 --", "../../etc/passwd", "\u202e", "%00", "null", "2030-01-01T00:00:00", str(UUID(int=0)),
]  # fmt: skip
# What each field refuses beyond that: all of `ANYTHING` but what is listed as taken.
FIELDS: dict[str, tuple[list[Any], list[Any]]] = {
    # field: (wrong besides, taken)
    "type": ([None, "A", "1a", "a b", "a\n", "é", "a" * 101, "a" + NUL, "a" + SURROGATE], ["null"]),
    "priority": ([None, 0, 4, 1.0, "2", False, [1]], []),
    "scheduledAt": (
        [1893456000, "2030-01-01", "2030-01-01T00:00:00", "10000-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
         "1969-12-31T23:59:59Z", "2030-02-30T00:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:00:00+24:00",
         "2030-01-01T00:00:00Z\n", "2030-01-01T00:00:00 Z", "2030-W01-1T00:00:00Z", "٢٠٣٠-01-01T00:00:00Z", "infinity", "now",
         "2030-01-01T00:00:00Z" + NUL],
        [],
    ),
    "intervalSeconds": ([0, 0.5, 10**9, "60", "PT1M"], []),
    "dependencyIds": (
        [None, {"0": NOBODY}, [None], [1], [""], ["x"], [NUL], [SURROGATE], [[NOBODY]], [NOBODY],
         ["{01890a5d-ac96-774b-bcce-b302099a8057}"], ["01890a5dac96774bbcceb302099a8057"],
         ["01890a5d-ac96-774b-bcce-b302099a805" + "\uff17"], [NOBODY] * 1001],
        [[]],
    ),
    "maxAttempts": ([0, 26, 1.0, "3"], []),
    "onDependencyFailure": ([None, "WAIT", "wait ", ["wait"], {"wait": 1}], []),
    "payload": (
        [NUL, {NUL: 1}, ["a", {"b": "c\0d"}], SURROGATE, {SURROGATE: 1}, DEEP, "x" * PAYLOAD_BYTES_MAX],
        [value for value in ANYTHING if value not in (NUL, SURROGATE, {"": NUL}, DEEP)],
    ),
    "jobs": ([JOB], []),
    "": ([], []),
    "ref": ([], []),
    "dependencyRefs": ([["x"]], []),
    "id": ([], []),
    "status": (["dead"], []),
    "dependency_ids": ([[]], []),
    "scheduled_at": (["2030-01-01T00:00:00Z"], []),
    "a/b~c": ([], []),
}  # fmt: skip


def pointer(field: str) -> str:
    return "/" + field.replace("~", "~0").replace("/", "~1")


def assert_refused(answer: Answer, connection: Connection, *statuses: int) -> None:
    assert answer.status in (statuses or (400, 413, 422)), answer.text
    assert isinstance(answer.pointers, list)
    assert "Traceback" not in answer.text
    for table in ("jobs", "series", "idempotency_keys", "job_dependencies"):
        assert connection.execute(f"SELECT count(*) FROM dilamme.{table}").fetchone() == (0,)
