"""Who has the devices of a node, as its pods say."""

from collections.abc import Iterable

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment, InvalidAnnotation, parse_devices
from kilonova.gpu.agent.resources import Pod


class Holder(msgspec.Struct, frozen=True):
    """A pod, or a claim, and the devices that the scheduler assigned to it."""

    namespace: str
    name: str
    uid: str
    devices: tuple[DeviceAssignment, ...]
    is_terminating: bool = False
    is_claim: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def uses(self, index: int) -> bool:
        """Whether it has the device of this index, or a part of it."""
        return any(each.index == index for each in self.devices)


def read_holders(pods: Iterable[Pod]) -> tuple[Holder, ...]:
    """The pods that have devices, by name."""
    found: list[Holder] = []
    for pod in pods:
        text = pod.metadata.annotations.devices
        if not text or not pod.holds_devices:
            continue
        devices = parse_devices(text)
        if isinstance(devices, InvalidAnnotation) or not devices:
            continue
        metadata = pod.metadata
        found.append(
            Holder(
                metadata.namespace,
                metadata.name,
                metadata.uid,
                devices,
                metadata.deletion_timestamp is not None,
            )
        )
    return tuple(sorted(found, key=lambda each: each.key))
