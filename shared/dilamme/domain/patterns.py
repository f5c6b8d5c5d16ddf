"""The patterns that names must follow, and each of them in words."""

import re

TYPE_PATTERN = r"^[a-z][a-z0-9_.-]{0,99}$"
IDEMPOTENCY_KEY_PATTERN = r"^[\x21-\x7e]{1,255}$"
REF_PATTERN = r"^[\x21-\x7e]{1,100}$"
IN_WORDS = {
    TYPE_PATTERN: "up to 100 of a-z, 0-9, '_', '.' and '-', the first a letter: such as email.send",
    IDEMPOTENCY_KEY_PATTERN: "1 to 255 visible ASCII characters, without spaces",
    REF_PATTERN: "1 to 100 visible ASCII characters, without spaces",
}


def follows(pattern: str, text: str) -> bool:
    """Does the whole of ``text`` match one of the patterns? Python's `$` alone would allow a line break at the end."""
    return re.fullmatch(pattern.strip("^$"), text) is not None
