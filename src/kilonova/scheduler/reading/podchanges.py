"""Which changes of a pod matter to the scheduler. Pure."""

from kilonova.api.gpus import DEVICES
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gpus import devices_text
from kilonova.scheduler.reading.resizes import reports_otherwise


def reads_otherwise(old: Pod, new: Pod) -> bool:
    """Whether what a pod asks for, uses or says may have changed: a node is chosen by its
    annotations, too. What every binding adds is no request: devices, and labels of the node."""
    return (
        _differ(old.metadata.annotations, new.metadata.annotations)
        or _differ(old.metadata.labels, new.metadata.labels)
        or old.spec.containers != new.spec.containers
        or old.spec.init_containers != new.spec.init_containers
        or old.spec.resources != new.spec.resources
        or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
        or reports_otherwise(old, new)
    )


def counts_otherwise(old: Member, new: Member) -> bool:
    """Whether a pod takes something else of its node, or is something else to its neighbours."""
    was, now = old.shape, new.shape
    return (was.requests, was.peers, old.labels) != (now.requests, now.peers, new.labels)


def was_given_others(old: Pod | None, new: Pod, booking: Booking) -> bool:
    """Whether a pod was just given other devices than those that are booked for it."""
    text = new.metadata.annotations.get(DEVICES)
    if text is None or old is None or old.metadata.annotations.get(DEVICES) == text:
        return False
    return text != devices_text(booking.devices)


def _differ(old: dict[str, str], new: dict[str, str]) -> bool:
    if old == new:
        return False
    for name, text in new.items():
        if old.get(name) != text and name not in _OF_BINDINGS:
            return True
    return any(name not in new and name not in _OF_BINDINGS for name in old)


_OF_BINDINGS = {DEVICES, "topology.kubernetes.io/zone", "topology.kubernetes.io/region"}
"""Annotations and labels that a pod gets with its node."""
