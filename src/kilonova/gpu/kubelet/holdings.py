"""Who has which of the node's GPUs: holdings, when two conflict, and the file that keeps them.

The file is written before the kubelet is answered, so that after a restart the same holders have
the same devices. Only one task at a time may change the holdings: see `HoldingStore.lock`.
"""

import asyncio
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.catalog.mig import MigGeometry
from kilonova.gpu.cdi import CdiFolder
from kilonova.gpu.cdi.files import replace_file
from kilonova.gpu.devices.model import MigInstance, NodeInventory
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

_VERSION = 1
_WHOLE_DEVICE_MILLI = DeviceAssignment(0).milli


class HolderKind(StrEnum):
    """What holds devices."""

    POD = "Pod"
    CLAIM = "ResourceClaim"


class HeldDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device, or a part of one, that a holder has."""

    device: str
    """UUID of the GPU: an index may change when the machine restarts."""
    assignment: DeviceAssignment
    instance: MigInstance | None = None
    name: str = ""
    """Of the device in its ResourcePool, for a claim."""
    request: str = ""
    """Of a claim, for which it was allocated."""
    is_admin: bool = False
    """Whether it is held beside others, for monitoring."""


class Holding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a container of a pod, or a claim, has."""

    kind: HolderKind
    uid: str
    """Of the pod, or of the claim."""
    namespace: str
    name: str
    devices: tuple[HeldDevice, ...]
    container: str = ""
    """Of a pod."""
    resource: str = ""
    ids: tuple[str, ...] = ()
    """The kubelet's ids of the devices, for a pod."""
    sharing: str = ""
    """How containers share the devices, as JSON, for a claim that requests it."""

    @property
    def key(self) -> tuple[str, str, str]:
        """A holder has one holding for each resource."""
        return self.uid, self.container, self.resource

    @property
    def spec(self) -> str:
        """The name of the CDI spec of the holder."""
        if self.kind is HolderKind.CLAIM:
            return f"claim-{self.uid}"
        return f"pod-{self.uid}-{self.container}-{self.resource.rpartition('/')[2]}"

    def __str__(self) -> str:
        where = f" container {self.container}" if self.container else ""
        return f"{self.kind.value} {self.namespace}/{self.name}{where}"


class HoldingStore:
    """The holdings of a node, in a file. Read them any time; change them under `lock`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._holdings: tuple[Holding, ...] = ()
        self.lock = asyncio.Lock()

    @property
    def holdings(self) -> tuple[Holding, ...]:
        return self._holdings

    async def load(self) -> None:
        """Read the file. One that is damaged is set aside: the holdings are then unknown."""
        self._holdings = await asyncio.to_thread(self._read)

    async def put(self, holding: Holding) -> None:
        """Add a holding, in place of an earlier one of the same key."""
        others = (each for each in self._holdings if each.key != holding.key)
        await self._replace((*others, holding))

    async def remove(self, holdings: Iterable[Holding]) -> None:
        """Remove holdings."""
        gone = tuple(holdings)
        if gone:
            await self._replace(tuple(each for each in self._holdings if each not in gone))

    async def _replace(self, holdings: tuple[Holding, ...]) -> None:
        content = msgspec.json.encode(_Checkpoint(holdings))
        await asyncio.to_thread(replace_file, self._path, content)
        self._holdings = holdings

    def _read(self) -> tuple[Holding, ...]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Checkpoint).holdings
        except FileNotFoundError:
            return ()
        except (msgspec.MsgspecError, UnicodeError) as error:
            aside = self._path.with_suffix(".damaged")
            self._path.replace(aside)
            _log.error(
                "checkpoint of device holdings not read: set aside",
                path=str(self._path),
                aside=str(aside),
                error=str(error),
            )
            return ()


async def open_holdings(path: Path, cdi: CdiFolder) -> HoldingStore:
    """The holdings of the file, and only their CDI specs: a crash may have left others."""
    store = HoldingStore(path)
    await store.load()
    await cdi.remove_others(each.spec for each in store.holdings)
    return store


class _Checkpoint(msgspec.Struct, frozen=True):
    holdings: tuple[Holding, ...]
    version: int = _VERSION


def find_conflict(
    inventory: NodeInventory,
    holdings: Sequence[Holding],
    uid: str,
    assignment: DeviceAssignment,
) -> Holding | None:
    """The holding because of which a pod or claim cannot have this; its own do not count."""
    device = next((each for each in inventory.devices if each.index == assignment.index), None)
    if device is None:
        return None
    milli, memory = assignment.milli, assignment.memory_milli
    for holding in holdings:
        if holding.uid == uid:
            continue
        for held in holding.devices:
            if held.device != device.uuid or held.is_admin:
                continue
            if _exclude(held.assignment, assignment, device.geometry):
                return holding
            if not assignment.profile:
                milli += held.assignment.milli
                memory += held.assignment.memory_milli
                if max(milli, memory) > _WHOLE_DEVICE_MILLI:
                    return holding
    return None


def _exclude(one: DeviceAssignment, other: DeviceAssignment, geometry: MigGeometry | None) -> bool:
    """Whether two parts of one device cannot exist beside each other, except for their sum."""
    if not one.profile and not other.profile:
        return False
    if not one.profile or not other.profile:
        return True
    if geometry is None:
        return one.start == other.start
    masks = [
        profile.mask_at(each.start)
        for each in (one, other)
        if (profile := geometry.profile(each.profile)) is not None
    ]
    return len(masks) < 2 or bool(masks[0] & masks[1])
