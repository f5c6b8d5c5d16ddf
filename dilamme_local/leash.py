"""Runs a command that must not outlive whoever holds the other end of stdin: ``python leash.py COMMAND…``.

A server started directly would survive a SIGKILL of the stack. End of file is the one sign of a parent's death that
every platform gives (Linux's PR_SET_PDEATHSIG is tied to the thread that forked, and exists nowhere else).
"""

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, close_fds=False)  # a lock comes along
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(name, lambda number, _frame: process.send_signal(number))
    threading.Thread(target=_interrupt_at_end_of_file, args=(process,), daemon=True).start()
    return process.wait()


def _interrupt_at_end_of_file(process: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 1024):
        pass
    process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown


if __name__ == "__main__":
    sys.exit(main())
