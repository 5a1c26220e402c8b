"""The DRA driver over real sockets, called as the kubelet calls it; claims of an API server."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.agent.engine_instances import EngineInstances
from kilonova.gpu.cdi import CdiFolder
from kilonova.gpu.cdi.spec import ContainerEdits
from kilonova.gpu.devices.model import HealthState
from kilonova.gpu.dra import DEFAULT_DRIVER, ClaimPreparer, DraDriver, Sharing
from kilonova.gpu.kubelet import (
    HeldDevice,
    HolderKind,
    Holding,
    InventoryFeed,
    KubeletPaths,
    open_holdings,
)
from kilonova.gpu.kubelet.engine_holders import list_holders
from kilonova.gpu.kubelet.grpc import dra_health_pb2 as health
from kilonova.gpu.kubelet.grpc import dra_pb2 as dra
from kilonova.gpu.kubelet.grpc import plugin_registration_pb2 as reg
from kilonova.gpu.kubelet.grpc.dra_grpc import DRAPluginStub
from kilonova.gpu.kubelet.grpc.dra_health_grpc import DRAResourceHealthStub
from kilonova.gpu.kubelet.grpc.plugin_registration_grpc import RegistrationStub
from kilonova.kube import Client, unstructured_resource
from tests.gpu.deviceplugin.node_pods import with_health, with_withheld
from tests.gpu.deviceplugin.plugin_node import sleep_briefly
from tests.gpu.devices.machines import simulate
from tests.gpu.mig.engines import running_engine
from tests.local.embedded_cluster import NAMESPACES, run_cluster

CLAIMS = unstructured_resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
NS = "default"
PATIENCE = 60.0
THIRD = "gpu-1-mig-3g40gb-9-4"


class RecordedSharing:
    """Sharing that gives containers a variable, and remembers."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def prepare_claim(self, uid: str, devices: Any, sharing: Sharing) -> ContainerEdits:
        self.calls.append(f"{sharing.strategy.value} {len(devices)}")
        return ContainerEdits(("CUDA_MPS_PIPE_DIRECTORY=/mps",))

    async def release_claim(self, uid: str) -> None:
        self.calls.append("release")


class DraNode:
    """A node with a DRA driver; what outlives the driver."""

    def __init__(self, client: Client, folder: Path, sockets: Path) -> None:
        self.client = client
        self.folder = folder
        self.paths = KubeletPaths(sockets, "/var/lib/kubelet")
        self.backend = simulate("h100:4")
        self.feed = InventoryFeed(self.backend.read_inventory())
        self.cdi = folder / "cdi"
        self.sharing: RecordedSharing | None = RecordedSharing()
        self.driver: DraDriver
        self.ended: list[Holding] = []
        """What pods have that have ended."""

    @property
    def uuids(self) -> list[str]:
        return [each.uuid for each in self.feed.inventory.devices]

    @asynccontextmanager
    async def running_driver(self) -> AsyncGenerator[DraDriver]:
        cdi = CdiFolder(self.cdi)
        self.store = await open_holdings(self.folder / "holdings.json", cdi)
        holders = list_holders(self.store.holdings)
        async with running_engine(self.backend, self.folder / "mig", holders=holders) as engine:
            preparer = ClaimPreparer(
                self.client,
                "n-1",
                DEFAULT_DRIVER,
                self.feed,
                EngineInstances(engine, lambda: None),
                self.store,
                cdi,
                sharing=self.sharing,
                release_ended=self._release_ended,
            )
            self.driver = DraDriver(preparer, self.paths, sleep=sleep_briefly)
            running = asyncio.create_task(self.driver.run())
            try:
                yield self.driver
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def _release_ended(self) -> None:
        async with self.store.lock:
            await self.store.remove(self.ended)

    async def register(self) -> reg.PluginInfo:
        """As the kubelet's plugin watcher does."""
        socket = self.paths.plugin_registration(DEFAULT_DRIVER)
        async with asyncio.timeout(PATIENCE):
            while not socket.exists():
                await asyncio.sleep(0.01)
        async with _channel(socket) as channel:
            stub = RegistrationStub(channel)
            info = await stub.get_info(reg.InfoRequest())
            await stub.notify_registration_status(reg.RegistrationStatus(plugin_registered=True))
        return info

    async def prepare(self, *claims: Any) -> list[Any]:
        request = dra.NodePrepareResourcesRequest(claims=[_reference(each) for each in claims])
        await self.register()
        async with _channel(self.paths.dra_socket(DEFAULT_DRIVER)) as channel:
            reply = await DRAPluginStub(channel).node_prepare_resources(request)
        return [reply.claims[each["metadata"]["uid"]] for each in claims]

    async def unprepare(self, *claims: Any) -> list[Any]:
        request = dra.NodeUnprepareResourcesRequest(claims=[_reference(each) for each in claims])
        async with _channel(self.paths.dra_socket(DEFAULT_DRIVER)) as channel:
            reply = await DRAPluginStub(channel).node_unprepare_resources(request)
        return [reply.claims[each["metadata"]["uid"]] for each in claims]

    async def allocate(
        self, name: str, *devices: str, config: Any = None, admin: bool = False
    ) -> Any:
        """A claim with an allocation: `REQUEST=DEVICE`, or `DEVICE` of the request `gpu`."""
        parts = [each.rpartition("=") for each in devices]
        names = dict.fromkeys(request or "gpu" for request, _, _ in parts)
        spec = {"devices": {"requests": [_request(each, admin) for each in names]}}
        await self.client.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, NS)
        common: Any = {"driver": DEFAULT_DRIVER, "pool": "n-1"}
        results = [
            {"request": request or "gpu", "device": device, **common}
            | ({"adminAccess": True} if admin else {})
            for request, _, device in parts
        ]
        body: Any = {"results": results}
        if config is not None:
            opaque = {"driver": DEFAULT_DRIVER, "parameters": config}
            body["config"] = [{"source": "FromClaim", "requests": [], "opaque": opaque}]
        status = {"allocation": {"devices": body}}
        return await self.client.patch(CLAIMS, name, {"status": status}, NS, subresource="status")

    def specs(self) -> dict[str, dict[str, str]]:
        """The variables of each CDI device."""
        found: dict[str, dict[str, str]] = {}
        for file in sorted(self.cdi.iterdir()):
            for each in json.loads(file.read_text())["devices"]:
                env = each["containerEdits"]["env"]
                found[each["name"]] = dict(variable.split("=", 1) for variable in env)
        return found


