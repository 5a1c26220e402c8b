"""Startup dependencies of cliques: an order without cycles. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from kilonova.api.grove.podcliqueset import EXPLICIT, CliqueTemplate, Template
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    duplicate,
    invalid_value,
    not_found,
    required,
)
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH


def validate_startup_order(template: Template) -> Iterator[FieldError]:
    """Errors of `startsAfter`, where cliqueStartupType is explicit."""
    if template.clique_startup_type != EXPLICIT:
        return
    known = {clique.name for clique in template.cliques}
    for index, clique in enumerate(template.cliques):
        yield from _validate_entries(_starts_after_path(index), clique, known)
    after = {
        clique.name: [name for name in clique.spec.starts_after if name in known - {clique.name}]
        for clique in template.cliques
    }
    positions = {clique.name: index for index, clique in enumerate(template.cliques)}
    for cycle in _find_cycles(after):
        first = cycle.index(min(cycle, key=positions.__getitem__))
        rotated = [*cycle[first:], *cycle[:first], cycle[first]]
        rule = f"startup dependencies must not form a cycle: {' → '.join(rotated)}"
        yield invalid_value(_starts_after_path(positions[rotated[0]]), rotated[1], rule)


def warn_about_startup_order(template: Template) -> Iterator[str]:
    """Warnings for `startsAfter` where it has no effect."""
    if template.clique_startup_type == EXPLICIT:
        return
    for index, clique in enumerate(template.cliques):
        if clique.spec.starts_after:
            path = _starts_after_path(index)
            yield f"{path}: has no effect unless cliqueStartupType is {EXPLICIT}"


def _validate_entries(path: str, clique: CliqueTemplate, known: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, name in enumerate(clique.spec.starts_after):
        entry = f"{path}[{position}]"
        if not name:
            yield required(entry, "must be the name of a clique")
        elif name == clique.name:
            yield invalid_value(entry, name, "a clique cannot start after itself")
        elif name not in known:
            yield not_found(entry, name, "must be the name of a clique of this set")
        if name in seen:
            yield duplicate(entry, name)
        seen.add(name)


def _find_cycles(after: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """One cycle for each group of cliques that depend on each other, in dependency order."""
    remaining = dict(after)
    while True:
        try:
            TopologicalSorter(remaining).prepare()
        except CycleError as error:
            # The first and the last entry are the same; each depends on the one before.
            cycle: list[str] = error.args[1][:0:-1]
            yield cycle
            remaining = {
                name: [each for each in dependencies if each not in cycle]
                for name, dependencies in remaining.items()
                if name not in cycle
            }
        else:
            return


def _starts_after_path(index: int) -> str:
    return f"{CLIQUES_PATH}[{index}].spec.startsAfter"
