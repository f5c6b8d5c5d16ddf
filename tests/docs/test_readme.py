"""What the README says is held to what the code does."""

from tests.template.cloudformation import CHECKOUT as ROOT

README = ROOT / "README.md"


def test_every_path_in_the_map_of_the_code_exists() -> None:
    section = README.read_text(encoding="utf-8").split("## A map of the code")[1]
    lines = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    paths = [line.split()[0] for line in lines]
    assert len(paths) > 8
    missing = [path for path in paths if not any(ROOT.rglob(path.rstrip("/")))]
    assert missing == []
