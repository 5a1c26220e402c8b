"""Validation of GPUWorkloads and MIGStrategies beyond their schemas. Pure.

A workload is rejected if no cluster could run it. What depends on nodes is not judged.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GPUWorkload, MIGStrategy
from kilonova.api.kgwe.gpuworkload import GPUWorkloadSpec
from kilonova.catalog.mig import known_geometries
from kilonova.gpu.controllers.gpuworkload.affinity import (
    ReferencedPod,
    list_referenced_pods,
)
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec
from kilonova.gpu.controllers.gpuworkload.pods import (
    MUTABLE_FIELDS,
    NO_TEMPLATE,
    build_pod,
    convert_shape,
)
from kilonova.gpu.controllers.gpuworkload.split import build_split, choose_split
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    ValidationResult,
    forbidden,
    invalid_value,
    not_found,
)

_T = TypeVar("_T")
_PLACED = ("Scheduled", "Running", "Succeeded", "Failed")
_PROFILE = "spec.gpuRequirements.mig.profile"
_DISTRIBUTION = "spec.profileDistribution"
_PROFILE_SIZES = "names of profiles begin with 1g, 2g, 3g, 4g or 7g, such as 1g.10gb"
_REFERENCED = ReferencedPod(exists=True, node="any")


def validate_workload(
    obj: JsonObject, old: JsonObject | None, settings: ControllerSettings
) -> ValidationResult:
    """Errors and warnings of a workload; `old` is the one that it replaces."""
    workload = _decode(obj, GPUWorkload)
    if isinstance(workload, FieldError):
        return ValidationResult((workload,))
    if workload.metadata.deletion_timestamp is not None:
        return ValidationResult()
    before = None if old is None else _decode(old, GPUWorkload)
    if isinstance(before, GPUWorkload) and before.spec == workload.spec:
        return ValidationResult()
    errors = list(_validate_profile(workload.spec))
    warnings: list[str] = []
    if isinstance(before, GPUWorkload):
        errors += _validate_changes(before, workload)
    try:
        _validate_pods(workload, settings)
    except InvalidSpec as error:
        if error.reason == NO_TEMPLATE and not workload.spec.pod_template:
            # Such manifests are in KGWE's documents: accepted, and reported in the status.
            warnings.append(str(error))
        else:
            errors.append(FieldError(error.field, f"Invalid value: {_strip_field(error)}"))
    warnings += _list_warnings(workload.spec)
    return ValidationResult(tuple(errors), tuple(warnings))


def validate_strategy(obj: JsonObject) -> ValidationResult:
    """Errors and warnings of a strategy."""
    strategy = _decode(obj, MIGStrategy)
    if isinstance(strategy, FieldError):
        return ValidationResult((strategy,))
    errors = tuple(
        not_found(f"{_DISTRIBUTION}[{name}]", name, _describe_known_profiles(name))
        for name in sorted(strategy.spec.profile_distribution)
        if not _is_known(name)
    )
    warnings = () if strategy.spec.profile_distribution else _WARN_EMPTY
    return ValidationResult(errors, warnings)


_WARN_EMPTY = (f"{_DISTRIBUTION} is empty: the strategy does nothing",)


def _validate_profile(spec: GPUWorkloadSpec) -> Iterator[FieldError]:
    profile = spec.gpu_requirements.profile
    if profile and not _is_known(profile):
        yield not_found(_PROFILE, profile, _describe_known_profiles(profile))


def _validate_changes(old: GPUWorkload, new: GPUWorkload) -> Iterator[FieldError]:
    """Pods are made from most fields: these stay once pods have nodes."""
    if old.status.phase not in _PLACED:
        return
    before, after = (msgspec.to_builtins(each.spec) for each in (old, new))
    for name in sorted({*before, *after} - {*MUTABLE_FIELDS}):
        if before.get(name) != after.get(name):
            rule = f"must not be changed in phase {old.status.phase}, in which pods have nodes"
            yield forbidden(f"spec.{name}", f"{rule}: delete the workload and create it again")


def _validate_pods(workload: GPUWorkload, settings: ControllerSettings) -> None:
    """Build a pod for each split that nodes of some size would need; one must be valid."""
    namespace, spec = workload.metadata.namespace, workload.spec
    referenced = dict.fromkeys(list_referenced_pods(spec.constraints, namespace), _REFERENCED)
    failures: list[InvalidSpec] = []
    for pods in range(1, spec.gpu_requirements.amount + 1):
        if spec.gpu_requirements.amount % pods:
            continue
        try:
            split = build_split(spec, pods)
            convert_shape(build_pod(workload, split, 0, settings, referenced))
        except InvalidSpec as error:
            failures.append(error)
        else:
            break
    else:
        raise failures[0]
    # A worldSize by which GPUs cannot be divided at all.
    choose_split(spec, lambda size: True)


def _list_warnings(spec: GPUWorkloadSpec) -> Iterator[str]:
    requirements = spec.gpu_requirements
    if spec.memory_profile == "Low" and not requirements.profile:
        yield (
            "spec.memoryProfile is Low, and the workload has whole GPUs: a MIG instance "
            "(spec.gpuRequirements.mig) would leave most of their memory to others"
        )
    config = spec.distributed_config
    if config is not None and config.local_rank is not None:
        yield "spec.distributedConfig.localRank is ignored: every process gets its own"
    if requirements.bandwidth and requirements.amount == 1:
        yield "minBandwidthGBps has no effect on a single GPU"


def _is_known(profile: str) -> bool:
    return any(each.profile(profile) is not None for each in known_geometries())


def _describe_known_profiles(profile: str) -> str:
    """The profiles with the same compute slices."""
    size = profile.partition(".")[0]
    names = {each.name for geometry in known_geometries() for each in geometry.profiles}
    similar = sorted(name for name in names if name.startswith(f"{size}."))
    known = f"of that size there are {', '.join(similar)}" if similar else _PROFILE_SIZES
    return f"no GPU of the catalog has this MIG profile; {known}"


def _strip_field(error: InvalidSpec) -> str:
    return str(error).removeprefix(f"{error.field}: ")


def _decode(obj: JsonObject, type_: type[_T]) -> _T | FieldError:
    """The decoded object. Those that violate the schema do not get here as a rule."""
    metadata: dict[str, Any] = {"uid": "", "resourceVersion": "", **obj.get("metadata", {})}
    metadata.setdefault("name", metadata.get("generateName", ""))
    try:
        return msgspec.convert({**obj, "metadata": metadata}, type_)
    except msgspec.ValidationError as error:
        return invalid_value("", str(obj.get("kind", "")), str(error))
