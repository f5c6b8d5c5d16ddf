"""JSON as it is stored: keys sorted, no spaces, nothing that PostgreSQL's ``jsonb`` cannot hold."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

JSON_DEPTH_MAX = 200

_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
# `encode` makes this encoder anew for each value, which costs more than encoding a small value. It is undocumented in
# CPython; without it, `encode` is used.
_make_in_c = getattr(json.encoder, "c_make_encoder", None)
_encode_in_c = _make_in_c and _make_in_c(
    None,  # no search for circular references: they raise RecursionError, and `encode` then names them
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
        return _encoder.encode(value)  # raises an error that says more


def json_text(value: Any) -> str:
    """``value`` as the canonical JSON that PostgreSQL can hold: keys sorted, no spaces.

    Raises:
        ValueError: JSON or ``jsonb`` cannot hold it (NaN, NUL, half a surrogate pair, too deep). It names the remedy.
    """
    try:
        text = _canonical(value)
        if not text.isascii():
            text.encode()  # raises where it is not Unicode text
    except UnicodeEncodeError:
        raise ValueError("holds half a surrogate pair, which is not Unicode text: send whole characters") from None
    except RecursionError:
        raise ValueError(f"is not JSON: it is nested too deeply (at most {JSON_DEPTH_MAX} levels)") from None
    except (TypeError, ValueError) as error:
        why = str(error)
        if "Out of range float" in why:
            why = "it holds NaN, or a number that is infinite or beyond 1.8e308"
        elif "not supported between" in why:  # the encoder failed to sort them
            why = "the keys of an object must all be strings"
        raise ValueError(f"is not JSON: {why}") from None
    # A walk in Python is slow beside the encoder in C, so only a suspicious value is walked.
    if "\\u0000" in text and _holds_nul(value):
        raise ValueError("holds the character NUL (\\u0000), which PostgreSQL cannot store: remove it")
    if len(text) > JSON_DEPTH_MAX < text.count("[") + text.count("{") and _depth_exceeds(value, JSON_DEPTH_MAX):
        raise ValueError(f"is nested more than {JSON_DEPTH_MAX} levels deep: flatten it")
    return text


def as_kept(text: str) -> str:
    """Canonical JSON as it would be if its numbers came from ``jsonb``, which keeps neither exponents nor the sign of zero."""
    return json_text(json.loads(text, parse_float=_kept_number))


def _kept_number(text: str) -> int | float:
    return int(Decimal(text)) if "e+" in text else float(text) + 0.0  # -0.0 + 0.0 is 0.0


def _holds_nul(value: Any) -> bool:
    stack = [value]
    while stack:
        match stack.pop():
            case str() as text if "\0" in text:
                return True
            case Mapping() as mapping:
                stack.extend(mapping.keys())
                stack.extend(mapping.values())
            case list() | tuple() as items:
                stack.extend(items)
    return False


def _depth_exceeds(value: Any, limit: int) -> bool:
    containers = [node for node in (value,) if isinstance(node, Mapping | list | tuple)]
    for _ in range(limit):
        children = [child for node in containers for child in (node.values() if isinstance(node, Mapping) else node)]
        containers = [child for child in children if isinstance(child, Mapping | list | tuple)]
    return bool(containers)
