"""The GPUs of a pod, as resources of its containers and annotations that the scheduler reads. Pure.

The container that gets the GPUs is the one whose template requests some, else the first. What a
template requests must agree with the workload; where its GPUs are split into several pods, it may
also be the number of all.
"""

import math
from typing import Any, cast

from kilonova.api.gpu import annotations
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GpuRequirements
from kilonova.catalog.resource_names import GPU, MIG_PREFIX, mig_resource
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec
from kilonova.gpu.controllers.gpuworkload.split import Split

INVALID = "InvalidPodTemplate"
_CONTAINERS = "spec.podTemplate.spec.containers"
_GPU_RESOURCES = (GPU, MIG_PREFIX)
_BYTES_PER_GB = 1_000_000_000
_BYTES_PER_MIB = 1 << 20


def get_resource(requirements: GpuRequirements) -> str:
    """The extended resource that the pods request."""
    return mig_resource(requirements.profile) if requirements.profile else GPU


def build_gpu_annotations(requirements: GpuRequirements) -> dict[str, str]:
    """The requirements on devices, as the scheduler reads them."""
    memory = requirements.min_memory_gb
    values = {
        annotations.MODEL: requirements.gpu_model,
        annotations.ARCHITECTURE: requirements.architecture or "",
        annotations.MIN_MEMORY: "" if memory is None else str(to_mebibytes(memory)),
        annotations.MIN_BANDWIDTH: str(math.ceil(requirements.bandwidth) or ""),
        annotations.TOPOLOGY: "" if requirements.preference == "None" else requirements.preference,
    }
    return {name: value for name, value in values.items() if value}


def to_mebibytes(gigabytes: int) -> int:
    """Whole MiB of decimal gigabytes, as products are named: a GPU of 80 GB has 81,559 MiB."""
    return gigabytes * _BYTES_PER_GB // _BYTES_PER_MIB


def with_gpus(
    containers: list[JsonObject], requirements: GpuRequirements, split: Split
) -> list[JsonObject]:
    """The containers with the GPUs of one pod; raises `InvalidSpec` if the template disagrees."""
    resource = get_resource(requirements)
    requested = [_read_request(index, each, resource) for index, each in enumerate(containers)]
    total = sum(each or 0 for each in requested)
    using = [index for index, each in enumerate(requested) if each]
    if total in (0, split.gpus, requirements.amount):
        if len(using) < 2:
            chosen = using[0] if using else 0
            return [
                _with_resource(each, resource, split.gpus) if index == chosen else each
                for index, each in enumerate(containers)
            ]
        if total == split.gpus:
            return [
                each if amount is None else _with_resource(each, resource, amount)
                for each, amount in zip(containers, requested, strict=True)
            ]
    where = f"{_CONTAINERS}[{using[0]}].resources" if len(using) == 1 else _CONTAINERS
    pods = "its pod has" if split.pods == 1 else f"each of its {split.pods} pods has"
    problem = f"requests {total} {resource}, and by spec.gpuRequirements {pods} {split.gpus}"
    raise InvalidSpec(INVALID, where, f"{problem}: leave {resource} out of the template")


def _read_request(index: int, container: JsonObject, wanted: str) -> int | None:
    """The amount of the resource that a container requests; None for none."""
    amounts: list[int] = []
    resources = _as_object(container.get("resources"))
    for side in ("limits", "requests"):
        for name, value in _as_object(resources.get(side)).items():
            if not name.startswith(_GPU_RESOURCES):
                continue
            path = f"{_CONTAINERS}[{index}].resources.{side}[{name}]"
            if name != wanted:
                problem = f"the workload has {wanted}: leave {name} out of the template"
                raise InvalidSpec(INVALID, path, problem)
            if not str(value).isdecimal():
                raise InvalidSpec(INVALID, path, f"{value!r} is not a whole number")
            amounts.append(int(value))
    return max(amounts, default=None)


def _with_resource(container: JsonObject, resource: str, amount: int) -> JsonObject:
    resources = _as_object(container.get("resources"))
    changed = {
        side: {**_as_object(resources.get(side)), resource: str(amount)}
        for side in ("limits", "requests")
    }
    return {**container, "resources": {**resources, **changed}}


def _as_object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
