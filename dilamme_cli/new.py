"""`dilamme new`: the files of a new application, few enough to read them all."""

import re
from pathlib import Path

import dilamme
from dilamme.domain.patterns import TYPE_PATTERN, follows
from dilamme_local.errors import StackError

SKELETON = Path(__file__).with_name("skeleton")


def make(folder: Path) -> None:
    """Makes an application in a folder that does not exist, or is empty.

    Raises:
        StackError: it holds something, or its name cannot begin a job's type.
    """
    name = re.sub(r"[^a-z0-9]+", "_", folder.resolve().name.lower()).strip("_")
    if not follows(TYPE_PATTERN, f"{name}.hello"):
        raise StackError(f"{folder.name!r} cannot name an application: begin with a letter, such as `dilamme new shop`")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StackError(f"{folder} is not empty: choose another name, or remove it")
    words = {"name": name, "stack": name.replace("_", "-"), "version": dilamme.__version__}
    for file in sorted(SKELETON.rglob("*.txt")):
        within = file.relative_to(SKELETON).with_suffix("")
        target = folder / (".gitignore" if str(within) == "gitignore" else within)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace("{{" + word + "}}", value)
        target.write_text(text, encoding="utf-8")
    print(f"{folder} is there. Next:\n\n    cd {folder}\n    dilamme dev\n")
