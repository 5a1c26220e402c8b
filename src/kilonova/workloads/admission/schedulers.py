"""Who places the pods: one scheduler for all of a set, and what that one wants. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove.podcliqueset import CliqueTemplate
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES
from kilonova.workloads.admission.drafts import SetDraft
from kilonova.workloads.admission.findings import forbidden, invalid_value, required, unsupported
from kilonova.workloads.admission.packing import constraints_of

KAI, VOLCANO, LPX = "kai-scheduler", "volcano", "lpx-scheduler"
WITHOUT_TOPOLOGY = ("default-scheduler", VOLCANO, LPX)
"""Schedulers that have no topologies of their own."""
_KAI_QUEUE = "kai.scheduler/queue"
_VOLCANO_QUEUE = "scheduling.grove.io/volcano-queue"


def scheduler_of(clique: CliqueTemplate, schedulers: Sequence[str]) -> str:
    """Who places the pods of a clique; the first of all where it does not say."""
    return clique.spec.pod_spec.get("schedulerName") or schedulers[0]


def scheduler_problems(draft: SetDraft, schedulers: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with the choice of a scheduler."""
    cliques = draft.template.cliques
    if not cliques:
        return
    first = scheduler_of(cliques[0], schedulers)
    for index, clique in enumerate(cliques):
        path, name = _path(index), scheduler_of(clique, schedulers)
        if name != first:
            rule = f'must be the same for all cliques; the first has "{first}"'
            yield invalid_value(path, name, rule)
        elif name not in schedulers:
            yield unsupported(path, name, schedulers)
    if first == KAI:
        yield from _queue_problems(draft, _KAI_QUEUE, needed=True)
    elif first == VOLCANO:
        yield from _queue_problems(draft, _VOLCANO_QUEUE, needed=False)
    if first in (VOLCANO, LPX):
        for path, _, _ in constraints_of(draft.template):
            yield forbidden(path, f"{first} knows no topology constraints")


def _queue_problems(draft: SetDraft, key: str, *, needed: bool) -> Iterator[Problem]:
    """A queue is named by a label or an annotation, on the set or on its cliques."""
    marked = [("metadata", draft.metadata.labels, draft.metadata.annotations)]
    marked += [
        (f"{CLIQUES}[{index}]", clique.labels, clique.annotations)
        for index, clique in enumerate(draft.template.cliques)
    ]
    named = [
        (f"{path}.{kind}[{key}]", marks[key])
        for path, labels, annotations in marked
        for kind, marks in (("labels", labels), ("annotations", annotations))
        if marks.get(key)
    ]
    if not named and needed:
        yield required(f"metadata.labels[{key}]", f"{KAI} wants to know the queue of a set")
    for path, queue in named[1:]:
        if queue != named[0][1]:
            rule = f'must be the same everywhere; {named[0][0]} is "{named[0][1]}"'
            yield invalid_value(path, queue, rule)


def _path(index: int) -> str:
    return f"{CLIQUES}[{index}].spec.podSpec.schedulerName"
