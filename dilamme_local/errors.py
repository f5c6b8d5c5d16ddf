"""What can stop the stack from starting."""


class StackError(Exception):
    """The stack cannot start; the message is one line that says what to change."""
