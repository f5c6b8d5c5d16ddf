"""The cost table of docs/aws.md is the one that the template's values give."""

from tools import cost


def test_the_document_has_the_computed_tables() -> None:
    assert cost.written() == cost.tables(), "run: make docs"


def test_a_scheduler_that_never_rests_costs_what_one_function_running_all_month_does() -> None:
    seconds = cost.HOURS * 3600
    compute = seconds * 0.25 * cost.LAMBDA_GB_SECOND["arm64"]
    assert compute < cost.idle_scheduler(256, "arm64", idle_exit=False) < compute * 1.1


def test_leaving_when_idle_is_cheaper_by_an_order_of_magnitude() -> None:
    for memory in (128, 256, 512):
        prices = [cost.idle_scheduler(memory, "arm64", idle_exit=leaves) for leaves in (True, False)]
        assert prices[0] * 10 < prices[1]
