"""Whether a PodCliqueSet may be as somebody wants to have it. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kilonova.api.json import JsonObject
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.amounts import amount_problems, amount_warnings, excess_problems
from kilonova.workloads.admission.composition import clash_problems, composition_problems
from kilonova.workloads.admission.defaults import defaulted
from kilonova.workloads.admission.drafts import SetDraft, read_set
from kilonova.workloads.admission.findings import Findings
from kilonova.workloads.admission.immutability import forbidden_changes, is_topology_named
from kilonova.workloads.admission.mnnvl import mnnvl_changes, mnnvl_problems
from kilonova.workloads.admission.packing import Topologies, packing_problems, packing_warnings
from kilonova.workloads.admission.podspecs import pod_problems
from kilonova.workloads.admission.schedulers import (
    queue_problems,
    queues_named,
    scheduler_problems,
    volcano_queue,
)
from kilonova.workloads.admission.sharing import sharing_problems
from kilonova.workloads.admission.startorder import order_problems, order_warnings
from kilonova.workloads.admission.updating import lifecycle_problems, lifecycle_warnings
from kilonova.workloads.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """What a set is judged by, beside itself."""

    settings: Settings = field(default_factory=Settings)
    topologies: Topologies = field(default_factory=dict[str, tuple[str, ...]])
    """At least those that the set names, if they are there."""
    queues: Mapping[str, str | None] | None = None
    """States of Volcano's queues, of the one that the set names at least; None where the queue
    is not there. None where nobody looked them up."""


def validate_create(obj: JsonObject, context: Context) -> Findings:
    """What is wrong with a new set, with all defaults filled in."""
    draft = read_set(obj)
    if isinstance(draft, Problem):
        return Findings((draft,))
    problems = [
        *_topology_problems(draft, context),
        *_general_problems(draft, context, creating=True),
        *_queue_problems(draft, context),
    ]
    return Findings(tuple(problems), tuple(_warnings(draft, context)))


def validate_update(old: JsonObject, new: JsonObject, context: Context) -> Findings:
    """What is wrong with a set that takes the place of another.

    One whose spec is as before passes, whatever rules came after it: its finalizers can always
    be removed.
    """
    after = read_set(new)
    if isinstance(after, Problem):
        return Findings((after,))
    before = read_set(defaulted(old))
    if isinstance(before, Problem):
        # Nobody can have stored it under this schema; there is nothing to compare with.
        problems = _general_problems(after, context, creating=False)
        return Findings(tuple(problems), tuple(_warnings(after, context)))
    changes = list(mnnvl_changes(before, after))
    moved = queues_named(before, context.settings.schedulers) != queues_named(
        after, context.settings.schedulers
    )
    if before.spec == after.spec and not changes and not moved:
        return Findings()
    problems = [*_general_problems(after, context, creating=False), *changes]
    if moved:
        problems += _queue_problems(after, context)
    if not problems:
        problems += forbidden_changes(before.template, after.template)
        if is_topology_named(before.template, after.template):
            problems += _topology_problems(after, context)
    warnings = (*_warnings(after, context), *amount_warnings(before.template, after.template))
    return Findings(tuple(problems), warnings)


def _general_problems(draft: SetDraft, context: Context, *, creating: bool) -> list[Problem]:
    excess = list(excess_problems(draft.spec))
    if excess:
        # Looking for more may take as long as there is much of it.
        return excess
    own = list(_own_problems(draft, context, creating=creating))
    return own or list(clash_problems(draft.template))


def _own_problems(draft: SetDraft, context: Context, *, creating: bool) -> Iterator[Problem]:
    template, settings = draft.template, context.settings
    yield from composition_problems(draft)
    yield from amount_problems(template)
    yield from order_problems(template)
    yield from pod_problems(template, creating=creating)
    yield from sharing_problems(template)
    yield from lifecycle_problems(draft.spec)
    yield from mnnvl_problems(draft, enabled=settings.mnnvl, creating=creating)
    yield from scheduler_problems(draft, settings, creating=creating)


def _queue_problems(draft: SetDraft, context: Context) -> Iterator[Problem]:
    """Of a set that comes into a queue; one that is in it stays, whatever becomes of the queue."""
    queue = volcano_queue(draft, context.settings.schedulers)
    if queue is not None and context.queues is not None:
        yield from queue_problems(queue, context.queues.get(queue))


def _topology_problems(draft: SetDraft, context: Context) -> Iterator[Problem]:
    return packing_problems(
        draft.template, enabled=context.settings.topology, topologies=context.topologies
    )


def _warnings(draft: SetDraft, context: Context) -> Iterator[str]:
    yield from packing_warnings(draft.template, context.topologies)
    yield from order_warnings(draft.template)
    yield from lifecycle_warnings(draft.spec)
