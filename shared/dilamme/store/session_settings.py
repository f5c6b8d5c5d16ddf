"""The settings of PostgreSQL that our sessions fix, whatever a server, a database, a role or libpq's environment says.

A pooler hands a connection from one client to the next, so nothing is set on a session (ARCHITECTURE, invariant 12). There
are four ways left, and this is the table of what goes by which:

* at the start of a connection: ``AT_START``, only what PgBouncer and RDS Proxy take there (they refuse ``options``);
* in each BEGIN: ``ISOLATION``, which costs no round trip;
* on the functions' roles: ``ON_ROLES``, set anew by each migration. A role's setting goes before a database's;
* in each transaction under another role, which carries no limits: ``LIMITS``; in a migration: ``IN_A_MIGRATION``.

For everything else our statements are written so that no setting changes their meaning: rows come in binary, times in UTC,
arrays that may hold NULL in binary. `tests/integration/test_session_settings.py` sets each adversely.

Not fixed is what an owner may wish for: ``default_transaction_read_only``, ``synchronous_commit``, memory and plans.
"""

from psycopg import IsolationLevel

ROLE_PREFIX = "dilamme_"

# Texts are sent and read in UTF-8. In LATIN1 not every text can be sent, and SQL_ASCII gives bytes for text.
AT_START = {"client_encoding": "UTF8"}

# A statement must see what was committed before it: who ends a job looks for its children in a second statement.
ISOLATION = IsolationLevel.READ_COMMITTED

# Our statements take milliseconds; the limits end one that does not. A single statement has no BEGIN to say its isolation.
# A frozen function keeps its connection until the platform ends it, which may be hours after an upgrade. The longest that a
# worker is silent, with a handler running, is the 15 minutes that Lambda allows.
_ON_ALL = {
    "idle_in_transaction_session_timeout": "10s",
    "idle_session_timeout": "20min",
    "default_transaction_isolation": "read committed",
    # The planner takes a cascade, of which it cannot know the length, to be worth compiling: half a second each time.
    "jit": "off",
}
ON_ROLES = {
    "api": {"statement_timeout": "10s", "lock_timeout": "5s", **_ON_ALL},
    "scheduler": {"statement_timeout": "20s", "lock_timeout": "2s", **_ON_ALL},
    "worker": {"statement_timeout": "20s", "lock_timeout": "2s", **_ON_ALL},
    "rescue": {"statement_timeout": "20s", "lock_timeout": "5s", **_ON_ALL},
}

# If the roles could not be created, each transaction sets the limits itself.
LIMITS = "SET LOCAL statement_timeout = '20s'; SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '30s'"

# A migration takes as long as it takes, and its texts are read as the standard says. PostgreSQL 15 does not know all of them.
IN_A_MIGRATION = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "transaction_timeout": "0",
    "standard_conforming_strings": "on",
}
