"""The functions' folders for a local run: the product's own, with an application's handlers linked into the worker's.

The layout is that of a deployment, so that what runs here is found, and imported, as on AWS. Links, not copies: a save is
seen, and a debugger's breakpoints lie in the application's own files.
"""

import shutil
from pathlib import Path

from dilamme_local.application import Application
from dilamme_local.private import make_folder
from dilamme_local.product import FUNCTIONS


def place(application: Application, folder: Path) -> Path:
    """Lays the functions out anew in ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    for function in FUNCTIONS.iterdir():
        if function.is_dir() and function.name != "worker":
            (folder / function.name).symlink_to(function)
    worker = folder / "worker"
    worker.mkdir()
    (worker / "handler.py").symlink_to(FUNCTIONS / "worker" / "handler.py")
    (worker / "jobs").symlink_to(application.jobs)
    for included in application.include:
        link = worker / included.relative_to(application.root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(included)
    return folder
