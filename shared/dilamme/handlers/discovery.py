"""Find the modules of handlers that users write."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from dilamme.domain.errors import ConfigurationError
from dilamme.handlers.fork import children_end_here


def load_jobs(folder: Path, *, demo: bool) -> None:
    """Imports every module below ``folder``, in packages and behind links too: the import registers its handlers.

    ``demo`` registers the demo.* handlers as well.

    Raises:
        ConfigurationError: a module cannot be imported; the message names it, with the line.
    """
    if demo:
        importlib.import_module("dilamme.handlers.demo")
    sys.path.insert(0, str(folder.parent))  # a module of handlers can then import another one as jobs.<name>
    for file in sorted(_modules(folder)):
        name = ".".join(file.relative_to(folder.parent).with_suffix("").parts)
        try:
            with children_end_here():
                importlib.import_module(name.removesuffix(".__init__"))
        except (Exception, SystemExit) as error:
            place = f"{_place(error, folder, file)}: "
            raise ConfigurationError(f"{place}{type(error).__name__}: {error}") from error


def _modules(folder: Path) -> Iterator[Path]:
    """The files of Python. `Path.rglob` follows no links from Python 3.13 on, and ran in circles before."""
    seen = set[Path]()
    for root, folders, files in os.walk(folder, followlinks=True):
        if (real := Path(root).resolve()) in seen:  # a link that leads back up, or a second one to the same folder
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        yield from (Path(root, name) for name in files if name.endswith(".py") and not name.startswith("."))


def _place(error: BaseException, folder: Path, file: Path) -> str:
    """File and line of the user's code that raised: the innermost line below ``folder``, else the module."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    lines = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(folder)
    ]
    return f"{lines[-1].filename}:{lines[-1].lineno}" if lines else str(file)
