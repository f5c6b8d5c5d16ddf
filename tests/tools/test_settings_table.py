"""The table of docs/settings.md is made from the settings."""

from dilamme.settings import PLACES, PREFIX, Settings
from tools.settings_table import CLOSING, OPENING, PAGE, table, with_table


def test_every_variable_has_a_row() -> None:
    variables = [line.split("|")[1].strip(" `") for line in table().splitlines()[2:]]
    assert variables == [PREFIX + name.upper() for name in [*Settings.model_fields, *PLACES]]


def test_a_default_is_spelt_as_it_is_typed() -> None:
    rows = {line.split("|")[1].strip(" `"): line.split("|")[2].strip() for line in table().splitlines()[2:]}
    assert (rows["DILAMME_TICK_SECONDS"], rows["DILAMME_IDLE_EXIT"], rows["DILAMME_WORKER_FUNCTION"]) == (
        "1",
        "true",
        "",
    )


def test_the_table_replaces_only_what_stands_between_its_marks() -> None:
    assert with_table(f"before\n{OPENING}old\n{CLOSING}\nafter\n") == f"before\n{OPENING}{table()}{CLOSING}\nafter\n"


def test_the_committed_page_has_the_present_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text) == text, "run: make docs"
