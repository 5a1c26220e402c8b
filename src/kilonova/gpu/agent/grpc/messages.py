"""The messages of `agent.proto`, from the agent's own values. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from kilonova.api.gpu.health import HealthRecord
from kilonova.gpu.agent.grpc.agent_pb2 import (
    Aggregate,
    Device,
    DeviceHealth,
    DeviceWindow,
    Health,
    Partition,
    Partitions,
    Path,
    TelemetryWindow,
    Topology,
)
from kilonova.gpu.agent.telemetry.windows import Window
from kilonova.gpu.devices.model import MigInstance, NodeInventory
from kilonova.gpu.mig.states import InstanceStatus


def build_topology_reply(node: str, inventory: NodeInventory) -> Topology:
    """The devices of a node, and how they are connected."""
    return Topology(
        node=node,
        driver_version=inventory.driver,
        cuda_version=inventory.cuda,
        backend=inventory.backend,
        devices=[
            Device(
                index=each.index,
                uuid=each.uuid,
                pci=each.pci,
                product=each.product,
                architecture=each.architecture,
                memory_mib=each.memory_mib,
                sms=each.sms or 0,
                numa=each.numa,
                pcie_switch=each.pcie_switch,
                mig_capable=each.geometry is not None,
                mig_enabled=each.mig_enabled,
                clique=each.fabric.key if each.fabric is not None else "",
            )
            for each in inventory.devices
        ],
        paths=[
            Path(
                first=each.first,
                second=each.second,
                kind=each.kind.value,
                nvlinks=each.nvlinks,
                bandwidth=each.bandwidth,
                switched=each.is_switched,
            )
            for each in inventory.paths
        ],
    )


def build_health(
    node: str, inventory: NodeInventory, records: Mapping[str, HealthRecord]
) -> Health:
    """The health of a node's devices."""
    devices: list[DeviceHealth] = []
    for each in inventory.devices:
        reply = DeviceHealth(
            index=each.index,
            uuid=each.uuid,
            state=each.health.state.value,
            reasons=each.health.reasons,
        )
        record = records.get(each.uuid)
        if record is not None:
            reply.recovery, reply.phase = record.recovery.value, record.phase.value
            reply.since, reply.xid = record.since, record.xid
        devices.append(reply)
    return Health(node=node, devices=devices)


def build_partitions(
    node: str,
    inventory: NodeInventory,
    statuses: Iterable[InstanceStatus],
    holders: Mapping[str, str],
) -> Partitions:
    """The MIG instances of a node; `holders` are names of holders by their UID."""
    devices = {each.uuid: each for each in inventory.devices}
    partitions: list[Partition] = []
    for status in statuses:
        device = devices.get(status.device)
        if device is None:
            continue
        found = next((x for x in device.instances if x.uuid == status.uuid), MigInstance("", "", 0))
        partitions.append(
            Partition(
                uuid=status.uuid,
                device_uuid=status.device,
                device_index=device.index,
                profile=status.slot.profile,
                start=status.slot.start,
                memory_mib=found.memory_mib,
                sms=found.sms,
                state=status.state.value,
                holder=holders.get(status.holder, status.holder),
            )
        )
    return Partitions(node=node, partitions=partitions)


def build_window(node: str, windows: Sequence[Window], offset: float) -> TelemetryWindow:
    """Windows of all devices; `offset` makes Unix time of their times."""
    return TelemetryWindow(
        node=node,
        start=min((each.start for each in windows), default=0.0) + offset if windows else 0.0,
        end=max((each.end for each in windows), default=0.0) + offset if windows else 0.0,
        devices=[
            DeviceWindow(
                device_uuid=each.device,
                instance_uuid=each.instance,
                samples=each.samples,
                last_xid=each.last_xid,
                quantities={
                    name: Aggregate(
                        min=value.minimum, mean=value.mean, max=value.maximum, last=value.last
                    )
                    for name, value in each.quantities.items()
                },
            )
            for each in windows
        ],
    )
