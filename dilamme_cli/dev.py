"""`dilamme dev`, which is `make run` too: the whole stack on this machine, with an application's handlers."""

import json
import signal
import threading
import time
from pathlib import Path

from rich.console import Console
from watchfiles import PythonFilter, watch

from dilamme_cli.console import Tail
from dilamme_local.application import Application
from dilamme_local.errors import StackError
from dilamme_local.options import Options
from dilamme_local.stack import Stack

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(application: Application, port: int, data_dir: Path, database_url: str | None, *, reload: bool) -> None:
    """Runs the stack until a signal ends it, which is no error.

    Raises:
        StackError: it could not start, or could not go on.
    """
    options = Options(port=port, data_dir=data_dir, database_url=database_url, application=application)
    run_stack(Stack(options), application if reload else None)


def run_stack(stack: Stack, watched: Application | None = None) -> None:
    """Runs a stack until a signal ends it; the workers follow the files of a ``watched`` application."""
    console = Console(soft_wrap=True, highlight=False)
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    placed = stack.functions_folder / "worker"
    tail = Tail(stack.options.data_dir / "logs" / "worker.log", console, placed)
    stopping = threading.Event()
    try:
        try:
            stack.start()
            print(f"Dilamme is ready at {stack.url}   (docs at /docs)", flush=True)
            tail.start()
            if watched is not None:
                arguments = (stack, watched, console, stopping)
                threading.Thread(target=_follow, args=arguments, daemon=True).start()
            while stack.postgres is None or stack.postgres.running:
                time.sleep(1)
            raise StackError(f"PostgreSQL has ended: see {stack.postgres.log}")
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)  # an impatient second Ctrl-C must not leave half of it running
            stopping.set()
            stack.stop()
            tail.stop()
    except KeyboardInterrupt:
        return


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _follow(stack: Stack, application: Application, console: Console, stopping: threading.Event) -> None:
    """Gives the next jobs to new workers after each save of a module."""
    paths = [path.resolve() for path in (application.jobs, *application.include, application.file)]
    interesting = PythonFilter(extra_extensions=(".toml", ".json", ".sql", ".html", ".txt"))
    changes = watch(*paths, watch_filter=interesting, stop_event=stopping, raise_interrupt=False, debounce=200, step=30)
    for changed in changes:
        files = sorted({Path(path) for _, path in changed})
        if application.file.resolve() in files:
            console.print(f"  {application.file.name} has changed: stop, and start again", style="yellow")
            continue
        started = time.monotonic()
        names = ", ".join(file.name for file in files[:3]) + (" …" if len(files) > 3 else "")
        if (error := stack.reload()) is None:
            console.print(f"  reloaded {names} in {time.monotonic() - started:.1f} s", style="dim")
        else:
            message = str(json.loads(error.payload).get("errorMessage")).replace(
                f"{stack.functions_folder}/worker/", ""
            )
            console.print(f"  jobs wait until this is mended: {message}", style="red")
