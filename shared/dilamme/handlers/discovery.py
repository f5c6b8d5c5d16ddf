"""Find the modules of handlers that users write."""

import importlib
import sys
from pathlib import Path

from dilamme.handlers.fork import children_end_here

DEMO = "demo"


def load_jobs(folder: Path, *, demo: bool) -> None:
    """Imports every module below ``folder``: the import registers its handlers. Those of demo.* need ``demo``."""
    sys.path.insert(0, str(folder.parent))  # a module of handlers can then import another one as jobs.<name>
    for file in sorted(folder.rglob("*.py")):
        name = ".".join(file.relative_to(folder).with_suffix("").parts)
        if not name.endswith("__init__") and (demo or name != DEMO):
            with children_end_here():
                importlib.import_module(f"{folder.name}.{name}")
