"""The MIG engine as the device plugin and the DRA driver use it."""

from collections.abc import Sequence

from kilonova.api.gpu_annotations import DeviceAssignment
from kilonova.gpu.devices.model import Device
from kilonova.gpu.kubelet.holdings import Holding
from kilonova.gpu.kubelet.interfaces import AllocationRefused, Instances
from kilonova.gpu.mig.engine import MigEngine, RequestRefused
from kilonova.gpu.mig.execution import StepFailed
from kilonova.gpu.mig.planner import Target
from kilonova.gpu.mig.reservations import Holding as EngineHolding
from kilonova.gpu.mig.reservations import SlotRequest
from kilonova.gpu.mig.steps import Slot


class EngineInstances:
    """An `InstanceProvider` by the MIG engine. Owners are its holders.

    The engine changes nothing before it knows the holders (`MigEngine.reconcile`): after a start,
    tell it those of `list_holders`, with the pods that have no devices yet.
    """

    def __init__(self, engine: MigEngine) -> None:
        self._engine = engine

    async def ensure_instances(
        self, owner: str, assignments: Sequence[DeviceAssignment]
    ) -> Instances:
        devices = {each.index: each for each in self._engine.inventory.devices}
        lost = [str(each) for each in assignments if each.index not in devices]
        if lost:
            raise AllocationRefused(f"the node has lost {', '.join(lost)}")
        sliced = [each for each in assignments if each.profile]
        whole = {
            devices[each.index].uuid: devices[each.index] for each in assignments if each.milli
        }
        requests = [
            SlotRequest(devices[each.index].uuid, Slot(each.profile, each.start)) for each in sliced
        ]
        try:
            if whole:
                await self._leave_mig_mode([each for each in whole.values() if each.mig_enabled])
                await self._engine.use_devices(owner, list(whole))
            instances = await self._engine.ensure(owner, requests) if requests else ()
        except (RequestRefused, StepFailed) as error:
            raise AllocationRefused(str(error)) from error
        return dict(zip(sliced, instances, strict=True))

    async def release_instances(self, owner: str) -> None:
        await self._engine.release(owner)

    async def _leave_mig_mode(self, devices: Sequence[Device]) -> None:
        """Devices with instances of others stay in MIG mode, and are refused."""
        if devices:
            await self._engine.apply({each.uuid: Target(mig_enabled=False) for each in devices})


def list_holders(holdings: Sequence[Holding]) -> dict[str, EngineHolding]:
    """What the holders of devices have, for the MIG engine. Pure."""
    slots: dict[str, set[SlotRequest]] = {}
    devices: dict[str, set[str]] = {}
    for holding in holdings:
        own, used = slots.setdefault(holding.uid, set()), devices.setdefault(holding.uid, set())
        for each in holding.devices:
            assignment = each.assignment
            if assignment.profile:
                slot = Slot(assignment.profile, assignment.start)
                own.add(SlotRequest(each.device, slot))
            else:
                used.add(each.device)
    return {
        uid: EngineHolding(tuple(sorted(own)), tuple(sorted(devices[uid])))
        for uid, own in slots.items()
    }
