"""The graph inside one batch: names resolved, cycles refused, failed dependencies carried on.

Dependencies on jobs that are already stored cannot close a cycle, since a stored job never gains a dependency.
"""

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from uuid import UUID

from dilamme.domain.errors import Fault, InvalidInput
from dilamme.domain.job import OnDependencyFailure
from dilamme.wire.requests import BatchSubmission, Submission

Edges = Sequence[Sequence[int]]


def resolve_refs(batch: Sequence[Submission]) -> list[list[int]]:
    """For each job of the batch, the positions of the jobs it refers to.

    Raises:
        InvalidInput: a name is used twice, unknown, or part of a cycle; the faults name it and the path.
    """
    places: dict[str, int] = {}
    faults: list[Fault] = []
    edges: list[list[int]] = [[] for _ in batch]
    members = [
        (place, job)
        for place, job in enumerate(batch)
        if isinstance(job, BatchSubmission) and (job.ref is not None or job.dependency_refs)
    ]
    for place, job in members:
        if job.ref is not None and places.setdefault(job.ref, place) != place:
            faults.append(Fault(f"/jobs/{place}/ref", f"'{job.ref}' already names job {places[job.ref]} of the batch"))
    for place, job in members:
        if job.dependency_refs:
            edges[place] = _places_of(place, job, places, faults)
    if faults:
        raise InvalidInput(*faults)
    _refuse_cycles(batch, edges)
    return edges


def _places_of(place: int, job: BatchSubmission, places: Mapping[str, int], faults: list[Fault]) -> list[int]:
    for index, ref in enumerate(job.dependency_refs):
        if ref not in places:
            faults.append(Fault(f"/jobs/{place}/dependencyRefs/{index}", f"no job of the batch has the ref '{ref}'"))
    return list(dict.fromkeys(places[ref] for ref in job.dependency_refs if ref in places))


def _refuse_cycles(batch: Sequence[Submission], edges: Edges) -> None:
    try:
        order(edges)
    except CycleError as error:
        cycle: list[int] = error.args[1]
        names = " -> ".join(str(getattr(batch[place], "ref", place)) for place in cycle)
        raise InvalidInput(
            Fault(f"/jobs/{cycle[0]}/dependencyRefs", f"these jobs wait for each other: {names}")
        ) from None


def order(edges: Edges) -> list[int]:
    """Positions with every job behind its dependencies.

    Raises:
        graphlib.CycleError: there is no such order.
    """
    if not any(edges):
        return list(range(len(edges)))
    return list(TopologicalSorter(dict(enumerate(edges))).static_order())


def cancelled_from_the_start(
    batch: Sequence[Submission], edges: Edges, failed_parents: Collection[UUID]
) -> frozenset[int]:
    """Positions of the jobs that ask to be cancelled and whose dependency has failed already, transitively."""
    cancelled: set[int] = set()
    for place in order(edges) if failed_parents else ():
        job = batch[place]
        hit = any(parent in failed_parents for parent in job.dependency_ids) or not cancelled.isdisjoint(edges[place])
        if hit and job.on_dependency_failure is OnDependencyFailure.CANCEL:
            cancelled.add(place)
    return frozenset(cancelled)
