"""The SQL function ``dilamme.submit``, called from Python (``sql/submit_function.sql``); its refusals as errors of ours."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import psycopg

from dilamme.domain.errors import DilammeError, Fault, IdempotencyConflict, InvalidInput, TooLarge
from dilamme.store.arrays import UuidArray
from dilamme.store.connection import AsyncConnection, fetch_async


async def submit(connection: AsyncConnection, arguments: Mapping[str, Any]) -> UUID:
    """Stores a job; its id. ``arguments`` are those of the function, all of them.

    Raises:
        InvalidInput: an argument is refused; the pointer has its name.
        IdempotencyConflict: the idempotency key stands for another request.
    """
    parents: Sequence[UUID] = arguments["dependency_ids"]
    try:
        rows = await fetch_async(connection, "submit", {**arguments, "dependency_ids": UuidArray(parents)})
    except psycopg.Error as error:
        if error.diag.schema_name != "dilamme" or error.diag.table_name or not error.diag.column_name:
            raise  # PostgreSQL's own; the function names its argument as a column of no table
        raise _refusal(error.diag, parents) from None
    stored: UUID = rows[0]["id"]
    return stored


def _refusal(told: psycopg.errors.Diagnostic, parents: Sequence[UUID]) -> DilammeError:
    message = told.message_primary or ""
    match told.sqlstate:
        case "23505":
            return IdempotencyConflict(message)
        case "23503":
            unknown = (told.message_detail or "").split(", ")
            places = [place for place, parent in enumerate(parents) if str(parent) in unknown]
            return InvalidInput(*(Fault(f"/dependency_ids/{n}", f"no job has the id {parents[n]}") for n in places))
        case state:
            fault = Fault(f"/{told.column_name}", message.removeprefix(f"{told.column_name} "))
            return (TooLarge if (state, told.column_name) == ("54000", "payload") else InvalidInput)(fault)
