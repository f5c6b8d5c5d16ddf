"""The picture of the dashboard is drawn from the template's own widgets."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import dashboard_picture as picture

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_widgets_are_the_templates_with_every_reference_filled_in() -> None:
    widgets = picture.dashboard()
    assert {widget["type"] for widget in widgets} == {"text", "metric", "log", "alarm"}
    assert "${" not in json.dumps(widgets)


@pytest.mark.parametrize(
    ("stat", "value"), [("Sum", 10), ("Average", 2.5), ("Minimum", 1), ("Maximum", 4), ("p50", 2), ("p99", 4)]
)
def test_a_statistic_is_cloudwatchs(stat: str, value: float) -> None:
    assert picture.statistic([4, 1, 3, 2], stat) == value


def test_points_are_gathered_by_steps_of_time_and_those_before_the_start_are_left_out() -> None:
    step = picture.BIN_SECONDS
    points = [(-1.0, 9.0), (0.0, 1.0), (step - 0.1, 2.0), (2.0 * step, 5.0)]
    assert picture.binned(points, "Sum") == [(0, 3.0), (2 * step, 5.0)]


def test_metrics_and_lines_are_read_from_the_functions_logs(tmp_path: Path) -> None:
    metric = {
        "_aws": {"Timestamp": 105_000, "CloudWatchMetrics": [{"Metrics": [{"Name": "DeadJobs"}]}]},
        "DeadJobs": [3.0],
    }
    line = {"message": "job dead", "job_type": "mail", "reason": "fail"}
    (tmp_path / "worker.log").write_text(f"{json.dumps(metric)}\nno JSON\n{json.dumps(line)}\n", encoding="utf-8")
    run = picture.Run(began=100.0)

    picture._read_logs(tmp_path, run)

    assert run.points["DeadJobs"] == [(5.0, 3.0)]
    assert picture._died(run) == [("job_type", "reason", "jobs"), ("mail", "fail", "1")]


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed (the bench group)")
def test_a_picture_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "PICTURE", tmp_path / "dashboard.png")
    run = picture.Run(began=0.0)
    for name in ("DeadJobs", "JobsCompleted"):
        run.add(name, 1.0, at=1.0)

    picture.draw(picture.dashboard(), run)

    assert (tmp_path / "dashboard.png").read_bytes().startswith(PNG)
