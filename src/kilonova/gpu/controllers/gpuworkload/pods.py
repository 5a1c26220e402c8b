"""Pods of a workload. Pure.

A pod is the pod template with the workload's GPUs and constraints, and what its processes need to
find each other.
"""

import hashlib
from typing import Any, cast

import msgspec

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.kgwe import GPUWorkload, names
from kilonova.api.kgwe.gpuworkload import GPUWorkloadSpec
from kilonova.api.pods.workload_owner import Workload, workload_metadata
from kilonova.gpu.controllers.gpuworkload.affinity import (
    WORKLOAD_KIND,
    ReferencedPods,
    with_constraints,
)
from kilonova.gpu.controllers.gpuworkload.environment import (
    build_environment,
    needs_service,
    with_environment,
)
from kilonova.gpu.controllers.gpuworkload.gpu_resources import (
    INVALID,
    build_gpu_annotations,
    with_gpus,
)
from kilonova.gpu.controllers.gpuworkload.invalid_spec import InvalidSpec
from kilonova.gpu.controllers.gpuworkload.split import Split
from kilonova.gpu.controllers.resources import WORKLOADS
from kilonova.gpu.controllers.settings import ControllerSettings
from kilonova.kube.owner_references import build_owner_reference
from kilonova.scheduler.convert.pods.members import InvalidRequest, convert_pod_shape
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.objects.core_v1 import Pod

NO_TEMPLATE = "NoPodTemplate"
_TEMPLATE = "spec.podTemplate"
_SERVICES = frozenset({"Inference", "Visualization"})
"""Types that run until they are deleted."""
MUTABLE_FIELDS = ("preemptible", "isPreemptible", "expectedDuration")
"""Fields of the spec that pods are not made from: they may be changed at any time."""
_HASH_LENGTH = 10


def build_pod(
    workload: GPUWorkload,
    split: Split,
    rank: int,
    settings: ControllerSettings,
    referenced_pods: ReferencedPods | None = None,
    *,
    incarnation: int = 0,
) -> JsonObject:
    """The pod of a rank, gated, as it is created; raises `InvalidSpec`."""
    return {
        "metadata": _build_metadata(workload, split, rank, incarnation),
        "spec": _build_spec(workload, split, rank, settings, referenced_pods or {}),
    }


def convert_shape(pod: JsonObject) -> Shape:
    """What the scheduler reads from a pod; raises `InvalidSpec`."""
    try:
        metadata = {"uid": "", "resourceVersion": "", **pod["metadata"]}
        return convert_pod_shape(msgspec.convert({**pod, "metadata": metadata}, Pod))
    except msgspec.ValidationError as error:
        raise InvalidSpec(INVALID, f"{_TEMPLATE}.spec", str(error)) from None
    except InvalidRequest as error:
        raise InvalidSpec(INVALID, _TEMPLATE, str(error)) from None


def compute_template_hash(workload: GPUWorkload, split: Split) -> str:
    """The hash of everything that pods are made from."""
    spec = cast("JsonObject", msgspec.to_builtins(workload.spec))
    used = {name: value for name, value in spec.items() if name not in MUTABLE_FIELDS}
    constraints = _as_object(used.get("constraints"))
    used["constraints"] = {
        name: value for name, value in constraints.items() if name != "maxSchedulingLatency"
    }
    text = msgspec.json.encode([used, split.pods], order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH]


