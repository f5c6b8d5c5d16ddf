"""What of the user's shell the functions of a local stack find in their environment."""

import pytest

from dilamme_local.inherited import for_functions

LOOPBACK = "127.0.0.1,localhost,::1"


@pytest.mark.case("E3")
def test_libpqs_variables_are_for_a_database_of_the_users() -> None:
    shell = {"PGSSLMODE": "require", "AWS_PROFILE": "prod", "PYTHONWARNINGS": "error", "HOBBY": "go", "PATH": "/bin"}
    kept = for_functions(shell, own_database=False)
    assert {name for name in shell if name in kept} == {"PGSSLMODE", "HOBBY", "PATH"}
    assert "PGSSLMODE" not in for_functions(shell, own_database=True)


@pytest.mark.case("E3")
@pytest.mark.parametrize(
    ("shell", "direct"),
    [
        ({}, LOOPBACK),
        ({"NO_PROXY": "example.com"}, f"example.com,{LOOPBACK}"),
        ({"no_proxy": "a", "NO_PROXY": "b"}, f"a,b,{LOOPBACK}"),
        ({"no_proxy": "*"}, "*"),
        ({"no_proxy": ""}, LOOPBACK),
    ],
)
def test_the_proxy_is_kept_for_handlers_and_never_asked_for_what_is_here(shell: dict[str, str], direct: str) -> None:
    kept = for_functions({"HTTP_PROXY": "http://proxy:3128", **shell}, own_database=True)
    assert kept == {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": direct, "no_proxy": direct}


@pytest.mark.parametrize(("level", "kept"), [("DEBUG", True), ("debug", True), ("verbose", False), ("", False)])
def test_a_log_level_of_another_programs_is_left_out(level: str, kept: bool) -> None:
    assert ("LOG_LEVEL" in for_functions({"LOG_LEVEL": level}, own_database=True)) is kept
