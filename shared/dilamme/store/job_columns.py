"""The columns that a caller chooses and the next occurrence of a series inherits: one row each, for every statement.

A new field of a job is a row here: the arrays of `dilamme.store.jobs`, both INSERTs and the lists of jobs are made from it
(CONTRIBUTING has the whole recipe). The rival, a list in each statement, fails silently: a field that is missing in one of
them is stored, and lost at the next occurrence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dilamme.domain.job import OnDependencyFailure
from dilamme.store.arrays import TextArray, number_array, sparse_array, text_array, word_array


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``dilamme.jobs``, under the name of the request's field.

    ``spell`` makes an array from a batch's values. ``default`` is SQL for a value that `spell` left out as NULL.
    A ``listed`` column is shown unchanged in every description of a job; the others are not: a payload is long, for one.
    """

    name: str
    type: str
    spell: Callable[[Sequence[Any]], str | TextArray]
    default: str | None = None
    listed: bool = True


CHOSEN = (
    Column("type", "text", word_array),
    Column("priority", "smallint", number_array),
    Column("max_attempts", "smallint", sparse_array, listed=False),
    Column(
        "on_dependency_failure",
        "text",
        # The usual policy goes as NULL, which costs nothing on the way; the statement fills it in.
        lambda values: sparse_array([None if value is OnDependencyFailure.WAIT else value for value in values]),
        default="'wait'",
    ),
    Column("payload", "jsonb", text_array, listed=False),
    # The first version goes as NULL, as it is stored: most types never have another.
    Column(
        "payload_version",
        "smallint",
        lambda values: sparse_array([None if value == 1 else value for value in values]),
        listed=False,
    ),
)


def fragments() -> Mapping[str, str]:
    """The fragments that are made from the table, for ``sql/*.sql`` to include."""
    return {
        "chosen_columns": ", ".join(column.name for column in CHOSEN),
        "chosen_arrays": ", ".join(f"%({column.name})s::{column.type}[]" for column in CHOSEN),
        "chosen_values": ", ".join(
            f"coalesce(s.{column.name}, {column.default})" if column.default else f"s.{column.name}"
            for column in CHOSEN
        ),
        "inherited_values": ", ".join(f"previous.{column.name}" for column in CHOSEN),
        "listed_columns": ", ".join(f"job.{column.name}" for column in CHOSEN if column.listed),
    }
