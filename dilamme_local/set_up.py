"""Sets up a virtual environment from a lock file with hashes: `python -P dilamme_local/set_up.py .venv requirements.lock`.

One at a time: of two `make` in one fresh checkout, each would clear away what the other is installing. The second waits
and finds it done. With the standard library alone: nothing else is there yet.
"""

import fcntl
import subprocess
import sys
from pathlib import Path
from typing import IO


def set_up(environment: Path, lock: Path) -> None:
    """Makes the environment anew, unless it is newer than its lock file.

    Raises:
        subprocess.CalledProcessError: venv or pip failed, and has said why.
    """
    ready = environment / "ready"
    with lock.open() as turn:
        _wait_for(turn, f"Waiting for another make, which is setting up {environment} …")
        if ready.exists() and ready.stat().st_mtime >= lock.stat().st_mtime:
            return
        if environment.is_symlink():  # `--clear` would empty what it leads to, which others may use
            sys.exit(f"{environment} is a link, and must be set up anew: remove the link, then run make again")
        print(f"Setting up {environment}, once …", flush=True)
        _run(turn, sys.executable, "-m", "venv", "--clear", environment)
        pip = (environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(turn, *pip, "--require-hashes", "-r", lock)
        ready.touch()


def _wait_for(turn: IO[str], while_waiting: str) -> None:
    """The system ends a turn when all who have the file open have ended, however they do."""
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(while_waiting, flush=True)
        fcntl.flock(turn, fcntl.LOCK_EX)


def _run(turn: IO[str], *command: str | Path) -> None:
    # The file goes with it: killed alone, we would leave a venv or a pip at work that nobody waited for.
    subprocess.run([str(part) for part in command], check=True, pass_fds=[turn.fileno()])


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]  # a locale without our dots, or a path
    try:
        set_up(Path(sys.argv[1]), Path(sys.argv[2]))
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
