"""The benchmarks run, on a handful of jobs: what they would measure is not looked at, what they do is."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _common, _peers, _server, bounds, capacity, depth, drain, enqueue, fairness, latency, memory
from dilamme_local.postgres import Postgres

OURS = "Dilamme"
ONCE = ["--rounds", "1"]


@pytest.fixture(autouse=True)
def results(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a benchmark of this test leaves its results; it runs on the tests' own server."""

    @contextmanager
    def serve() -> Iterator[Postgres]:
        yield postgres

    monkeypatch.setattr(_server, "serve", serve)
    monkeypatch.setattr(_common, "RESULTS", tmp_path)
    return tmp_path


def found(results: Path, name: str) -> Any:
    return json.loads((results / f"{name}.json").read_text(encoding="utf-8"))


def test_drain_runs_the_deployed_worker_beside_bare_sql(results: Path) -> None:
    drain.main([*ONCE, "--jobs", "40", "--workers", "1,2", "--only", "dilamme,bare SQL in 200s"])

    rates = found(results, "drain")["results"]
    assert rates.keys() == {OURS, "bare SQL in 200s"}
    assert all(rate["median"] > 0 for rival in rates.values() for rate in rival.values())


def test_a_deep_drain_leaves_the_rest_and_is_set_beside_a_shallow_one(results: Path) -> None:
    drain.main(
        [
            *ONCE,
            "--jobs",
            "20",
            "--deep",
            "2000",
            "--future",
            "100",
            "--blocked",
            "10",
            "--workers",
            "1",
            "--only",
            "dilamme",
        ]
    )

    report = found(results, "drain_deep")
    assert len(report["results"]) == 3
    assert len(report["targets"]) == 2


@pytest.mark.parametrize("name", [peer.name for peer in _peers.peers()])
def test_a_peer_drains(results: Path, name: str) -> None:
    peer = next(peer for peer in _peers.peers() if peer.name == name)
    if peer.missing:
        pytest.skip(peer.missing)
    if peer.command[0].endswith("node") and not (_peers.NODE / "node_modules").exists():
        pytest.skip("the peers on Node are not installed: make bench-drain does it")
    drain.main([*ONCE, "--jobs", "40", "--workers", "1", "--only", name])

    assert found(results, "drain")["results"][name]["jobs_per_second_1"]["median"] > 0


def test_depth_finds_work_for_every_claim_and_tick(results: Path) -> None:
    arguments = ["--depths", "50,100", "--future", "30", "--blocked", "5", "--claims", "2", "--ticks", "3"]
    depth.main([*ONCE, *arguments, "--held", "100", "--only", "dilamme"])

    report = found(results, "depth")
    assert list(report["claim_ms"]) == ["50", "100", "50 beside 30 future and 5 blocked"]
    assert report["tick_ms"].keys() == report["claim_ms"].keys()
    assert [len(fifths) for fifths in report["held_jobs_per_second"].values()] == [5]


def test_latency_measures_every_job_that_it_posted(results: Path) -> None:
    latency.main([*ONCE, "--idle", "3", "--seconds", "1", "--scheduled", "4"])

    report = found(results, "latency")["results"]
    assert (report[latency.IDLE]["samples"], report[latency.SCHEDULED]["samples"]) == (3, 4)
    assert report[latency.SCHEDULED]["p50_ms"] >= 0


def test_bounds_watches_the_ticks_and_counts_the_rows(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "COUNT_SECONDS", 1.0)
    bounds.main(["--jobs", "1500", "--rate", "5", "--minutes", "0.04", "--kept", "60"])

    report = found(results, "bounds")["results"]
    assert [one["last_seconds"] > 0 for one in report["dependents"].values()] == [True] * 3
    assert report["batch_seconds"] > 0
    assert [row["seconds"] for row in report["retention"]] == [1, 2]


def test_memory_sees_every_process(results: Path) -> None:
    memory.main(["--scale", "0.002"])

    report = found(results, "memory")["results"]
    assert len(report) == 6
    assert all(peaks["worker"] > 20 and peaks["backend"] > 0.5 for peaks in report.values())


def test_enqueue_stores_through_the_api_handler_and_the_libraries(results: Path) -> None:
    enqueue.main([*ONCE, "--single", "3", "--batches", "2", "--batch", "10", "--only", "dilamme,bare"])

    rates = found(results, "enqueue")["results"]
    both = enqueue.MEASURES.keys()
    assert {name: rate.keys() for name, rate in rates.items()} == {
        **dict.fromkeys((enqueue.OURS, enqueue.LIBRARY, enqueue.FUNCTION, enqueue.BARE), both),
        enqueue.ASYNC: {"single_per_second"},
    }


def test_a_trickle_starves_without_ageing_and_runs_with_it(results: Path) -> None:
    fairness.main(["--seconds", "4", "--ageing", "0.5", "--capacity", "40", "--flood", "1.5"])

    report = found(results, "fairness")["results"]
    assert report[fairness.WITHOUT]["P3"]["ran"] == 0
    assert report[fairness.WITH]["P3"]["ran"] > 0


def test_the_page_on_capacity_grows_with_the_load() -> None:
    page = capacity.write(
        capacity.Measured((10_000.0, 15_000.0), 30_000.0, 0.005, 0.006, 500.0, 20_000.0, 40_000.0, "a processor")
    )
    rows = [
        line.split("|") for line in page.splitlines() if line.startswith(("| 100 |", "| 10,000 |", "| 1,000,000 |"))
    ]

    assert [row[4].strip() for row in rows[:3]] == ["1", "1", "87"]
    assert rows[2][8].strip() == "4"


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed (the bench group)")
def test_a_plot_is_written(results: Path) -> None:
    _common.plot("any", lambda pyplot: pyplot.figure())

    assert (results / "any.png").stat().st_size > 0
