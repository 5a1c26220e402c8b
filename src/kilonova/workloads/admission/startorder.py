"""Which clique starts after which: an order, without circles. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from kilonova.api.grove.podcliqueset import EXPLICIT, CliqueTemplate, Template
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES
from kilonova.workloads.admission.findings import duplicate, invalid_value, not_found, required


def order_problems(template: Template) -> Iterator[Problem]:
    """What is wrong with `startsAfter`, where it counts."""
    if template.clique_startup_type != EXPLICIT:
        return
    known = {clique.name for clique in template.cliques}
    for index, clique in enumerate(template.cliques):
        yield from _entry_problems(_path(index), clique, known)
    after = {
        clique.name: [name for name in clique.spec.starts_after if name in known - {clique.name}]
        for clique in template.cliques
    }
    places = {clique.name: index for index, clique in enumerate(template.cliques)}
    for circle in _circles(after):
        first = circle.index(min(circle, key=places.__getitem__))
        turned = [*circle[first:], *circle[:first], circle[first]]
        rule = f"cliques must not wait for each other in a circle: {' → '.join(turned)}"
        yield invalid_value(_path(places[turned[0]]), turned[1], rule)


def order_warnings(template: Template) -> Iterator[str]:
    """Where somebody names an order that does not count."""
    if template.clique_startup_type == EXPLICIT:
        return
    for index, clique in enumerate(template.cliques):
        if clique.spec.starts_after:
            yield f"{_path(index)}: has no effect unless cliqueStartupType is {EXPLICIT}"


def _entry_problems(path: str, clique: CliqueTemplate, known: set[str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, name in enumerate(clique.spec.starts_after):
        entry = f"{path}[{place}]"
        if not name:
            yield required(entry, "must be the name of a clique")
        elif name == clique.name:
            yield invalid_value(entry, name, "a clique cannot start after itself")
        elif name not in known:
            yield not_found(entry, name, "must be the name of a clique of this set")
        if name in seen:
            yield duplicate(entry, name)
        seen.add(name)


def _circles(after: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """One circle for each lot of cliques that wait for each other, in the order of waiting."""
    left = dict(after)
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            # The first and the last of it are the same; each is waited for by the next.
            circle: list[str] = error.args[1][:0:-1]
            yield circle
            left = {
                name: [each for each in waits if each not in circle]
                for name, waits in left.items()
                if name not in circle
            }
        else:
            return


def _path(index: int) -> str:
    return f"{CLIQUES}[{index}].spec.startsAfter"
