"""A worker whose users set PG* and DATABASE_URL for a database of their own (H5): ours is found where it was."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.entrance import Entrance
from tests.unit.sources import FUNCTIONS, ROOT

THEIRS = {
    "DATABASE_URL": "postgresql://theirs.invalid/theirs",
    "PGHOST": "theirs.invalid",
    "PGHOSTADDR": "127.0.0.1",
    "PGPORT": "1",
    "PGUSER": "theirs",
    "PGPASSWORD": "theirs",
    "PGDATABASE": "theirs",
    "PGSSLMODE": "verify-full",
    "PGSSLROOTCERT": "/nonexistent",
    "PGSSLCERT": "/nonexistent",
    "PGOPTIONS": "-c search_path=theirs -c default_transaction_read_only=on",
    "PGTARGETSESSIONATTRS": "standby",
    "PGCLIENTENCODING": "LATIN1",
    "PGREQUIREAUTH": "gss",
    "PGAPPNAME": "theirs",
    "PGPASSFILE": "/nonexistent",
}
SETS_ITS_OWN = f"import os\nos.environ.update({THEIRS!r})\n"
PROGRAM = """
import json
from dilamme import session
connection = session.open_connection()
asked = "SELECT current_user, current_database(), current_setting('default_transaction_read_only')"
print(json.dumps([*connection.execute(asked).fetchone(), connection.info.host, os.environ["PGUSER"]]))
"""


@pytest.mark.case("H5")
@pytest.mark.parametrize("when", ["at its import", "while it runs"])
@pytest.mark.parametrize("given", ["in the URL", "in variables"])
def test_our_connection_goes_where_it_went(tmp_path: Path, entrance: Entrance, when: str, given: str) -> None:
    worker = tmp_path / "worker"
    shutil.copytree(FUNCTIONS / "worker", worker, ignore=shutil.ignore_patterns("__pycache__"))
    url = entrance.url("worker")
    place = conninfo_to_dict(url)
    ours = {"DATABASE_URL": url}
    if given == "in variables":
        names = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGPASSWORD": "password", "PGDATABASE": "dbname"}
        ours = {name: str(place[key]) for name, key in names.items() if key in place} | {
            "DATABASE_URL": "postgresql://"
        }
    (worker / "jobs" / "setting.py").write_text(SETS_ITS_OWN if when == "at its import" else "")
    while_it_runs = SETS_ITS_OWN if when == "while it runs" else ""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DILAMME_", "PG", "DATABASE_"))}
    ended = subprocess.run(
        [sys.executable, "-c", f"import handler, os\n{while_it_runs}{PROGRAM}"],
        cwd=worker,
        env={**clean, **ours, "PYTHONPATH": str(ROOT / "shared")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == ["dilamme_worker", place["dbname"], "off", place["host"], "theirs"]
