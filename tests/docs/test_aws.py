"""What docs/aws.md says of the template is what the template has."""

import re

from tests.support.checkout import CHECKOUT
from tests.template.cloudformation import deployed, of_type, source

TEXT = (CHECKOUT / "docs" / "aws.md").read_text(encoding="utf-8")
SAMS_OWN = {"DefaultAuthorizer"}  # named there, and the user's to add


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below this line of headings."""
    table = TEXT.split(heading + "\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


def words(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def test_there_is_something_to_do_about_every_alarm() -> None:
    alarms = {words(name.removesuffix("Alarm")) for name in of_type(deployed(), "AWS::CloudWatch::Alarm")}
    assert {row[0] for row in rows("| alarm | what to do |")} == alarms


def test_the_parameters_have_the_defaults_that_it_says() -> None:
    parameters = source()["Parameters"]
    told = rows("| parameter | default | |")
    assert len(told) > 5
    for names, defaults, _ in told:
        known = [str(parameters[name.strip("` ")]["Default"]) for name in names.split(",")]
        assert [value.strip("` ") for value in defaults.split(",")] == known, names


def test_every_name_of_ours_in_it_is_in_the_template() -> None:
    template = source()
    known = {*template["Parameters"], *template["Outputs"], *template["Resources"], *SAMS_OWN}
    told = set(re.findall(r"`([A-Z][a-z]+[A-Z][A-Za-z]*)(?:=[^`]*)?`", TEXT))
    assert len(told) > 20
    assert told <= known


def test_every_link_into_the_page_arrives() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in TEXT.splitlines()
        if line.startswith("#")
    }
    links = set(re.findall(r"\]\(#([^)]+)\)", TEXT))
    assert links
    assert links <= headings
