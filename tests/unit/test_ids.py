"""Ids of one process are in the order in which they were made: the comparator's last level, and a list's cursor, need it."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from dilamme.store.ids import new_id, new_ids

COUNT = 20_000  # far more than a millisecond has room for, so the counter within one is met


def test_each_id_is_greater_than_the_one_before() -> None:
    for ids in ([new_id() for _ in range(COUNT)], new_ids(COUNT)):
        assert all(earlier < later for earlier, later in pairwise(ids))


def test_ids_of_several_threads_are_all_different_and_each_thread_gets_ascending_ones() -> None:
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(new_ids, [COUNT] * 4))
    assert len({one for part in parts for one in part}) == 4 * COUNT
    for part in parts:
        assert all(earlier < later for earlier, later in pairwise(part))


def test_an_id_is_a_uuid_of_version_7() -> None:
    made = new_id()
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
