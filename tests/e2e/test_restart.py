"""What was stored outlives the stack, which is stopped and started again on the same folder."""

from pathlib import Path

from dilamme_local.options import Options
from dilamme_local.stack import Stack
from tests.e2e.system import System
from tests.support.waiting import wait_until


def test_jobs_survive_a_restart_and_what_ran_at_the_stop_runs_again(functions_folder: Path, tmp_path: Path) -> None:
    options = Options(
        port=0,
        data_dir=tmp_path / "data",
        functions_folder=functions_folder,
        variables={"E2E_FOLDER": str(tmp_path)},
    )
    with Stack(options) as stack:
        system = System(stack, tmp_path)
        parent, gate = system.submit_gated()
        child = system.submit("e2e.note", dependencyIds=[parent])
        done = system.submit("demo.echo", {"hello": "world"})
        system.wait_for(done)
        later = system.submit("demo.echo", scheduledAt="2035-01-01T00:00:00Z")
    system.open(gate)
    with Stack(options) as stack:
        system = System(stack, tmp_path)
        assert system.job(done)["result"] == {"hello": "world"}
        assert system.job(later)["status"] == "pending"
        wait_until(lambda: len(system.starts(parent)) == 2)
        job = system.wait_for(parent)
        assert (job["attempt"], job["lastError"]["reason"]) == (2, "worker_lost")
        assert system.wait_for(child)["attempt"] == 1
