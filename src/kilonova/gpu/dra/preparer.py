"""Prepares claims for containers, and undoes it.

Everything is idempotent: the kubelet asks again after each of its restarts, and undoes what it is
not sure of. The checkpoint has a claim before the kubelet is answered, and loses it last.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.cdi import CdiFolder, HostDriver, VisibleDevice, build_edits, qualified_name
from kilonova.gpu.cdi.spec import ContainerEdits
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import HealthState, MigInstance, NodeInventory
from kilonova.gpu.dra.claims import AllocatedClaim, is_allocated, read_claim
from kilonova.gpu.dra.configs import Sharing, find_sharing
from kilonova.gpu.dra.resource_slices import PoolDevice, list_pool_devices
from kilonova.gpu.kubelet.holdings import (
    HeldDevice,
    HolderKind,
    Holding,
    HoldingStore,
    find_conflict,
)
from kilonova.gpu.kubelet.interfaces import (
    AllocationRefused,
    InstanceProvider,
    InventorySource,
)
from kilonova.kube import Client
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

REQUEST_VARIABLE = "KILONOVA_GPUS_"
"""And the name of the request: the UUIDs of its devices."""


class ClaimSharing(Protocol):
    """Sets up sharing of devices, by MPS or time-slicing."""

    async def prepare_claim(
        self, uid: str, devices: Sequence[HeldDevice], sharing: Sharing
    ) -> ContainerEdits:
        """Let the containers of a claim share devices; what they get in addition. Idempotent; may
        raise `GpuError` or `AllocationRefused`."""
        ...

    async def release_claim(self, uid: str) -> None:
        """Nothing uses the claim any more. Nothing happens if it is unknown."""
        ...


class DeviceHeld(AllocationRefused):
    """A device that another holder has."""


async def _release_nothing() -> None:
    pass


class PreparedDevice(msgspec.Struct, frozen=True):
    """A device of a claim that containers may use."""

    request: str
    name: str
    cdi_devices: tuple[str, ...]


class ClaimPreparer:
    """The claims of a driver on a node; its pool has the name of the node.

    `release_ended` takes the devices from pods that have ended: a scheduler may know that before
    the device plugin does.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        driver: str,
        inventory: InventorySource,
        instances: InstanceProvider,
        store: HoldingStore,
        cdi: CdiFolder,
        *,
        host: HostDriver | None = None,
        sharing: ClaimSharing | None = None,
        release_ended: Callable[[], Awaitable[None]] = _release_nothing,
    ) -> None:
        self._client = client
        self.node = node
        self.driver = driver
        self.inventory_source = inventory
        self._instances = instances
        self._store = store
        self._cdi = cdi
        self._host = host or HostDriver()
        self._sharing = sharing
        self._release_ended = release_ended

    async def prepare(self, namespace: str, name: str, uid: str) -> tuple[PreparedDevice, ...]:
        """The devices of a claim, ready for containers. Raises `AllocationRefused`,
        `ClaimNotAllocated`, `InvalidConfig`, or `KubeError`."""
        try:
            return await self._prepare(namespace, name, uid)
        except DeviceHeld:
            await self._release_ended()
            return await self._prepare(namespace, name, uid)

    async def _prepare(self, namespace: str, name: str, uid: str) -> tuple[PreparedDevice, ...]:
        # One claim at a time: two requests for one claim, and two claims for one device.
        async with self._store.lock:
            known = self._find(uid)
            if known is not None:
                return await self._complete(known)
            claim = await read_claim(self._client, self.driver, self.node, namespace, name, uid)
            if not claim.devices:
                return ()
            prepared = await self._complete(self._build_holding(claim))
        _log.info(
            "claim prepared",
            claim=f"{namespace}/{name}",
            devices=",".join(each.name for each in claim.devices),
        )
        return prepared

    async def unprepare(self, uid: str) -> None:
        """Undo it, also what was cut off before the checkpoint had it; nothing happens if the claim
        is not prepared."""
        async with self._store.lock:
            known = self._find(uid) or Holding(HolderKind.CLAIM, uid, "", "", ())
            await self._release(known)

    async def restore(self) -> None:
        """After a start: release claims that are gone, and restore specs and MIG instances of the
        others, which may be gone since the machine was started again."""
        async with self._store.lock:
            for holding in [h for h in self._store.holdings if h.kind is HolderKind.CLAIM]:
                if not await is_allocated(
                    self._client, holding.namespace, holding.name, holding.uid
                ):
                    await self._release(holding)
                    continue
                try:
                    await self._complete(holding)
                except AllocationRefused as error:
                    _log.error("claim not restored", claim=str(holding), reason=str(error))

    def _find(self, uid: str) -> Holding | None:
        claims = (each for each in self._store.holdings if each.kind is HolderKind.CLAIM)
        return next((each for each in claims if each.uid == uid), None)

    def _build_holding(self, claim: AllocatedClaim) -> Holding:
        """What the claim is to have, if it may."""
        inventory = self.inventory_source.inventory
        pool = list_pool_devices(inventory)
        key = f"ResourceClaim {claim.namespace}/{claim.name}"
        held: list[HeldDevice] = []
        sharing: dict[str, Sharing] = {}
        for each in claim.devices:
            found = pool.get(each.name)
            if found is None:
                raise AllocationRefused(
                    f"{key} is allocated {each.name}, and node {self.node} has no such device"
                )
            if not each.is_admin:
                _check_device(key, claim.uid, inventory, self._store.holdings, found)
            is_instance = found.profile is not None
            wanted = find_sharing(claim.configs, each.request, is_instance)
            if wanted is not None:
                sharing[each.main_request] = wanted
            held.append(
                HeldDevice(
                    found.device.uuid,
                    found.assignment,
                    _find_instance(found),
                    each.name,
                    each.main_request,
                    each.is_admin,
                )
            )
        return Holding(
            HolderKind.CLAIM,
            claim.uid,
            claim.namespace,
            claim.name,
            tuple(held),
            sharing=msgspec.json.encode(sharing).decode() if sharing else "",
        )

    async def _complete(self, holding: Holding) -> tuple[PreparedDevice, ...]:
        """Make everything that the containers of a claim need."""
        assignments = [each.assignment for each in holding.devices if not each.is_admin]
        try:
            found: Mapping[DeviceAssignment, MigInstance] = {}
            if assignments:
                found = await self._instances.ensure_instances(holding.uid, assignments)
            devices = tuple(
                msgspec.structs.replace(each, instance=found.get(each.assignment, each.instance))
                for each in holding.devices
            )
            complete = msgspec.structs.replace(holding, devices=devices)
            edits = await self._build_edits(complete)
        except (GpuError, AllocationRefused) as error:
            if self._find(holding.uid) is None:
                await self._undo(holding.uid)
            raise AllocationRefused(f"{holding}: {error}") from error
        await self._cdi.write(holding.spec, edits)
        if complete not in self._store.holdings:
            await self._store.put(complete)
        return tuple(_list_prepared(complete))

    async def _build_edits(self, holding: Holding) -> dict[str, ContainerEdits]:
        """A CDI device for each request: a container may use one of them alone."""
        sharing = msgspec.json.decode(holding.sharing or "{}", type=dict[str, Sharing])
        requests = dict.fromkeys(each.request for each in holding.devices)
        found: dict[str, ContainerEdits] = {}
        for request in requests:
            own = [each for each in holding.devices if each.request == request]
            visible = _visible_devices(self.inventory_source.inventory, own)
            edits = build_edits(visible, self._host)
            uuids = ",".join(each.uuid for each in visible)
            if len(requests) > 1:
                edits = _without_selection(edits)
            edits = edits.with_env({_variable(request): uuids})
            if request in sharing:
                if self._sharing is None:
                    strategy = sharing[request].strategy.value
                    raise AllocationRefused(f"sharing by {strategy} is not available on this node")
                more = await self._sharing.prepare_claim(holding.uid, own, sharing[request])
                edits = edits.with_env(dict(each.split("=", 1) for each in more.env))
                edits = edits.with_mounts(more.mounts)
            found[_cdi_name(holding, request)] = edits
        return found

    async def _release(self, holding: Holding) -> None:
        await self._undo(holding.uid)
        await self._cdi.remove(holding.spec)
        if holding in self._store.holdings:
            await self._store.remove([holding])
            _log.info("claim released", claim=f"{holding.namespace}/{holding.name}")

    async def _undo(self, uid: str) -> None:
        if self._sharing is not None:
            await self._sharing.release_claim(uid)
        await self._instances.release_instances(uid)


