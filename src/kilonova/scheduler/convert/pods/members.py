"""Pods as members of gangs: requests and constraints.

GPUs are requested by `nvidia.com/gpu` and `nvidia.com/mig-PROFILE`, or as a share by annotations. A
pod with an invalid annotation is not scheduled; its condition reports why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kilonova.api.gpu import annotations as wire
from kilonova.api.meta import intern_value
from kilonova.api.pods.resources import pod_requests
from kilonova.catalog.resource_names import GPU, profile_of_resource
from kilonova.scheduler.convert.pods.affinity import NamespaceLabels, convert_pod_affinity
from kilonova.scheduler.convert.pods.resizes import (
    container_requests,
    is_resize_infeasible,
    resizable_statuses,
)
from kilonova.scheduler.convert.quantities import MAX_AMOUNT, convert_quantities
from kilonova.scheduler.convert.selectors import convert_node_selector, convert_node_term
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.requests import (
    GpuPreference,
    GpuRequest,
    Shape,
    Toleration,
    host_port_requests,
)
from kilonova.scheduler.objects.core_v1 import Pod

KAI_FRACTION = "gpu-fraction"
KAI_MEMORY = "gpu-memory"

_NO_NAMESPACE_LABELS: NamespaceLabels = {}
_NODE_BOUND_OWNERS = frozenset({"Job", "DaemonSet", "Node"})


class InvalidRequest(ValueError):
    """An invalid request or annotation of a pod: field, value, and how to fix it."""

    reason = "InvalidRequest"

    def __init__(self, field: str, value: str, problem: str) -> None:
        super().__init__(f"{field}: {value!r} {problem}")
        self.field = field
        self.value = value


def convert_pod(pod: Pod, namespaces: NamespaceLabels = _NO_NAMESPACE_LABELS) -> Member:
    """Convert a pod to a member of a gang; raises `InvalidRequest`."""
    return Member(
        pod.key,
        intern_value(convert_pod_shape(pod, namespaces)),
        pod.metadata.labels,
        terminating=pod.metadata.deletion_timestamp is not None,
        has_controller=is_recreated_elsewhere(pod),
    )


def is_recreated_elsewhere(pod: Pod) -> bool:
    """Whether an evicted pod is recreated by its controller on any node without loss: a Job counts
    a failure, and the pods of a DaemonSet and pods with volumes are bound to nodes."""
    owner = pod.metadata.controller
    if owner is None or owner.kind in _NODE_BOUND_OWNERS:
        return False
    return all(volume.claim_name(pod.metadata.name) is None for volume in pod.spec.volumes)


def convert_pod_shape(pod: Pod, namespaces: NamespaceLabels = _NO_NAMESPACE_LABELS) -> Shape:
    """The shape of a pod: requests and constraints; raises `InvalidRequest`."""
    spec = pod.spec
    amounts = effective_requests(pod)
    gpu_request = _convert_gpu_request(amounts, pod.metadata.annotations)
    for name, amount in _host_port_requests(pod):
        amounts[name] = max(amount, amounts.get(name, 0))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    return Shape(
        requests=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)),
        gpu=gpu_request,
        node_selector=tuple(sorted(spec.node_selector.items())),
        required_node_terms=(() if required is None else (convert_node_selector(required),)),
        preferred_node_terms=tuple(
            (each.weight, convert_node_term(each.preference))
            for each in (affinity.preferred if affinity is not None else ())
        ),
        tolerations=tuple(
            Toleration(each.key, each.operator, each.value, each.effect)
            for each in spec.tolerations
        ),
        pod_rules=convert_pod_affinity(pod, namespaces),
    )


def effective_requests(pod: Pod) -> dict[str, int]:
    """The maximum that a pod needs at any time of its life, as kube-scheduler computes it.

    While containers are resized in place, their actual resources count, too (`resizes`).
    """
    spec = pod.spec
    statuses = resizable_statuses(pod)
    infeasible = bool(statuses) and is_resize_infeasible(pod)
    total = pod_requests(
        [container_requests(each, statuses, infeasible=infeasible) for each in spec.containers],
        [
            (container_requests(each, statuses, infeasible=infeasible), each.restart_policy)
            for each in spec.init_containers
        ],
        convert_quantities(spec.resources.requests),
        convert_quantities(spec.overhead),
    )
    total[PODS] = 1
    # Each container may request the maximum, and their sum must not exceed it.
    return {name: min(amount, MAX_AMOUNT) for name, amount in total.items()}


def _host_port_requests(pod: Pod) -> Iterator[tuple[str, int]]:
    """The requests for host ports that containers use while the pod runs."""
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield from host_port_requests(port.host_port, port.protocol, port.host_ip).items()


def _convert_gpu_request(
    amounts: dict[str, int], annotations: Mapping[str, str]
) -> GpuRequest | None:
    """The GPU request. MIG instances are removed from `amounts`: how they count depends on the
    node."""
    profiles = {
        name: profile for name in amounts if (profile := profile_of_resource(name)) is not None
    }
    requested = [*sorted(profiles), *([GPU] if amounts.get(GPU) else [])]
    if len(requested) > 1:
        problem = "are several kinds of GPU: a pod may request only one"
        raise InvalidRequest("resources.requests", ", ".join(requested), problem)
    preferences = _convert_gpu_preferences(annotations)
    for name in (wire.MILLI, KAI_FRACTION, wire.MEMORY, KAI_MEMORY):
        text = annotations.get(name)
        if text is not None:
            if requested:
                problem = (
                    f"requests a GPU share in addition to {requested[0]}: leave one of them out"
                )
                raise InvalidRequest(annotation_field(name), text, problem)
            return _convert_gpu_share(name, text, annotations, preferences)
    for name, profile in profiles.items():
        return replace(preferences, count=amounts.pop(name), profile=profile)
    return replace(preferences, count=amounts[GPU]) if requested else None


def _convert_gpu_share(
    name: str, text: str, annotations: Mapping[str, str], preferences: GpuRequest
) -> GpuRequest:
    """A share by its first annotation: the compute part, else the memory. The part that is missing
    is in proportion to the other."""
    if name in (wire.MEMORY, KAI_MEMORY):
        memory = _parse_number(name, text)
        least = max(memory, preferences.memory)
        return replace(preferences, count=1, milli=0, memory=least, share_memory=memory)
    milli = _parse_milli(text) if name == wire.MILLI else _parse_fraction(text)
    if milli is None:
        raise InvalidRequest(annotation_field(name), text, _EXPECTED_VALUES[name])
    memory = _parse_number(wire.MEMORY, annotations.get(wire.MEMORY))
    if not memory or milli == MILLI_PER_GPU:
        return replace(preferences, count=1, milli=milli)
    least = max(memory, preferences.memory)
    return replace(preferences, count=1, milli=milli, memory=least, share_memory=memory)


def _convert_gpu_preferences(annotations: Mapping[str, str]) -> GpuRequest:
    """The required and preferred properties of the devices and their topology."""
    preference = annotations.get(wire.TOPOLOGY, GpuPreference.NONE)
    if preference not in list(GpuPreference):
        raise InvalidRequest(
            annotation_field(wire.TOPOLOGY), preference, _EXPECTED_VALUES[wire.TOPOLOGY]
        )
    models = annotations.get(wire.MODEL, "").split(",")
    return GpuRequest(
        count=0,
        memory=_parse_number(wire.MIN_MEMORY, annotations.get(wire.MIN_MEMORY)),
        models=tuple(model.strip() for model in models if model.strip()),
        architecture=annotations.get(wire.ARCHITECTURE, "").strip(),
        preference=GpuPreference(preference),
        bandwidth=_parse_number(wire.MIN_BANDWIDTH, annotations.get(wire.MIN_BANDWIDTH)),
    )


def _parse_number(name: str, text: str | None) -> int:
    if text is None:
        return 0
    if not _is_positive_int(text):
        raise InvalidRequest(annotation_field(name), text, _EXPECTED_VALUES[name])
    return int(text)


def annotation_field(name: str) -> str:
    """The field path of an annotation, for errors."""
    return f"metadata.annotations[{name}]"


def _parse_milli(text: str) -> int | None:
    return int(text) if _is_positive_int(text) and int(text) <= MILLI_PER_GPU else None


def _parse_fraction(text: str) -> int | None:
    try:
        milli = round(float(text) * MILLI_PER_GPU)
    except (ValueError, OverflowError):
        return None
    return milli if 0 < milli <= MILLI_PER_GPU else None


def _is_positive_int(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31


_EXPECTED_VALUES = {
    wire.MILLI: f"is not a GPU share: use 1 to {MILLI_PER_GPU}",
    KAI_FRACTION: "is not a GPU share: use a number above 0, up to 1",
    wire.MEMORY: "is not a GPU memory size in MiB",
    KAI_MEMORY: "is not a GPU memory size in MiB",
    wire.MIN_MEMORY: "is not a GPU memory size in MiB",
    wire.MIN_BANDWIDTH: "is not a bandwidth in GB/s",
    wire.TOPOLOGY: f"is not a GPU topology preference: use one of {', '.join(GpuPreference)}",
}
