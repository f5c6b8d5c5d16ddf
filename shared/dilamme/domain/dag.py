"""The graph inside one batch: resolve names, refuse cycles, cancel the dependents of failed jobs.

A job of the batch is known by its index. Dependencies on jobs that are already stored cannot close a cycle, since a stored
job never gains a dependency.
"""

from collections.abc import Collection, Sequence
from graphlib import CycleError, TopologicalSorter

from dilamme.domain.errors import Fault, InvalidInput

Edges = Sequence[Sequence[int]]


def resolve_refs(refs: Sequence[str | None], dependency_refs: Sequence[Sequence[str]]) -> list[list[int]]:
    """For each job of the batch, the indices of the jobs that it depends on. ``refs`` are the jobs' own names.

    Raises:
        InvalidInput: a name is used twice, unknown, or part of a cycle. The faults give the name or the cycle.
    """
    indices: dict[str, int] = {}
    faults: list[Fault] = []
    for index, ref in enumerate(refs):
        if ref is not None and indices.setdefault(ref, index) != index:
            faults.append(Fault(f"/jobs/{index}/ref", f"'{ref}' already names job {indices[ref]} of the batch"))
    edges: list[list[int]] = [[] for _ in refs]
    for index, names in enumerate(dependency_refs):
        if names:
            faults += [
                Fault(f"/jobs/{index}/dependencyRefs/{position}", f"no job of the batch has the ref '{name}'")
                for position, name in enumerate(names)
                if name not in indices
            ]
            edges[index] = list(dict.fromkeys(indices[name] for name in names if name in indices))
    if faults:
        raise InvalidInput(*faults)
    try:
        order(edges)
    except CycleError as error:
        cycle: list[int] = error.args[1]
        path = " -> ".join(refs[index] or str(index) for index in cycle)
        raise InvalidInput(
            Fault(f"/jobs/{cycle[0]}/dependencyRefs", f"these jobs wait for each other: {path}")
        ) from None
    return edges


def order(edges: Edges) -> list[int]:
    """The indices, each job after its dependencies.

    Raises:
        graphlib.CycleError: there is no such order.
    """
    if not any(edges):
        return list(range(len(edges)))
    return list(TopologicalSorter(dict(enumerate(edges))).static_order())


def cancelled_from_the_start(edges: Edges, failed: Collection[int], cancelling: Collection[int]) -> frozenset[int]:
    """Indices of the jobs that are cancelled as they are stored.

    ``failed`` are the jobs with a stored dependency that has failed already. ``cancelling`` are the jobs that ask to be
    cancelled then. A job that is cancelled counts as failed to its own dependents.
    """
    cancelled: set[int] = set()
    for index in order(edges) if failed else ():
        if index in cancelling and (index in failed or not cancelled.isdisjoint(edges[index])):
            cancelled.add(index)
    return frozenset(cancelled)