@pytest.fixture
async def node(tmp_path: Path) -> AsyncGenerator[DraNode]:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await client.patch(NAMESPACES, NS, {"metadata": {"labels": labels}})
        with tempfile.TemporaryDirectory(prefix="kd-") as sockets:
            yield DraNode(client, tmp_path, Path(sockets))


async def test_kubelet_learns_where_the_driver_serves(node: DraNode) -> None:
    async with node.running_driver() as driver:
        assert await node.register() == reg.PluginInfo(
            type="DRAPlugin",
            name="gpu.kilonova.dev",
            endpoint="/var/lib/kubelet/plugins/gpu.kilonova.dev/dra.sock",
            supported_versions=["v1.DRAPlugin"],
        )
        assert driver.registrations.count == 1


async def test_claim_gets_its_gpus(node: DraNode) -> None:
    claim = await node.allocate("two", "gpu-2", "gpu-0")
    uid = claim["metadata"]["uid"]
    async with node.running_driver():
        (answer,) = await node.prepare(claim)
        assert answer.error == ""
        first, second = answer.devices
        assert (first.pool_name, first.device_name, second.device_name) == ("n-1", "gpu-2", "gpu-0")
        assert list(first.request_names) == list(second.request_names) == ["gpu"]
        # One CDI device for all of the request, and named once.
        assert list(first.cdi_device_ids) == [f"kilonova.dev/gpu=claim-{uid}-gpu"]
        assert list(second.cdi_device_ids) == []
        visible = f"{node.uuids[2]},{node.uuids[0]}"
        assert node.specs()[f"claim-{uid}-gpu"]["NVIDIA_VISIBLE_DEVICES"] == visible
        assert node.specs()[f"claim-{uid}-gpu"]["KILONOVA_GPUS_GPU"] == visible
        assert await node.prepare(claim) == [answer]
        assert (await node.unprepare(claim))[0].error == ""
        assert (await node.unprepare(claim))[0].error == ""
        assert node.specs() == {}
        assert node.store.holdings == ()


async def test_mig_instance_of_a_claim_is_made(node: DraNode) -> None:
    claim = await node.allocate("slice", THIRD)
    async with node.running_driver():
        (answer,) = await node.prepare(claim)
        assert answer.error == ""
        (instance,) = node.backend.read_inventory().devices[1].instances
        assert (instance.profile, instance.start) == ("3g.40gb", 4)
        (env,) = node.specs().values()
        assert env["CUDA_VISIBLE_DEVICES"] == instance.uuid


