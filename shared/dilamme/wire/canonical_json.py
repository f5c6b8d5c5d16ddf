"""JSON as it is stored: keys sorted, no spaces, nothing that PostgreSQL's ``jsonb`` cannot hold."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

JSON_DEPTH_MAX = 200

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
# `encode` makes this anew for each value, which costs more than a small one's text. CPython has it, undocumented.
_make_in_c = getattr(json.encoder, "c_make_encoder", None)
_encode_in_c = _make_in_c and _make_in_c(
    None,  # looks for no circles: it runs into them, and `encode` tells
    _encoder.default,
    json.encoder.encode_basestring,
    _encoder.indent,
    _encoder.key_separator,
    _encoder.item_separator,
    _encoder.sort_keys,
    _encoder.skipkeys,
    _encoder.allow_nan,
)


def _canonical(value: Any) -> str:
    try:
        return "".join(_encode_in_c(value, 0)) if _encode_in_c else _encoder.encode(value)
    except Exception:
        return _encoder.encode(value)  # raises what says more


def json_text(value: Any) -> str:
    """``value`` as the canonical JSON that PostgreSQL can hold: keys sorted, no spaces.

    Raises:
        ValueError: JSON or ``jsonb`` cannot hold it (NaN, NUL, half a surrogate pair, too deep), with the remedy.
    """
    try:
        text = _canonical(value)
        if not text.isascii():
            text.encode()  # raises where it is not Unicode text
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which is not Unicode text: send whole characters") from None
    except (RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"is not JSON: {_why_not_json(error)}") from None
    # The encoder is in C and a walk would be in Python, so walk only what looks suspicious.
    if "\\u0000" in text and _holds_nul(value):
        raise ValueError("holds the character NUL (\\u0000), which PostgreSQL cannot store: remove it")
    if len(text) > JSON_DEPTH_MAX < text.count("[") + text.count("{") and _depth_exceeds(value, JSON_DEPTH_MAX):
        raise ValueError(f"is nested more than {JSON_DEPTH_MAX} levels deep: flatten it")
    return text


def _why_not_json(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested too deeply (at most {JSON_DEPTH_MAX} levels)"
    if "Out of range float" in str(error):
        return "it holds NaN, or a number that is infinite or beyond 1.8e308"
    if "not supported between" in str(error):
        return "the keys of an object must all be strings"  # said while sorting them
    return str(error)


def _holds_nul(value: Any) -> bool:
    return any("\0" in text for text in _strings(value))


def _strings(value: Any) -> Iterable[str]:
    stack = [value]
    while stack:
        match stack.pop():
            case str() as text:
                yield text
            case Mapping() as mapping:
                stack.extend(mapping.keys())
                stack.extend(mapping.values())
            case list() | tuple() as items:
                stack.extend(items)


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [child for node in level for child in _children(node)]
    return any(isinstance(node, Mapping | list | tuple) for node in level)


def _children(node: Any) -> Iterable[Any]:
    match node:
        case Mapping():
            return node.values()
        case list() | tuple():
            return node
        case _:
            return ()
