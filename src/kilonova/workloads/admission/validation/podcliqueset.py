"""Validation of PodCliqueSets. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kilonova.api.json import JsonObject
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import ValidationResult
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.admission.manifests import SetManifest, decode_set
from kilonova.workloads.admission.validation.immutability import (
    is_topology_name_added,
    validate_immutable_fields,
)
from kilonova.workloads.admission.validation.mnnvl import (
    validate_mnnvl_groups,
    validate_mnnvl_unchanged,
)
from kilonova.workloads.admission.validation.pod_specs import validate_pod_specs
from kilonova.workloads.admission.validation.replica_counts import (
    validate_limits,
    validate_replica_counts,
    warn_about_replica_changes,
)
from kilonova.workloads.admission.validation.resource_sharing import validate_resource_sharing
from kilonova.workloads.admission.validation.schedulers import (
    get_volcano_queue,
    list_manifest_queues,
    validate_queue_state,
    validate_scheduler,
)
from kilonova.workloads.admission.validation.startup_order import (
    validate_startup_order,
    warn_about_startup_order,
)
from kilonova.workloads.admission.validation.structure import (
    validate_name_conflicts,
    validate_structure,
)
from kilonova.workloads.admission.validation.topology_constraints import (
    TopologyLevels,
    validate_constraints,
    warn_about_constraints,
)
from kilonova.workloads.admission.validation.update_strategy import (
    validate_update_strategy,
    warn_about_update_strategy,
)
from kilonova.workloads.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class ValidationContext:
    """What a set is validated against."""

    settings: OperatorSettings = field(default_factory=OperatorSettings)
    topologies: TopologyLevels = field(default_factory=dict[str, tuple[str, ...]])
    """At least the topologies that the set names, if they exist."""
    queues: Mapping[str, str | None] | None = None
    """States of Volcano queues, at least of the one that the set names; a value is None if the
    queue does not exist. None if the queues were not read.
    """


def validate_create(obj: JsonObject, context: ValidationContext) -> ValidationResult:
    """Validate a new set, after defaulting."""
    manifest = decode_set(obj)
    if isinstance(manifest, FieldError):
        return ValidationResult((manifest,))
    errors = [
        *_validate_topology(manifest, context),
        *_validate_manifest(manifest, context, creating=True),
        *_validate_queue(manifest, context),
    ]
    return ValidationResult(tuple(errors), tuple(_list_warnings(manifest, context)))


def validate_update(
    old: JsonObject, new: JsonObject, context: ValidationContext
) -> ValidationResult:
    """Validate an update of a set.

    An update that leaves the spec unchanged is allowed even if newer rules reject it: finalizers
    can always be removed.
    """
    after = decode_set(new)
    if isinstance(after, FieldError):
        return ValidationResult((after,))
    before = decode_set(apply_defaults(old))
    if isinstance(before, FieldError):
        # The stored object predates this schema: there is nothing to compare with.
        errors = _validate_manifest(after, context, creating=False)
        return ValidationResult(tuple(errors), tuple(_list_warnings(after, context)))
    changes = list(validate_mnnvl_unchanged(before, after))
    queue_changed = list_manifest_queues(
        before, context.settings.schedulers
    ) != list_manifest_queues(after, context.settings.schedulers)
    if before.spec == after.spec and not changes and not queue_changed:
        return ValidationResult()
    errors = [*_validate_manifest(after, context, creating=False), *changes]
    if queue_changed:
        errors += _validate_queue(after, context)
    if not errors:
        errors += validate_immutable_fields(before.template, after.template)
        if is_topology_name_added(before.template, after.template):
            errors += _validate_topology(after, context)
    warnings = (
        *_list_warnings(after, context),
        *warn_about_replica_changes(before.template, after.template),
    )
    return ValidationResult(tuple(errors), warnings)


def _validate_manifest(
    manifest: SetManifest, context: ValidationContext, *, creating: bool
) -> list[FieldError]:
    excess = list(validate_limits(manifest.spec))
    if excess:
        # Further rules could take a time proportional to the excessive counts.
        return excess
    errors = list(_validate_rules(manifest, context, creating=creating))
    return errors or list(validate_name_conflicts(manifest.template))


def _validate_rules(
    manifest: SetManifest, context: ValidationContext, *, creating: bool
) -> Iterator[FieldError]:
    template, settings = manifest.template, context.settings
    yield from validate_structure(manifest)
    yield from validate_replica_counts(template)
    yield from validate_startup_order(template)
    yield from validate_pod_specs(template, creating=creating)
    yield from validate_resource_sharing(template)
    yield from validate_update_strategy(manifest.spec)
    yield from validate_mnnvl_groups(manifest, enabled=settings.mnnvl, creating=creating)
    yield from validate_scheduler(manifest, settings, creating=creating)


def _validate_queue(manifest: SetManifest, context: ValidationContext) -> Iterator[FieldError]:
    """Rules for a set that enters a queue; later states of the queue do not matter."""
    queue = get_volcano_queue(manifest, context.settings.schedulers)
    if queue is not None and context.queues is not None:
        yield from validate_queue_state(queue, context.queues.get(queue))


def _validate_topology(manifest: SetManifest, context: ValidationContext) -> Iterator[FieldError]:
    return validate_constraints(
        manifest.template, enabled=context.settings.topology, topologies=context.topologies
    )


def _list_warnings(manifest: SetManifest, context: ValidationContext) -> Iterator[str]:
    yield from warn_about_constraints(manifest.template, context.topologies)
    yield from warn_about_startup_order(manifest.template)
    yield from warn_about_update_strategy(manifest.spec)
