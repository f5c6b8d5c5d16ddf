"""The deliberate faults fit the code as it is: `make mutants`, which takes minutes, need not be run to learn otherwise."""

from pathlib import Path

from tests.mutants.__main__ import ROOT, kill, stale
from tests.mutants.faults import FAULTS, Fault


def test_every_faults_text_stands_in_its_file_once_and_its_tests_exist() -> None:
    assert list(stale(ROOT, FAULTS)) == []


def test_every_invariant_has_a_fault() -> None:
    assert {fault.invariant for fault in FAULTS} >= set(range(1, 16))


def test_no_two_faults_share_a_name() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_a_fault_that_went_stale_is_noticed() -> None:
    gone = Fault("gone", 1, (("Makefile", "no such text in it", ""),), ("mutants/test_faults", "nowhere"))
    assert len(list(stale(ROOT, [gone]))) == 2


def test_a_fault_is_noticed_by_a_test_that_fails_and_survives_one_that_does_not(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "code.py").write_text("ANSWER = 42\n")
    (tmp_path / "tests" / "looks.py").write_text("import pathlib\n" + _TEST.format("42"))
    (tmp_path / "tests" / "nods.py").write_text("import pathlib\n" + _TEST.format("4"))
    spoilt = (("code.py", "42", "41"),)
    assert kill(tmp_path, Fault("one", 1, spoilt, ("looks",))) == (True, "tests/looks.py::test_it")
    assert not kill(tmp_path, Fault("two", 1, spoilt, ("nods",)))[0]
    assert (tmp_path / "code.py").read_text() == "ANSWER = 42\n"


_TEST = "def test_it():\n    assert '{}' in pathlib.Path('code.py').read_text()\n"
