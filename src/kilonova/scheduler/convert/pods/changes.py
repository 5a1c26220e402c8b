"""Which changes of a pod are relevant to the scheduler. Pure."""

from collections.abc import Callable, Iterable

from kilonova.api.gpu.annotations import DEVICES
from kilonova.scheduler.convert.gpus import encode_devices
from kilonova.scheduler.convert.pods.resizes import has_resize_changed
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.objects.core_v1 import Pod

RereadPods = Callable[[Iterable[str], bool], None]
"""Called with pods whose requests may have changed, and whether capacity may have been freed."""


def affects_conversion(old: Pod, new: Pod) -> bool:
    """Whether the requests, usage or labels of a pod may have changed. Annotations count, as they
    contain requests; what a binding itself adds (devices, topology labels) does not."""
    return (
        _has_relevant_difference(old.metadata.annotations, new.metadata.annotations)
        or _has_relevant_difference(old.metadata.labels, new.metadata.labels)
        or old.spec.containers != new.spec.containers
        or old.spec.init_containers != new.spec.init_containers
        or old.spec.resources != new.spec.resources
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
        or has_resize_changed(old, new)
    )


def has_usage_changed(old: Member, new: Member) -> bool:
    """Whether a pod uses other resources, or matters differently to the affinity of other pods."""
    was, now = old.shape, new.shape
    return (was.requests, was.pod_rules, old.labels) != (now.requests, now.pod_rules, new.labels)


def has_other_devices(old: Pod | None, new: Pod, placement: PodPlacement) -> bool:
    """Whether a pod was just assigned other devices than those assumed for it."""
    text = new.metadata.annotations.get(DEVICES)
    if text is None or old is None or old.metadata.annotations.get(DEVICES) == text:
        return False
    return text != encode_devices(placement.devices)


def _has_relevant_difference(old: dict[str, str], new: dict[str, str]) -> bool:
    if old == new:
        return False
    for name, text in new.items():
        if old.get(name) != text and name not in _SET_BY_BINDING:
            return True
    return any(name not in new and name not in _SET_BY_BINDING for name in old)


_SET_BY_BINDING = {DEVICES, "topology.kubernetes.io/zone", "topology.kubernetes.io/region"}
"""Annotations and labels that are set by a binding."""
