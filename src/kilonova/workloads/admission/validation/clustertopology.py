"""Validation of ClusterTopologyBindings. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove.topology import SchedulerTopology, TopologyLevel
from kilonova.api.json import JsonObject
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    ValidationResult,
    duplicate,
    invalid_value,
)
from kilonova.kube.admission.syntax import check_label_key
from kilonova.workloads.admission.manifests import decode_topology
from kilonova.workloads.admission.validation.schedulers import SCHEDULERS_WITHOUT_TOPOLOGY
from kilonova.workloads.settings import OperatorSettings


def validate_topology(obj: JsonObject, settings: OperatorSettings) -> ValidationResult:
    """The field errors of a topology."""
    manifest = decode_topology(obj)
    if isinstance(manifest, FieldError):
        return ValidationResult((manifest,))
    errors = [
        *_validate_levels(manifest.spec.levels),
        *_validate_schedulers(manifest.spec.scheduler_topology_bindings, settings.schedulers),
    ]
    return ValidationResult(tuple(errors))


def _validate_levels(levels: Sequence[TopologyLevel]) -> Iterator[FieldError]:
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(levels):
        path = f"spec.levels[{index}]"
        if level.domain in domains:
            yield duplicate(f"{path}.domain", level.domain)
        if level.key in keys:
            yield duplicate(f"{path}.key", level.key)
        elif problem := check_label_key(level.key):
            yield invalid_value(f"{path}.key", level.key, f"must be a label key: {problem}")
        domains.add(level.domain)
        keys.add(level.key)


def _validate_schedulers(
    bindings: Sequence[SchedulerTopology], schedulers: Sequence[str]
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, binding in enumerate(bindings):
        path, name = (
            f"spec.schedulerTopologyBindings[{index}].schedulerName",
            binding.scheduler_name,
        )
        # Grove's tests match the former name of the field, and these messages.
        former = f"(formerly spec.schedulerTopologyReferences[{index}].schedulerName)"
        if name in seen:
            yield duplicate(path, name, f"only one topology is allowed for each scheduler {former}")
        elif name not in schedulers:
            yield invalid_value(path, name, f"scheduler backend is not enabled in Grove {former}")
        elif name in SCHEDULERS_WITHOUT_TOPOLOGY:
            rule = f"scheduler backend does not implement topology-aware scheduling {former}"
            yield invalid_value(path, name, rule)
        seen.add(name)
