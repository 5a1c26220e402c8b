"""Who places the pods: one scheduler for all of a set, and what that one wants. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove.podcliqueset import CliqueTemplate
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES
from kilonova.workloads.admission.drafts import SetDraft
from kilonova.workloads.admission.findings import (
    forbidden,
    invalid_value,
    not_found,
    required,
    unsupported,
)
from kilonova.workloads.admission.packing import constraints_of
from kilonova.workloads.backends import BACKENDS, KAI, LPX, VOLCANO
from kilonova.workloads.backends.queues import QUEUE_KEYS, named_queues, queue_of
from kilonova.workloads.settings import Settings

WITHOUT_TOPOLOGY = ("default-scheduler", VOLCANO, LPX)
"""Schedulers that have no topologies of their own."""
_OPEN = "Open"


def scheduler_of(clique: CliqueTemplate, schedulers: Sequence[str]) -> str:
    """Who places the pods of a clique; the first of all where it does not say."""
    return clique.spec.pod_spec.get("schedulerName") or schedulers[0]


def scheduler_problems(draft: SetDraft, settings: Settings, *, creating: bool) -> Iterator[Problem]:
    """What is wrong with the choice of a scheduler.

    A set that exists may not name another: where its scheduler is served no longer, the rest of it
    can still be changed.
    """
    cliques, schedulers = draft.template.cliques, settings.schedulers
    if not cliques:
        return
    first = scheduler_of(cliques[0], schedulers)
    served = [each for each in schedulers if each not in BACKENDS or each in settings.backends]
    for index, clique in enumerate(cliques):
        path, name = _path(index), scheduler_of(clique, schedulers)
        if name != first:
            rule = f'must be the same for all cliques; the first has "{first}"'
            yield invalid_value(path, name, rule)
        elif name not in schedulers:
            yield unsupported(path, name, served)
        elif creating and name not in served:
            problem = unsupported(path, name, served)
            fix = f"or enable its backend: run the operator with --scheduler {name}"
            yield Problem(problem.field, f"{problem.message}; {fix}")
    if creating and first not in served:
        return
    if first == KAI:
        yield from _agreement_problems(draft, KAI, needed=True)
    elif first == VOLCANO:
        yield from _agreement_problems(draft, VOLCANO, needed=False)
    if first in (VOLCANO, LPX):
        for path, _, _ in constraints_of(draft.template):
            yield forbidden(path, f"{first} knows no topology constraints")


def queues_named(draft: SetDraft, schedulers: Sequence[str]) -> list[tuple[str, str]]:
    """Where the queue of a set is named, and what is named there; nothing if it needs none."""
    cliques = draft.template.cliques
    scheduler = scheduler_of(cliques[0], schedulers) if cliques else ""
    known = scheduler in QUEUE_KEYS
    return named_queues(scheduler, draft.metadata, cliques) if known else []


def volcano_queue(draft: SetDraft, schedulers: Sequence[str]) -> str | None:
    """The queue of Volcano that a set is to be in; None where it is in none, or in several."""
    cliques = draft.template.cliques
    if not cliques or scheduler_of(cliques[0], schedulers) != VOLCANO:
        return None
    return queue_of(VOLCANO, draft.metadata, cliques)


def queue_problems(queue: str, state: str | None) -> Iterator[Problem]:
    """What is wrong with a queue of Volcano, whose state this is; None if it is not there."""
    path = f"metadata.annotations[{QUEUE_KEYS[VOLCANO]}]"
    if state is None:
        yield not_found(path, queue, f'volcano queue "{queue}" does not exist')
    elif state != _OPEN:
        rule = f'volcano queue "{queue}" is not {_OPEN}, but {state or "without a state"}'
        yield invalid_value(path, queue, rule)


def _agreement_problems(draft: SetDraft, scheduler: str, *, needed: bool) -> Iterator[Problem]:
    named = named_queues(scheduler, draft.metadata, draft.template.cliques)
    if not named and needed:
        path = f"metadata.labels[{QUEUE_KEYS[scheduler]}]"
        yield required(path, f"{scheduler} wants to know the queue of a set")
    for path, queue in named[1:]:
        if queue != named[0][1]:
            rule = f'must be the same everywhere; {named[0][0]} is "{named[0][1]}"'
            yield invalid_value(path, queue, rule)


def _path(index: int) -> str:
    return f"{CLIQUES}[{index}].spec.podSpec.schedulerName"