async def test_requests_of_a_claim_have_devices_of_their_own(node: DraNode) -> None:
    claim = await node.allocate("both", "big=gpu-0", "small-ones/first=gpu-2")
    async with node.running_driver():
        (answer,) = await node.prepare(claim)
        assert [list(each.request_names) for each in answer.devices] == [["big"], ["small-ones"]]
        big, small = node.specs().values()
        assert big["KILONOVA_GPUS_BIG"] == node.uuids[0]
        assert small["KILONOVA_GPUS_SMALL_ONES"] == node.uuids[2]
        # A container with both gets each variable once.
        assert big["NVIDIA_VISIBLE_DEVICES"] == small["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert "CUDA_VISIBLE_DEVICES" not in big


async def test_claims_for_one_device_at_the_same_time(node: DraNode) -> None:
    claims = [await node.allocate(name, "gpu-1") for name in ("a", "b")]
    async with node.running_driver():
        answers = await node.prepare(*claims)
        errors = [each.error for each in answers if each.error]
        assert len(errors) == 1
        assert "is allocated gpu-1: ResourceClaim default/" in errors[0]


async def test_device_of_a_pod_is_refused(node: DraNode) -> None:
    claim = await node.allocate("a", "gpu-1")
    async with node.running_driver():
        held = (HeldDevice(node.uuids[1], DeviceAssignment(1, 0, "1g.10gb", 0)),)
        await node.store.put(Holding(HolderKind.POD, "u", NS, "pod-1", held, "main", "r"))
        (answer,) = await node.prepare(claim)
        assert "Pod default/pod-1 container main has GPU 1" in answer.error


async def test_device_of_a_pod_that_has_ended_is_released_first(node: DraNode) -> None:
    claim = await node.allocate("a", "gpu-1")
    async with node.running_driver():
        held = (HeldDevice(node.uuids[1], DeviceAssignment(1)),)
        holding = Holding(HolderKind.POD, "u", NS, "pod-1", held, "main", "r")
        await node.store.put(holding)

        node.ended.append(holding)
        (answer,) = await node.prepare(claim)
        assert answer.error == ""


async def test_admin_sees_devices_of_others(node: DraNode) -> None:
    claim = await node.allocate("user", "gpu-1")
    watcher = await node.allocate("watcher", "gpu-1", admin=True)
    async with node.running_driver():
        assert [each.error for each in await node.prepare(claim, watcher)] == ["", ""]
        other = await node.allocate("other", "gpu-1")
        await node.unprepare(claim)
        assert [each.error for each in await node.prepare(other)] == [""]


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        (["gpu-9"], "is allocated gpu-9, and node n-1 has no such device"),
        (["gpu-3"], "is allocated gpu-3, which is unhealthy: XID 79: lost"),
    ],
)
async def test_device_that_cannot_be_had_is_refused(
    node: DraNode, devices: list[str], problem: str
) -> None:
    claim = await node.allocate("a", *devices)
    await node.feed.publish(with_health(node.feed.inventory, 3, HealthState.UNHEALTHY))
    async with node.running_driver():
        (answer,) = await node.prepare(claim)
        assert problem in answer.error
        assert node.store.holdings == ()


async def test_gpu_that_is_to_be_partitioned_is_refused_and_its_instances_are_not(
    node: DraNode,
) -> None:
    whole, instance = await node.allocate("a", "gpu-1"), await node.allocate("b", THIRD)
    await node.feed.publish(with_withheld(node.feed.inventory, 1))
    async with node.running_driver():
        refused, given = await node.prepare(whole, instance)
        assert "gpu-1, which is given as MIG instances only: MIGStrategy s" in refused.error
        assert given.error == ""


async def test_claim_keeps_a_gpu_that_is_to_be_partitioned(node: DraNode) -> None:
    claim = await node.allocate("a", "gpu-1")
    async with node.running_driver():
        assert [each.error for each in await node.prepare(claim)] == [""]
        await node.feed.publish(with_withheld(node.feed.inventory, 1))
        assert [each.error for each in await node.prepare(claim)] == [""]


