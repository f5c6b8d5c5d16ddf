"""A payload changes its shape between two deployments, with old jobs in the queue."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dilamme_local.options import Options
from dilamme_local.stack import Stack
from tests.e2e.system import System
from tests.support.waiting import wait_until

HEAD = """
from pydantic import BaseModel
from dilamme import Context, job

class Welcome(BaseModel):
"""
FIRST = f"""{HEAD}
    to: str

@job("mail.welcome")
def welcome(payload: Welcome, context: Context) -> str:
    return f"first: {{payload.to}}"
"""
SECOND = f"""{HEAD}
    name: str
    address: str

@job("mail.welcome", version=2)
def welcome(payload: Welcome, context: Context) -> str:
    return f"second: {{payload.name}} at {{payload.address}}"

@welcome.upcast(from_version=1)
def split(old: dict) -> dict:
    return {{"name": old["to"].split("@")[0], "address": old["to"]}}
"""
ADA = {"to": "ada@example.com"}


@pytest.mark.case("Y1", "Y2")
def test_jobs_of_the_old_shape_are_run_by_the_new_code(functions_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "functions"
    shutil.copytree(functions_folder, folder)
    module = folder / "worker" / "jobs" / "mail.py"
    options = Options(
        port=0, data_dir=tmp_path / "data", functions_folder=folder, variables={"E2E_FOLDER": str(tmp_path)}
    )

    def published(system: System) -> dict[str, Any]:
        found: dict[str, Any] = {one["type"]: one for one in system.get("/types")["types"]}.get("mail.welcome", {})
        return found

    module.write_text(FIRST, encoding="utf-8")
    with Stack(options) as stack:
        system = System(stack, tmp_path)
        assert system.wait_for(system.submit("mail.welcome", ADA))["result"] == "first: ada@example.com"
        assert published(system)["version"] == 1
        gate, name = system.submit_gated()
        waits = system.submit("mail.welcome", ADA, dependencyIds=[gate])
        recurring = system.submit("mail.welcome", ADA, dependencyIds=[gate], intervalSeconds=3600)
    module.write_text(SECOND, encoding="utf-8")
    system.open(name)
    with Stack(options) as stack:
        system = System(stack, tmp_path)
        for job_id in (waits, recurring):
            assert system.wait_for(job_id)["result"] == "second: ada at ada@example.com"
        wait_until(lambda: published(system)["version"] == 2, "the new code has published its types")
        old = {"type": "mail.welcome", "payload": ADA}
        assert system.post("/jobs", {**old, "payloadVersion": 1}).status == 201
        assert system.post("/jobs", old).status == 422
        new = system.submit("mail.welcome", {"name": "Ada", "address": "b"})
        done = system.wait_for(new)
        assert (done["payloadVersion"], done["result"]) == (2, "second: Ada at b")
        dead = system.submit("mail.welcome", {"secret": "hunter2"}, payloadVersion=1)
        job = system.wait_for(dead, "dead")
        assert (job["attempt"], job["lastError"]["reason"]) == (1, "invalid_payload")
        assert "hunter2" not in job["lastError"]["message"]
