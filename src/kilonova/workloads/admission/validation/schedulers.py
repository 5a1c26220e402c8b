"""The scheduler of a set: one for all cliques, and the queue that it needs. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove.podcliqueset import CliqueTemplate
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    forbidden,
    invalid_value,
    not_found,
    required,
    unsupported,
)
from kilonova.workloads.admission.manifests import SetManifest
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH
from kilonova.workloads.admission.validation.topology_constraints import iterate_constraints
from kilonova.workloads.backends import BACKENDS, KAI, LPX, VOLCANO
from kilonova.workloads.backends.queues import QUEUE_KEYS, list_queue_references, resolve_queue
from kilonova.workloads.settings import OperatorSettings

SCHEDULERS_WITHOUT_TOPOLOGY = (DEFAULT_SCHEDULER_NAME, VOLCANO, LPX)
"""Schedulers that have no Topology objects of their own."""
_OPEN_STATE = "Open"


def get_scheduler_name(clique: CliqueTemplate, schedulers: Sequence[str]) -> str:
    """The scheduler of a clique; the first in the settings if it names none."""
    return clique.spec.pod_spec.get("schedulerName") or schedulers[0]


def validate_scheduler(
    manifest: SetManifest, settings: OperatorSettings, *, creating: bool
) -> Iterator[FieldError]:
    """Errors of schedulerName and of queues.

    schedulerName is immutable: if its scheduler is no longer enabled, the other fields of the set
    can still be changed.
    """
    cliques, schedulers = manifest.template.cliques, settings.schedulers
    if not cliques:
        return
    first = get_scheduler_name(cliques[0], schedulers)
    enabled = [each for each in schedulers if each not in BACKENDS or each in settings.backends]
    for index, clique in enumerate(cliques):
        path, name = _scheduler_name_path(index), get_scheduler_name(clique, schedulers)
        if name != first:
            rule = f'must be the same for all cliques; the first clique has "{first}"'
            yield invalid_value(path, name, rule)
        elif name not in schedulers:
            yield unsupported(path, name, enabled)
        elif creating and name not in enabled:
            error = unsupported(path, name, enabled)
            fix = f"or enable its backend: run the operator with --scheduler {name}"
            yield FieldError(error.field, f"{error.message}; {fix}")
    if creating and first not in enabled:
        return
    if first == KAI:
        yield from _validate_single_queue(manifest, KAI, queue_required=True)
    elif first == VOLCANO:
        yield from _validate_single_queue(manifest, VOLCANO, queue_required=False)
    if first in (VOLCANO, LPX):
        for path, _, _ in iterate_constraints(manifest.template):
            yield forbidden(path, f"{first} does not support topology constraints")


def list_manifest_queues(manifest: SetManifest, schedulers: Sequence[str]) -> list[tuple[str, str]]:
    """The paths and names of the queues that a set names; empty if its scheduler has none."""
    cliques = manifest.template.cliques
    scheduler = get_scheduler_name(cliques[0], schedulers) if cliques else ""
    has_queues = scheduler in QUEUE_KEYS
    return list_queue_references(scheduler, manifest.metadata, cliques) if has_queues else []


def get_volcano_queue(manifest: SetManifest, schedulers: Sequence[str]) -> str | None:
    """The Volcano queue of a set; None if its scheduler is another, or it names several."""
    cliques = manifest.template.cliques
    if not cliques or get_scheduler_name(cliques[0], schedulers) != VOLCANO:
        return None
    return resolve_queue(VOLCANO, manifest.metadata, cliques)


def validate_queue_state(queue: str, state: str | None) -> Iterator[FieldError]:
    """Errors of a Volcano queue in a state; None if the queue does not exist."""
    path = f"metadata.annotations[{QUEUE_KEYS[VOLCANO]}]"
    if state is None:
        yield not_found(path, queue, f'volcano queue "{queue}" does not exist')
    elif state != _OPEN_STATE:
        rule = f'volcano queue "{queue}" is not {_OPEN_STATE}: its state is {state or "unset"}'
        yield invalid_value(path, queue, rule)


def _validate_single_queue(
    manifest: SetManifest, scheduler: str, *, queue_required: bool
) -> Iterator[FieldError]:
    named = list_queue_references(scheduler, manifest.metadata, manifest.template.cliques)
    if not named and queue_required:
        path = f"metadata.labels[{QUEUE_KEYS[scheduler]}]"
        yield required(path, f"{scheduler} requires the name of a queue")
    for path, queue in named[1:]:
        if queue != named[0][1]:
            rule = f'must be the same everywhere; {named[0][0]} is "{named[0][1]}"'
            yield invalid_value(path, queue, rule)


def _scheduler_name_path(index: int) -> str:
    return f"{CLIQUES_PATH}[{index}].spec.podSpec.schedulerName"
