"""Which commits do not wait for the disk: those that a crash of the server may undo, and no change of a job among them."""

from dilamme.store.sql_blocks import blocks

UNFLUSHED = "set_config('synchronous_commit', 'off', true)"


def test_what_may_be_forgotten_are_invitations_a_renewed_lease_and_the_sweeps_cursor() -> None:
    assert {name for name, text in blocks().items() if UNFLUSHED in text} == {"reserve_or_look", "renew", "move_sweep"}


def test_nothing_else_says_how_long_a_commit_waits() -> None:
    assert all(text.count("synchronous_commit") == text.count(UNFLUSHED) for text in blocks().values())
