"""The documents, as their tests read them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])


def text(name: str) -> str:
    """A page of the checkout."""
    return (ROOT / name).read_text(encoding="utf-8")


def table(name: str, heading: str) -> list[list[str]]:
    """The cells of the table below this line of headings."""
    rows = text(name).split(f"{heading}\n")[1].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def blocks(name: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text(name), re.DOTALL | re.MULTILINE)


def without_blocks(page: str) -> str:
    return re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """What a link may name after its #, as GitHub makes it of the headings."""
    headings = [line for line in without_blocks(page).splitlines() if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", heading.lstrip("# ").lower()).replace(" ", "-") for heading in headings}


def links(page: str) -> Iterator[tuple[str, str]]:
    """(file, anchor) of every link and picture of a page that leads into this checkout."""
    for target in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
        if "://" not in target:
            file, _, anchor = target.partition("#")
            yield file, anchor