def _find_instance(device: PoolDevice) -> MigInstance | None:
    """The MIG instance that a device of the pool is, if it exists."""
    place = (device.assignment.profile, device.assignment.start)
    instances = device.device.instances
    return next((each for each in instances if (each.profile, each.start) == place), None)


def _check_device(
    key: str,
    uid: str,
    inventory: NodeInventory,
    holdings: Sequence[Holding],
    found: PoolDevice,
) -> None:
    device = found.device
    if device.health.state is HealthState.UNHEALTHY:
        why = "; ".join(device.health.reasons) or device.health.state.value
        raise AllocationRefused(f"{key} is allocated {found.name}, which is unhealthy: {why}")
    if found.is_withheld:
        raise AllocationRefused(
            f"{key} is allocated {found.name}, which is given as MIG instances only: "
            f"{device.withheld}"
        )
    holder = find_conflict(inventory, holdings, uid, found.assignment)
    if holder is not None:
        raise DeviceHeld(
            f"{key} is allocated {found.name}: {holder} has GPU {device.index} ({device.uuid})"
        )


def _list_prepared(holding: Holding) -> list[PreparedDevice]:
    """The CDI device of a request is named with its first device: the runtime takes it once."""
    prepared: list[PreparedDevice] = []
    named: set[str] = set()
    for each in holding.devices:
        is_first = each.request not in named
        named.add(each.request)
        names = (qualified_name(_cdi_name(holding, each.request)),) if is_first else ()
        prepared.append(PreparedDevice(each.request, each.name, names))
    return prepared


def _visible_devices(inventory: NodeInventory, held: Sequence[HeldDevice]) -> list[VisibleDevice]:
    devices = {each.uuid: each for each in inventory.devices}
    return [
        VisibleDevice(devices[each.device], each.instance)
        for each in held
        if each.device in devices
    ]


def _without_selection(edits: ContainerEdits) -> ContainerEdits:
    """A container with several requests gets the variables of all, of each name the last: they
    cannot select. It sees the devices whose nodes it has."""
    env = tuple(each for each in edits.env if not each.startswith("CUDA_VISIBLE_DEVICES="))
    kept = msgspec.structs.replace(edits, env=env)
    return kept.with_env({"NVIDIA_VISIBLE_DEVICES": "void"})


def _variable(request: str) -> str:
    return REQUEST_VARIABLE + request.upper().replace("-", "_")


def _cdi_name(holding: Holding, request: str) -> str:
    return f"{holding.spec}-{request}"
