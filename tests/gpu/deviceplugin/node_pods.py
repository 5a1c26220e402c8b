"""Pods of a node, and pods of nodes, for tests of the device plugin."""

from collections.abc import Sequence

from msgspec.structs import replace

from kilonova.catalog.resource_names import GPU
from kilonova.gpu.deviceplugin.pods import ContainerKind, ContainerNeed, NodePod
from kilonova.gpu.devices.model import DeviceHealth, HealthState, NodeInventory
from tests.gpu.devices.machines import simulate


def make_pod(
    name: str,
    devices: str | None,
    *counts: int,
    resource: str = GPU,
    init: int = 0,
    sidecar: int = 0,
    created: str = "2026-01-01T00:00:00Z",
) -> NodePod:
    """A pod with a container for each count; `init` and `sidecar` are what those request."""
    needs: list[ContainerNeed] = []
    if init:
        needs.append(ContainerNeed("init", {resource: init}, ContainerKind.INIT))
    if sidecar:
        needs.append(ContainerNeed("sidecar", {resource: sidecar}, ContainerKind.SIDECAR))
    needs += [ContainerNeed(f"c{at}", {resource: n}) for at, n in enumerate(counts or (1,))]
    return NodePod(f"uid-{name}", "ns", name, tuple(needs), devices, created)


def ended(pod: NodePod) -> NodePod:
    return replace(pod, is_terminal=True)


def machine(persona: str = "h100:4") -> NodeInventory:
    return simulate(persona).read_inventory()


def with_health(inventory: NodeInventory, index: int, state: HealthState) -> NodeInventory:
    devices = list(inventory.devices)
    devices[index] = replace(devices[index], health=DeviceHealth(state, ("XID 79: lost",)))
    return replace(inventory, devices=tuple(devices))


def with_withheld(inventory: NodeInventory, index: int) -> NodeInventory:
    """The inventory with a device that is to be partitioned."""
    devices = list(inventory.devices)
    devices[index] = replace(devices[index], withheld="MIGStrategy s")
    return replace(inventory, devices=tuple(devices))


class PodList:
    """A `PodSource` whose pods the test sets; its cache shows none until `cached` is set."""

    def __init__(self, *pods: NodePod) -> None:
        self.pods: list[NodePod] = list(pods)
        self.cached: list[NodePod] | None = None
        self.fresh_lists = 0

    async def list_pods(self, *, fresh: bool) -> Sequence[NodePod]:
        if not fresh and self.cached is not None:
            return list(self.cached)
        self.fresh_lists += fresh
        return list(self.pods)