def build_labels(workload: GPUWorkload) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations of all objects of a workload."""
    known = workload.metadata
    labels, annotations = workload_metadata(Workload(WORKLOAD_KIND, known.namespace, known.name))
    own = {grove_names.MANAGED_BY: names.MANAGER, names.WORKLOAD: known.name}
    return {**labels, **own}, annotations


def uses_own_priority(spec: GPUWorkloadSpec) -> bool:
    """Whether pods have a PriorityClass of ours."""
    return spec.priority > 0


def _build_metadata(workload: GPUWorkload, split: Split, rank: int, incarnation: int) -> JsonObject:
    known, spec = workload.metadata, workload.spec
    template = _as_object(_as_object(spec.pod_template).get("metadata"))
    labels, annotations = build_labels(workload)
    types = {
        names.WORKLOAD_TYPE: spec.workload_type,
        names.FRAMEWORK: spec.framework or "",
        names.MEMORY_PROFILE: spec.memory_profile or "",
    }
    return {
        "name": names.pod(known.name, rank, incarnation),
        "namespace": known.namespace,
        "labels": {
            **_as_object(template.get("labels")),
            **{key: value for key, value in types.items() if value},
            **labels,
            grove_names.POD_GANG: names.gang(known.name),
            grove_names.POD_INDEX: str(rank),
            names.INCARNATION: str(incarnation),
        },
        "annotations": {
            **_as_object(template.get("annotations")),
            **build_gpu_annotations(spec.gpu_requirements),
            **annotations,
            names.TEMPLATE_HASH: compute_template_hash(workload, split),
        },
        "ownerReferences": [build_owner_reference(WORKLOADS, known)],
    }


def _build_spec(
    workload: GPUWorkload,
    split: Split,
    rank: int,
    settings: ControllerSettings,
    referenced_pods: ReferencedPods,
) -> JsonObject:
    template, spec, known = _get_template(workload.spec), workload.spec, workload.metadata
    containers = with_gpus(_get_containers(template), spec.gpu_requirements, split)
    variables = build_environment(workload, split, rank)
    pod_spec: JsonObject = {
        "schedulerName": settings.scheduler_name,
        "restartPolicy": "Always" if spec.workload_type in _SERVICES else "OnFailure",
        **template,
        "containers": [with_environment(each, variables) for each in containers],
    }
    if uses_own_priority(spec):
        given = template.get("priorityClassName")
        if given:
            problem = f"{given!r}, and spec.priority is {spec.priority}: leave one of them out"
            raise InvalidSpec(INVALID, f"{_TEMPLATE}.spec.priorityClassName", problem)
        pod_spec["priorityClassName"] = names.priority_class(spec.priority)
    if needs_service(split):
        pod_spec["hostname"] = names.hostname(known.name, rank)
        pod_spec["subdomain"] = names.service(known.name)
    gates = [
        each
        for each in template.get("schedulingGates") or ()
        if each.get("name") != grove_names.POD_GANG_GATE
    ]
    pod_spec["schedulingGates"] = [*gates, {"name": grove_names.POD_GANG_GATE}]
    return with_constraints(pod_spec, spec.constraints, known.namespace, referenced_pods)


def _get_template(spec: GPUWorkloadSpec) -> JsonObject:
    fix = f"add {_TEMPLATE}.spec.containers with the image that uses the GPUs"
    if not spec.pod_template:
        raise InvalidSpec(NO_TEMPLATE, _TEMPLATE, f"is missing: {fix}")
    template = spec.pod_template.get("spec")
    if not isinstance(template, dict) or not template:
        if "containers" in spec.pod_template:
            fix = f"move containers into {_TEMPLATE}.spec"
        raise InvalidSpec(NO_TEMPLATE, f"{_TEMPLATE}.spec", f"is missing: {fix}")
    return cast("JsonObject", template)


def _get_containers(template: JsonObject) -> list[JsonObject]:
    path = f"{_TEMPLATE}.spec.containers"
    containers = template.get("containers")
    if not isinstance(containers, list) or not containers:
        raise InvalidSpec(NO_TEMPLATE, path, "at least one container is needed, with an image")
    for index, each in enumerate(cast("list[Any]", containers)):
        container = _as_object(each)
        if not container.get("name") or not container.get("image"):
            problem = "needs a name and an image"
            raise InvalidSpec(INVALID, f"{path}[{index}]", problem)
    return cast("list[JsonObject]", containers)


def _as_object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}
