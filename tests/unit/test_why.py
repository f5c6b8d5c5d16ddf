"""The words of an explanation."""

import pytest

from dilamme.wire.why import ordinal, span


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-0.001, "0 ms"), (0, "0 ms"), (0.0304, "30 ms"), (1, "1 s"), (74, "74 s"), (119.4, "119 s"), (120, "2 min"),
     (7_199, "120 min"), (7_200, "2 h"), (172_799, "48 h"), (172_800, "2 days"), (86_400 * 4_000, "4,000 days")],
)  # fmt: skip
def test_a_length_of_time_is_said_in_one_unit(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (10, "10th"), (11, "11th"), (12, "12th"), (13, "13th"), (21, "21st"),
     (111, "111th"), (112, "112th"), (341, "341st"), (1_013, "1,013th"), (9_999, "9,999th")],
)  # fmt: skip
def test_a_place_in_line_is_said_as_a_person_does(number: int, said: str) -> None:
    assert ordinal(number) == said
