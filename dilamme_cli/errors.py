"""What ends a command with a sentence and no traceback."""

from dilamme.domain.errors import DilammeError
from dilamme_local.errors import StackError

EXPECTED = (DilammeError, StackError, TimeoutError)
