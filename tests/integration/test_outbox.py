"""Dead letters on their way to the queue: what it did not take stays until it does."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from dilamme.scheduler import outbox
from dilamme.settings import Settings
from dilamme.store.connection import Connection
from dilamme.testing.clock import Clock
from tests.support.invocations import Letters
from tests.support.jobs import bury, claim, put_many


def test_a_letter_that_the_queue_refused_among_others_is_sent_again(
    connection: Connection, clock: Clock, settings: Settings, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQS takes a batch in part: each message has an answer of its own."""
    ids = put_many(connection, [{}] * 4)
    bury(connection, *claim(connection))

    def takes_every_other(_url: str, messages: Sequence[tuple[UUID, Mapping[str, Any]]]) -> list[UUID]:
        letters.extend(dict(message) for _, message in messages[::2])
        return [letter_id for letter_id, _ in messages[::2]]

    with monkeypatch.context() as half:
        half.setattr(outbox, "send", takes_every_other)
        assert outbox.send_outbox(connection, settings) == 2
    clock.advance(outbox.HOLD_SECONDS)
    assert outbox.send_outbox(connection, settings) == 2
    assert sorted(letter["jobId"] for letter in letters) == sorted(map(str, ids))
    clock.advance(outbox.HOLD_SECONDS)
    assert outbox.send_outbox(connection, settings) == 0
