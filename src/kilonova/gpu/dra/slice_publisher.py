"""Keeps the ResourceSlices of a node as its inventory says, and writes only what differs.

A consumer takes the slices with the highest generation, and only if all of them are there. So what
changes within the devices that a slice has (health, attributes) is written to that slice; anything
else is a new generation of all.

The kubelet deletes the slices of a driver that was gone for a while; whatever deletes one, it is
made again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from kilonova.api.gpu.slices import build_pool
from kilonova.api.json import JsonObject
from kilonova.gpu.devices.model import NodeInventory
from kilonova.gpu.dra.attributes import find_pcie_root
from kilonova.gpu.dra.resource_slices import (
    UNHEALTHY_TAINT,
    SliceFeatures,
    build_resource_slices,
)
from kilonova.gpu.kubelet.interfaces import InventorySource
from kilonova.kube import Client, KubeError, NotFound, Reflector, unstructured_resource
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)

SLICES = unstructured_resource(
    "resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False
)
_RETRY_SECONDS = 5.0
_ADDED_TO_TAINTS = "timeAdded"
"""A field that the API server sets."""


class SliceChanges(msgspec.Struct, frozen=True):
    """What to write: slices to create or to apply, and the names of those to delete."""

    written: tuple[JsonObject, ...] = ()
    deleted: tuple[str, ...] = ()


def plan_changes(found: Sequence[JsonObject], desired: Sequence[JsonObject]) -> SliceChanges:
    """From the slices of the pool that exist to those that should; generations are set. Pure."""
    by_name = {each["metadata"]["name"]: each for each in found}
    newest = max((each["spec"]["pool"]["generation"] for each in found), default=0)
    is_same_pool = by_name.keys() == {each["metadata"]["name"] for each in desired} and all(
        _outline(by_name[each["metadata"]["name"]]) == _outline(each) for each in desired
    )
    is_one_generation = len({each["spec"]["pool"]["generation"] for each in found}) == 1
    if is_same_pool and is_one_generation:
        return SliceChanges(
            tuple(
                _with_generation(each, newest)
                for each in desired
                if _content(by_name[each["metadata"]["name"]]) != _content(each)
            )
        )
    names = {each["metadata"]["name"] for each in desired}
    return SliceChanges(
        tuple(_with_generation(each, newest + 1) for each in desired),
        tuple(sorted(by_name.keys() - names)),
    )


async def detect_features(client: Client, driver: str, node: str, uid: str) -> SliceFeatures:
    """What the API server keeps of a slice that is created on trial: fields of features that are
    off it drops without a word."""
    consumed: JsonObject = {"counterSet": "c", "counters": {"n": {"value": "1"}}}
    device: JsonObject = {
        "name": "trial",
        "consumesCounters": [consumed],
        "taints": [{"key": UNHEALTHY_TAINT, "effect": "NoSchedule"}],
    }
    (body,) = build_pool(driver, node, uid, [device])
    body["metadata"]["name"] += "-trial"
    kept = await client.create(SLICES, body, dry_run=True)
    (device,) = kept["spec"]["devices"]
    return SliceFeatures("consumesCounters" in device, "taints" in device)


class SlicePublisher:
    """Publishes the devices of a node. A runnable.

    `find_root` is the PCIe root of a PCI address.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        node_uid: str,
        driver: str,
        inventory: InventorySource,
        *,
        find_root: Callable[[str], str] = find_pcie_root,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = f"resource-slices of {driver}"
        self._client = client
        self._node = node
        self._uid = node_uid
        self._driver = driver
        self._source = inventory
        self._find_root = find_root
        self._sleep = sleep
        self._features: SliceFeatures | None = None
        self._roots: dict[str, str] = {}
        self._due = asyncio.Event()
        self._selector = f"spec.driver={driver},spec.nodeName={node}"
        self._slices: Reflector[JsonObject] = Reflector(
            client, SLICES, field_selector=self._selector
        )
        self._slices.store.add_event_handler(self._notice)

    def publish(self) -> None:
        """Look again: the kubelet may have deleted slices."""
        self._due.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._slices.run())
            tasks.create_task(self._follow_inventory())
            await self._slices.wait_for_sync()
            self._due.set()
            while True:
                await self._due.wait()
                self._due.clear()
                await self._publish()

    async def _follow_inventory(self) -> None:
        seen = self._source.inventory
        while True:
            seen = await self._source.wait_for_change(seen)
            self._due.set()

    def _notice(self, old: JsonObject | None, new: JsonObject | None) -> None:
        self._due.set()

    async def _publish(self) -> None:
        try:
            await self._write()
        except KubeError as error:
            _log.warning("ResourceSlices not published: trying again", error=str(error))
            await self._sleep(_RETRY_SECONDS)
            self._due.set()

    async def _write(self) -> None:
        if self._features is None:
            self._features = await detect_features(
                self._client, self._driver, self._node, self._uid
            )
            if not self._features.counters:
                _log.warning(
                    "MIG instances that do not exist yet are not published: the API server does "
                    "not support partitionable devices"
                )
        inventory = self._source.inventory
        desired = build_resource_slices(
            self._node,
            self._uid,
            self._driver,
            inventory,
            features=self._features,
            pcie_roots=await self._find_roots(inventory),
        )
        # Not from the store, which has only some of our last writes.
        found = await self._client.list(SLICES, field_selector=self._selector)
        changes = plan_changes(found.items, desired)
        for each in changes.written:
            await self._client.apply(SLICES, each["metadata"]["name"], each)
        for name in changes.deleted:
            await self._delete(name)
        if changes.written or changes.deleted:
            _log.info(
                "ResourceSlices published",
                written=len(changes.written),
                deleted=len(changes.deleted),
            )

    async def _find_roots(self, inventory: NodeInventory) -> Mapping[str, str]:
        missing = [each.pci for each in inventory.devices if each.pci not in self._roots]
        for pci in missing:
            self._roots[pci] = await asyncio.to_thread(self._find_root, pci)
        return self._roots

    async def _delete(self, name: str) -> None:
        try:
            await self._client.delete(SLICES, name)
        except NotFound:
            return


def _outline(body: JsonObject) -> tuple[object, ...]:
    """What a slice is about, whatever is said of it."""
    spec = body["spec"]
    owners = [each["uid"] for each in body["metadata"].get("ownerReferences", ())]
    return (
        owners,
        spec["driver"],
        spec.get("nodeName"),
        spec["pool"]["name"],
        spec["pool"]["resourceSliceCount"],
        [each["name"] for each in spec.get("devices") or ()],
        spec.get("sharedCounters") or [],
    )


def _content(body: JsonObject) -> JsonObject:
    """The devices of a slice, without what the API server has added."""
    return {
        each["name"]: {
            **each,
            "taints": [
                {k: v for k, v in taint.items() if k != _ADDED_TO_TAINTS}
                for taint in each.get("taints") or ()
            ],
        }
        for each in body["spec"].get("devices") or ()
    }


def _with_generation(body: JsonObject, generation: int) -> JsonObject:
    pool: JsonObject = {**body["spec"]["pool"], "generation": generation}
    return {**body, "spec": {**body["spec"], "pool": pool}}
