"""What `sam build` makes: for the right processor, of the pinned versions, small enough."""

import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.sam.stack import ARCHITECTURE, SamStack
from tests.support.checkout import CHECKOUT

pytestmark = pytest.mark.timeout(600)

ELF_MACHINES = {"x86_64": 62, "arm64": 183}  # e_machine, https://www.sco.com/developers/gabi/latest/ch4.eheader.html
LAMBDA_BYTES_MAX = 250 * 1024 * 1024  # of a function and its layers, unzipped
REQUIREMENT = re.compile(r"^([\w.-]+)==([\w.]+)([^\\]*)", re.MULTILINE)


def machines(folder: Path) -> dict[str, int]:
    return {path.name: int.from_bytes(path.read_bytes()[18:20], "little") for path in folder.rglob("*.so*")}


@pytest.fixture(scope="module")
def other_build(stack: SamStack) -> tuple[str, Path]:
    """A build for the processor that this machine does not have."""
    (other,) = ELF_MACHINES.keys() - {ARCHITECTURE}
    return other, stack.build(other, stack.folder / f"build-{other}")


def test_every_library_is_for_this_machines_processor(stack: SamStack) -> None:
    found = machines(stack.build_folder)
    assert len(found) > 10
    assert set(found.values()) == {ELF_MACHINES[ARCHITECTURE]}


def test_every_library_is_for_the_other_processor_when_asked(other_build: tuple[str, Path]) -> None:
    architecture, folder = other_build
    found = machines(folder)
    assert len(found) > 10
    assert set(found.values()) == {ELF_MACHINES[architecture]}


def test_a_function_and_its_layers_fit_into_lambda(stack: SamStack) -> None:
    layers = sum(size(stack.build_folder / layer) for layer in ("DependenciesLayer", "SharedLayer"))
    for function in stack.build_folder.glob("*Function"):
        assert layers + size(function) < LAMBDA_BYTES_MAX / 4


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_layer_has_the_versions_that_the_tests_run_with(stack: SamStack) -> None:
    text = (CHECKOUT / "layers" / "dependencies" / "requirements.txt").read_text()
    pinned = {name: number for name, number, marker in REQUIREMENT.findall(text) if "win32" not in marker}
    installed = {name: version(name) for name in pinned}
    built = {
        info.name.removesuffix(".dist-info") for info in (stack.build_folder / "DependenciesLayer").rglob("*.dist-info")
    }
    assert pinned == installed
    assert {f"{name.replace('-', '_')}-{number}" for name, number in pinned.items()} == built


def test_the_runtimes_own_libraries_are_not_shipped(stack: SamStack) -> None:
    shipped = {path.name for path in (stack.build_folder / "DependenciesLayer" / "python").iterdir()}
    assert not shipped & {"boto3", "botocore", "urllib3", "s3transfer"}


def test_what_users_handlers_require_is_built_into_the_worker_alone(stack: SamStack, tmp_path: Path) -> None:
    for name in ("functions", "layers", "shared"):
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "template.yaml", tmp_path)
    (tmp_path / "functions" / "worker" / "requirements.txt").write_text(f"six=={version('six')}\n")
    built = stack.build(folder=tmp_path / "build", checkout=tmp_path)
    assert [path.parent.name for path in built.rglob("six.py")] == ["WorkerFunction"]


def test_the_shared_layer_is_the_package_with_its_sql_and_its_certificates(stack: SamStack) -> None:
    def files(folder: Path) -> set[str]:
        return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"}

    built = stack.build_folder / "SharedLayer" / "python"
    assert files(built / "dilamme") == files(CHECKOUT / "shared" / "dilamme")
    assert {path.name for path in built.iterdir()} == {"dilamme"}
