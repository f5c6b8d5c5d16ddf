"""Send dead letters to the queue: at least once, so that a crash between sending and deleting loses nothing."""

import logging

from dilamme.aws.queue import BATCH_MESSAGES_MAX, SendFailed, send
from dilamme.settings import Settings
from dilamme.store import outbox
from dilamme.store.connection import Connection

logger = logging.getLogger("dilamme.outbox")

LETTERS_MAX = 100
HOLD_SECONDS = 30.0


def send_outbox(connection: Connection, settings: Settings) -> int:
    """Sends up to `LETTERS_MAX` messages; how many the queue accepted. The others are sent again later."""
    letters = outbox.pick(connection, LETTERS_MAX, HOLD_SECONDS)
    taken = 0
    for start in range(0, len(letters), BATCH_MESSAGES_MAX):
        batch = letters[start : start + BATCH_MESSAGES_MAX]
        try:
            ids = send(settings.dead_letter_queue_url, [(letter.id, letter.message) for letter in batch])
        except SendFailed as error:
            logger.error("dead letters not sent", extra={"error": str(error)})
            break
        outbox.sent(connection, ids)
        taken += len(ids)
    return taken
