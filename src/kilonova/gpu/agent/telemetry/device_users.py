"""The containers that have devices, as the exporter attributes them. Pure.

What the device plugin and the DRA driver gave to containers is known from their holdings, to the
container. Without them, a pod has what its annotation reports: whole devices and MIG instances
belong to the containers that request them, in the order in which the kubelet allocates; a share,
which no container requests, to the only one there is.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kilonova.api.gpu.annotations import DeviceAssignment, InvalidAnnotation, parse_devices
from kilonova.catalog.resource_names import GPU, mig_resource
from kilonova.gpu.agent.resources import Container, Pod
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.exporter.model import DeviceUser
from kilonova.gpu.kubelet.holdings import HeldDevice, HolderKind, Holding


def list_device_users(
    pods: Iterable[Pod], inventory: NodeInventory, holdings: Sequence[Holding] = ()
) -> tuple[DeviceUser, ...]:
    """The containers of pods that have devices, by namespace and name."""
    indices = {each.uuid: each.index for each in inventory.devices}
    found: list[DeviceUser] = []
    for pod in pods:
        if pod.holds_devices:
            found += _list_users(pod, indices, holdings)
    return tuple(sorted(found, key=lambda each: (each.namespace, each.pod, each.container)))


def _list_users(
    pod: Pod, indices: Mapping[str, int], holdings: Sequence[Holding]
) -> list[DeviceUser]:
    by_container: dict[str, list[DeviceAssignment]] = {}
    held = [x for x in holdings if x.kind is HolderKind.POD and x.uid == pod.metadata.uid]
    for each in held:
        by_container.setdefault(each.container, []).extend(_assignments(each.devices, indices))
    if not held and pod.metadata.annotations.devices:
        devices = parse_devices(pod.metadata.annotations.devices)
        if not isinstance(devices, InvalidAnnotation):
            for container, assigned in _split(devices, pod.spec.containers).items():
                by_container.setdefault(container, []).extend(assigned)
    for container, devices in _claimed(pod, holdings):
        by_container.setdefault(container, []).extend(_assignments(devices, indices))
    metadata = pod.metadata
    return [
        DeviceUser(metadata.namespace, metadata.name, metadata.uid, container, tuple(devices))
        for container, devices in by_container.items()
        if devices
    ]


def _assignments(held: Iterable[HeldDevice], indices: Mapping[str, int]) -> list[DeviceAssignment]:
    """With the index that devices have now. Access for monitoring is no use."""
    return [
        replace(each.assignment, index=indices[each.device])
        for each in held
        if each.device in indices and not each.is_admin
    ]


def _split(
    devices: Sequence[DeviceAssignment], containers: Sequence[Container]
) -> dict[str, list[DeviceAssignment]]:
    left = list(devices)
    found: dict[str, list[DeviceAssignment]] = {}
    for container in containers:
        for resource, amount in container.resources.limits.items():
            for each in [x for x in left if _fits(x, resource)][: _count(amount)]:
                left.remove(each)
                found.setdefault(container.name, []).append(each)
    if left:
        candidates = [x.name for x in containers if x.requests_devices] or [
            x.name for x in containers
        ]
        found.setdefault(candidates[0] if len(candidates) == 1 else "", []).extend(left)
    return found


def _fits(assignment: DeviceAssignment, resource: str) -> bool:
    if resource == GPU:
        return not assignment.profile
    # `1g.10gb+me` is requested as `nvidia.com/mig-1g.10gb.me`.
    return bool(assignment.profile) and (resource == mig_resource(assignment.profile))


def _count(amount: str | float) -> int:
    """Of an extended resource, which is a whole number."""
    try:
        return int(amount)
    except ValueError:
        return 0


def _claimed(pod: Pod, holdings: Sequence[Holding]) -> Iterable[tuple[str, Sequence[HeldDevice]]]:
    """What containers have of the pod's claims."""
    claims = {
        each.name: each.resource_claim_name
        for each in (*pod.spec.resource_claims, *(pod.status.resource_claim_statuses or ()))
        if each.resource_claim_name
    }
    held = {
        x.name: x
        for x in holdings
        if x.kind is HolderKind.CLAIM and x.namespace == pod.metadata.namespace
    }
    for container in pod.spec.containers:
        for used in container.resources.claims:
            holding = held.get(claims.get(used.name, ""))
            if holding is None:
                continue
            devices = [
                each
                for each in holding.devices
                if not used.request or each.request.partition("/")[0] == used.request
            ]
            yield container.name, devices