async def test_claim_that_is_not_what_the_kubelet_knows_is_refused(node: DraNode) -> None:
    claim = await node.allocate("a", "gpu-0")
    body = {"devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "x"}}]}}
    bare = await node.client.create(CLAIMS, {"metadata": {"name": "bare"}, "spec": body}, NS)
    other = {"metadata": {**claim["metadata"], "uid": "other"}}
    gone = {"metadata": {"namespace": NS, "name": "gone", "uid": "gone"}}
    async with node.running_driver():
        problems = [each.error for each in await node.prepare(bare, other, gone)]
        assert "is not allocated" in problems[0]
        assert "was recreated" in problems[1]
        assert "does not exist" in problems[2]


async def test_claim_without_devices_of_the_driver_is_prepared(node: DraNode) -> None:
    claim = await node.allocate("a")
    async with node.running_driver():
        (answer,) = await node.prepare(claim)
        assert (answer.error, list(answer.devices)) == ("", [])


async def test_configuration_reaches_sharing(node: DraNode) -> None:
    config = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 50}},
    }
    claim = await node.allocate("a", "gpu-0", "gpu-1", config=config)
    assert node.sharing is not None
    async with node.running_driver():
        assert (await node.prepare(claim))[0].error == ""
        (env,) = node.specs().values()
        assert env["CUDA_MPS_PIPE_DIRECTORY"] == "/mps"
        await node.unprepare(claim)
        assert node.sharing.calls == ["MPS 2", "release"]
    node.sharing = None
    async with node.running_driver():
        (answer,) = await node.prepare(claim)
        assert "sharing by MPS is not available on this node" in answer.error
        assert node.store.holdings == ()


async def test_claims_are_kept_over_a_restart_and_a_reboot(node: DraNode) -> None:
    claim = await node.allocate("a", THIRD)
    gone = await node.allocate("gone", "gpu-0")
    async with node.running_driver():
        await node.prepare(claim, gone)
        before = node.specs()
    await node.client.delete(CLAIMS, "gone", NS)
    node.backend.reboot()
    for file in node.cdi.iterdir():
        file.unlink()
    async with node.running_driver():
        await node.register()
        (instance,) = node.backend.read_inventory().devices[1].instances
        (name, env) = next(iter(node.specs().items()))
        assert name in before
        assert env["NVIDIA_VISIBLE_DEVICES"] == instance.uuid
        assert [each.name for each in node.store.holdings] == ["a"]


async def test_sockets_that_are_removed_are_made_again(node: DraNode) -> None:
    claim = await node.allocate("a", "gpu-0")
    async with node.running_driver() as driver:
        await node.register()
        for socket in (
            node.paths.dra_socket(DEFAULT_DRIVER),
            node.paths.plugin_registration(DEFAULT_DRIVER),
        ):
            socket.unlink()
            async with asyncio.timeout(PATIENCE):
                while not socket.exists():
                    await asyncio.sleep(0.01)
        assert (await node.prepare(claim))[0].error == ""
        assert driver.registrations.count == 2


async def test_health_of_devices_reaches_the_kubelet_at_once(node: DraNode) -> None:
    async with node.running_driver():
        await node.register()
        healthy = node.feed.inventory
        async with (
            _channel(node.paths.dra_socket(DEFAULT_DRIVER)) as channel,
            asyncio.timeout(PATIENCE),
        ):
            stream = DRAResourceHealthStub(channel).node_watch_resources(
                health.NodeWatchResourcesRequest()
            )
            reports = aiter(stream)
            first = await anext(reports)
            assert {each.health for each in first.devices} == {health.HEALTHY}
            assert len(first.devices) == 4 * 26
            await node.feed.publish(with_health(healthy, 3, HealthState.UNHEALTHY))
            second = await anext(reports)
            lost = [each for each in second.devices if each.health == health.UNHEALTHY]
            assert {each.device.device_name[:5] for each in lost} == {"gpu-3"}
            assert (lost[0].device.pool_name, lost[0].message) == ("n-1", "XID 79: lost")
            stream.cancel()


@asynccontextmanager
async def _channel(socket: Path) -> AsyncGenerator[grpc.aio.Channel]:
    options = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(f"unix:{socket}", options) as channel:
        async with asyncio.timeout(PATIENCE):
            await channel.channel_ready()
        yield channel


def _request(name: str, admin: bool) -> Any:
    main, _, option = name.partition("/")
    if option:
        first = {"name": option, "deviceClassName": DEFAULT_DRIVER}
        return {"name": main, "firstAvailable": [first]}
    exactly: Any = {"deviceClassName": DEFAULT_DRIVER}
    return {"name": main, "exactly": exactly | ({"adminAccess": True} if admin else {})}


def _reference(claim: Any) -> dra.Claim:
    meta = claim["metadata"]
    return dra.Claim(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"])
