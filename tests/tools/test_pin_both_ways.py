"""A lock file of uv's becomes one that pip takes."""

from tools.pin_both_ways import pinned_both_ways

LOCK = """\
click==8.1.8 \\
    --hash=sha256:aa
httpx[http2]==0.28.1 ; python_version < '3.14' \\
    --hash=sha256:bb \\
    --hash=sha256:cc
typer==0.15 \\
    --hash=sha256:dd
"""


def test_an_entry_with_extras_is_preceded_by_the_same_one_without_them() -> None:
    plain = "httpx==0.28.1 ; python_version < '3.14' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    before, after = LOCK.split("httpx[http2]")
    assert pinned_both_ways(LOCK) == before + plain + "httpx[http2]" + after


def test_a_lock_that_is_pinned_both_ways_stays_as_it_is() -> None:
    once = pinned_both_ways(LOCK)
    assert pinned_both_ways(once) == once


def test_a_lock_without_extras_stays_as_it_is() -> None:
    lock = "click==8.1.8 \\\n    --hash=sha256:aa\n"
    assert pinned_both_ways(lock) == lock
