"""The wheel in a fresh environment: what a new user types, but for the download of the dependencies, which are lent from ours."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.checkout import CHECKOUT
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel, which sees our dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    program = folder / "bin" / "dilamme"
    program.write_text(f"#!{folder}/bin/python\nfrom dilamme_cli.main import main\nmain()\n")
    program.chmod(0o755)
    return folder


def run(environment: Path, folder: Path, *command: str) -> str:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("DILAMME", "PYTEST", "PYTHONPATH"))
    }
    variables = {**kept, "PATH": f"{environment}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(environment)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_holds_the_product_and_nothing_of_the_checkouts_own(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    product = {name.removeprefix("dilamme_local/product/") for name in names if "/product/" in name}
    assert {"template.yaml", "samconfig.toml", "layers/dependencies/requirements.txt"} <= product
    assert {f"functions/{name}/handler.py" for name in ("api", "scheduler", "worker", "rescue", "migrate")} <= product
    assert {name.split("/")[0] for name in names if not name.startswith("dilamme-")} == {
        "dilamme",
        "dilamme_cli",
        "dilamme_local",
    }
    assert {
        "dilamme/py.typed",
        "dilamme/store/migrations/0001_initial.sql",
        "dilamme_cli/skeleton/jobs/hello.py.txt",
    } <= {*names}
    assert not [name for name in names if "__pycache__" in name]


def test_a_new_application_runs_a_job_and_its_tests_pass(environment: Path, tmp_path: Path) -> None:
    run(environment, tmp_path, "dilamme", "new", "shop")
    shop = tmp_path / "shop"
    shown = shop / "shown"
    with shown.open("w") as output:
        dev = subprocess.Popen(
            [str(environment / "bin" / "dilamme"), "dev", "--port", "0"], cwd=shop, stdout=output, stderr=output
        )
    try:
        wait_until(lambda: "ready" in shown.read_text() or dev.poll() is not None)
        told = run(environment, shop, "dilamme", "submit", "shop.hello", '{"name": "Ada"}', "--wait", "--json")
        assert json.loads(told)["result"] == {"hello": "Ada"}
    finally:
        dev.terminate()
        dev.wait(60)
    passed = run(environment, shop, "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "2 passed" in passed
    run(environment, shop, "dilamme", "build")
    assert (shop / ".dilamme" / "template.yaml").read_text() != ""
    assert (shop / ".dilamme" / "functions" / "worker" / "jobs" / "hello.py").is_file()
