"""The figures of docs/benchmarks.md are those of the committed results."""

import json
from typing import Any

import pytest

from tests.support.pages import ROOT, table, text

PAGE = " ".join(text("docs/benchmarks.md").split())


def results(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["drain", "drain_deep", "depth", "latency", "enqueue", "fairness"])
def test_the_machine_is_the_one_that_they_ran_on(name: str) -> None:
    machine = results(name)["machine"]
    version = machine["python"].removeprefix("CPython ").rpartition(".")[0]
    told = f"{machine['cores']} cores ({machine['processor']}, {machine['memory_gib']} GiB, Python {version}"
    assert told in PAGE


def test_the_rates_of_draining() -> None:
    rates = results("drain")["results"]
    rows = table("docs/benchmarks.md", "| jobs a second | 1 process | 2 processes |")
    told = {row[0].strip("*").split(" ")[0]: [cell.strip("*") for cell in row[1:]] for row in rows}
    names = {"bare": "bare SQL in 1,000s"}
    assert told == {
        name: [f"{rates[names.get(name, name)][f'jobs_per_second_{processes}']['median']:,.0f}" for processes in (1, 2)]
        for name in told
    }
    assert {names.get(name, name) for name in told} >= {name for name in rates if not name.startswith("bare")}


def test_the_latencies() -> None:
    measured = results("latency")["results"]
    told = [row[1:] for row in table("docs/benchmarks.md", "| | p50 | p99 |")]
    cases = ("pickup, idle", "pickup, half load", "scheduled, lateness")
    assert told == [[f"{measured[case][p]:.1f} ms" for p in ("p50_ms", "p99_ms")] for case in cases]


def test_the_ratios_of_depth() -> None:
    one, two, beside_one, beside_two = (target[1] for target in results("drain_deep")["targets"])
    assert f"one process drains at {one:.2f} of the shallow rate and two at {two:.2f}" in PAGE
    assert f"it is {beside_one:.2f} and {beside_two:.2f}" in PAGE


def test_the_times_of_a_claim_and_of_a_tick() -> None:
    depth = results("depth")
    depths = ("10,000", "100,000", "1,000,000")
    claims = [depth["claim_ms"][pending]["median"] for pending in depths]
    ticks = [depth["tick_ms"][pending]["median"] for pending in depths]
    assert f"{min(claims):.0f} to {max(claims):.0f} ms with {depths[0]}, {depths[1]} or {depths[2]} pending" in PAGE
    assert f"a tick {min(ticks):.0f} to {max(ticks):.0f} ms" in PAGE
    fifths = [fifth["median"] for fifth in depth["held_jobs_per_second"]["Dilamme"]]
    assert f"drains at {fifths[-1] / fifths[0]:.2f} of the first" in PAGE


def test_the_rates_of_storing() -> None:
    ours, library = (results("enqueue")["results"][name] for name in ("Dilamme's API", "PgQueuer's library"))
    told = [f"{round(rival['batch_per_second']['median'], -2):,.0f}" for rival in (ours, library)]
    assert f"{ours['single_per_second']['median']:.0f} jobs a second one by one and {told[0]} in batches" in PAGE
    assert f"stores {library['single_per_second']['median']:.0f} and {told[1]} in the same run" in PAGE


def test_the_trickle_never_ran_without_ageing() -> None:
    without = results("fairness")["results"]["without ageing"]
    assert (without["P2"]["ran"], without["P3"]["ran"]) == (0, 0)


def test_the_bounds() -> None:
    bounds = results("bounds")
    told = list(table("docs/benchmarks.md", "| | the call | until the last | longest gap between ticks |"))
    assert told == [
        [
            name,
            f"{one['call_seconds']:.2f} s",
            f"{one['last_seconds']:.1f} s",
            f"{one['longest_tick_gap_seconds']:.2f} s",
        ]
        for name, one in bounds["results"]["dependents"].items()
    ]
    assert f"A job with {bounds['arguments']['jobs']:,} dependents" in PAGE
    late = [row["rows"] for row in bounds["results"]["retention"] if row["seconds"] >= 130]
    assert f"the table has {min(late):,} to {max(late):,} rows" in PAGE
    assert bounds["machine"] == results("memory")["machine"]
    machine = bounds["machine"]
    assert f"{machine['cores']} cores ({machine['processor']}, {machine['memory_gib']} GiB, Python 3.11)" in PAGE


def test_the_memory() -> None:
    found = results("memory")
    assert found["scale"] == 1
    assert table("docs/benchmarks.md", "| | worker | api | backend |") == [
        [name, *(f"{peaks[process]:.0f}" for process in ("worker", "api", "backend"))]
        for name, peaks in found["results"].items()
    ]
