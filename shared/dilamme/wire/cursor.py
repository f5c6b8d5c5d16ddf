"""The cursor of a list: the id of the last job on the page before, opaque, with a checksum to detect damage."""

import base64
import binascii
import zlib
from uuid import UUID

from dilamme.domain.errors import Fault, InvalidInput

_CHECKSUM_BYTES = 4


def encode(last: UUID) -> str:
    """The cursor of the page after ``last``."""
    return base64.urlsafe_b64encode(last.bytes + _checksum(last.bytes)).decode().rstrip("=")


def decode(cursor: str) -> UUID:
    """The last id before the cursor's page.

    Raises:
        InvalidInput: it is not one of ours, or it is damaged.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    last, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if len(last) != 16 or checksum != _checksum(last):
        raise InvalidInput(
            Fault("/cursor", "is not a cursor of this list: pass nextCursor on as it came, or leave it out")
        )
    return UUID(bytes=last)


def _checksum(raw: bytes) -> bytes:
    return zlib.crc32(raw).to_bytes(_CHECKSUM_BYTES)
