"""What of the user's shell reaches the processes of a local stack: what the user means for handlers, and nothing besides.

A shell is full of words for other programs: which PostgreSQL psql goes to, which account of AWS, which proxy, how a Python
is to behave. libpq, boto3 and Python obey them in our processes too.
"""

import logging
import os
from collections.abc import Mapping

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def forget_other_servers() -> None:
    """Takes libpq's variables out of this process: each goes to its own PostgreSQL, whose address is complete.

    A complete address is not enough: a PGSERVICE that does not exist, for one, is refused whatever the address says.
    """
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]


def without_python(variables: Mapping[str, str]) -> dict[str, str]:
    """Without what changes a Python: a function has Lambda's, which has no such settings."""
    return {name: value for name, value in variables.items() if not name.startswith("PYTHON")}


def for_functions(variables: Mapping[str, str], *, own_database: bool) -> dict[str, str]:
    """What a function inherits. libpq's variables belong to a database of the user's, if there is one."""
    foreign = ("AWS_", "PG") if own_database else ("AWS_",)
    kept = {name: value for name, value in without_python(variables).items() if not name.startswith(foreign)}
    if kept.get("LOG_LEVEL", "INFO").upper() not in logging.getLevelNamesMapping():
        del kept["LOG_LEVEL"]  # another program's word, at which Powertools would end
    return kept | loopback_without_proxy(kept)


def loopback_without_proxy(variables: Mapping[str, str]) -> dict[str, str]:
    """Handlers may need the proxy; what is on this machine, it cannot reach. The name is read in either case."""
    named = ",".join(variables.get(name, "") for name in ("no_proxy", "NO_PROXY")).split(",")
    direct = "*" if "*" in named else ",".join(dict.fromkeys([*filter(None, named), *LOOPBACK]))
    return {"no_proxy": direct, "NO_PROXY": direct}
