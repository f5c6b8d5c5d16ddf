"""Reports on their way from one of the tests' processes to the one that prints them, which is sent nothing but UTF-8."""

from typing import Any


def sendable(value: Any) -> Any:
    """The same without lone surrogates, which some tests let a handler log: one would end the whole run."""
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {sendable(key): sendable(part) for key, part in value.items()}
        case list() | tuple():  # a skip's place must stay a tuple: pytest's JUnit report refuses another
            return type(value)(sendable(part) for part in value)
    return value
