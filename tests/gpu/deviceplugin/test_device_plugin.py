"""The device plugin over real sockets, with a kubelet that does what the real one does."""

import asyncio
import json
from pathlib import Path

import grpc.aio
import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.gpu.deviceplugin.plugin_devices import SHARED_GPU
from kilonova.gpu.devices.model import HealthState
from tests.gpu.deviceplugin.node_pods import ended, make_pod, with_health, with_withheld
from tests.gpu.deviceplugin.plugin_node import plugin_node
from tests.gpu.kubelet.plugin_kubelet import PATIENCE

SMALL = "nvidia.com/mig-1g.10gb"


async def test_container_gets_the_devices_of_its_annotation(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "3,1", 2)
        await node.admit(pod)
        assert node.visible(pod) == ["3", "1"]
        # The kubelet counts the same devices.
        counted = node.kubelet.allocations[pod.uid, "c0", GPU]
        assert sorted(counted) == sorted([node.uuids[1], node.uuids[3]])
        name = f"pod-{pod.uid}-c0-gpu"
        assert node.kubelet.cdi[pod.uid, "c0"] == [f"kilonova.dev/gpu={name}"]
        spec = json.loads((node.cdi / f"kilonova.dev-gpu_{name}.json").read_text())
        assert spec["devices"][0]["name"] == name


async def test_equal_pods_get_their_own_devices_each(tmp_path: Path) -> None:
    """Bound in the wrong order, and known to the API long before the kubelet admits them."""
    older = make_pod("older", "2", created="2026-01-01T00:00:00Z")
    newer = make_pod("newer", "0", created="2026-01-01T00:00:05Z")
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        node.pods.pods += [older, newer]
        await node.kubelet.admit(newer)
        await node.kubelet.admit(older)
        assert (node.visible(older), node.visible(newer)) == (["2"], ["0"])


async def test_equal_pods_keep_their_devices_over_restarts_of_the_plugin(tmp_path: Path) -> None:
    first, second, third = (make_pod(name, at) for name, at in (("a", "2"), ("b", "0"), ("c", "1")))
    async with plugin_node(tmp_path) as node:
        for pod in (second, first, third):
            async with node.running_plugin():
                await node.kubelet.wait_for(GPU, 4)
                await node.admit(pod)
        assert [node.visible(pod) for pod in (first, second, third)] == [["2"], ["0"], ["1"]]
        async with node.running_plugin():
            assert len(node.store.holdings) == 3


async def test_without_pod_resources_pods_are_served_by_age(tmp_path: Path) -> None:
    pods = [make_pod(name, at, created=at) for name, at in (("a", "2"), ("b", "0"), ("c", "1"))]
    pods.sort(key=lambda pod: pod.created)
    async with (
        plugin_node(tmp_path, serves_pod_resources=False) as node,
        node.running_plugin(),
    ):
        await node.kubelet.wait_for(GPU, 4)
        await node.admit(*pods)
        assert [node.visible(pod) for pod in pods] == [["0"], ["1"], ["2"]]


async def test_kubelet_that_lost_the_answer_gets_it_again(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "2")
        await node.admit(pod)
        # It ended before it wrote its checkpoint.
        node.kubelet.allocations.clear()
        node.kubelet.known.clear()
        await node.kubelet.restart()
        await node.kubelet.wait_for(GPU, 4)
        await node.kubelet.admit(pod)
        assert node.visible(pod) == ["2"]
        assert len(node.store.holdings) == 1


async def test_mig_instances_exist_before_the_kubelet_is_answered(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(SMALL, 28)
        pod = make_pod("a", "1:1g.10gb@4,1:1g.10gb@0", 1, 1, resource=SMALL)
        await node.admit(pod)
        device = node.backend.read_inventory().devices[1]
        by_start = {each.start: each.uuid for each in device.instances}
        assert device.mig_enabled
        assert node.visible(pod, "c0") == [by_start[4]]
        assert node.visible(pod, "c1") == [by_start[0]]
        assert all(name.startswith(f"pod-{pod.uid}-c") for name in node.specs())


async def test_whole_gpu_leaves_mig_mode_when_its_instances_are_idle(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(SMALL, 28)
        small = make_pod("small", "1:1g.10gb@4", resource=SMALL)
        await node.admit(small)
        whole = make_pod("whole", "1")
        with pytest.raises(grpc.aio.AioRpcError, match="Pod ns/small container c0 has GPU 1"):
            await node.admit(whole)
        node.pods.pods[:] = [ended(small)]
        node.kubelet.forget(small)
        again = make_pod("again", "1")
        await node.admit(again)
        assert node.visible(again) == ["1"]
        assert not node.backend.read_inventory().devices[1].mig_enabled


async def test_instance_that_cannot_be_made_rejects_the_pod(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(SMALL, 28)
        node.backend.lose(node.uuids[1])
        pod = make_pod("a", "1:1g.10gb@4", resource=SMALL)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await node.admit(pod)
        assert failed.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "pod ns/a" in (failed.value.details() or "")
        assert node.specs() == []
        assert node.store.holdings == ()
        assert "uid-a" not in node.engine._table.holders()  # pyright: ignore[reportPrivateUsage]


async def test_devices_of_a_pod_that_has_ended_are_free(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "2")
        await node.admit(pod)
        with pytest.raises(grpc.aio.AioRpcError, match="Pod ns/a container c0 has GPU 2"):
            await node.admit(make_pod("b", "2"))
        node.kubelet.forget(pod)
        node.pods.pods[:] = [ended(pod)]
        after = make_pod("after", "2")
        await node.admit(after)
        assert node.visible(after) == ["2"]
        assert node.specs() == [f"pod-{after.uid}-c0-gpu.json"]


async def test_pod_that_a_cache_does_not_know_yet_keeps_its_devices(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "2")
        await node.admit(pod)
        node.pods.cached = []
        await node.allocator.reconcile()
        assert len(node.store.holdings) == 1
        node.pods.pods.clear()
        await node.allocator.reconcile()
        assert node.store.holdings == ()
        assert node.specs() == []


async def test_health_reaches_the_kubelet_at_once(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        healthy = node.feed.inventory
        await node.feed.publish(with_health(healthy, 1, HealthState.UNHEALTHY))
        endpoint = await node.kubelet.wait_for(GPU, 3, 4)
        assert endpoint.devices[node.uuids[1]] == "Unhealthy"
        await node.kubelet.wait_for(SMALL, 21, 28)
        await node.feed.publish(healthy)
        await node.kubelet.wait_for(GPU, 4)


async def test_gpu_that_is_to_be_partitioned_is_counted_until_its_pod_ends(
    tmp_path: Path,
) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin() as server:
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "1")
        await node.admit(pod)
        withheld = with_withheld(with_withheld(node.feed.inventory, 1), 2)
        await node.feed.publish(withheld)
        endpoint = await node.kubelet.wait_for(GPU, 3, 4)
        assert endpoint.devices[node.uuids[2]] == "Unhealthy"
        with pytest.raises(grpc.aio.AioRpcError, match=r"GPU 2.*: MIGStrategy s"):
            await node.admit(make_pod("b", "2"))
        node.kubelet.forget(pod)
        node.pods.pods[:] = [ended(pod)]
        server.notice_pods()
        await node.kubelet.wait_for(GPU, 2, 4)
        await node.kubelet.wait_for(SMALL, 28)


async def test_plugins_register_again_when_the_kubelet_restarts(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "2")
        await node.admit(pod)
        await node.kubelet.restart()
        await node.kubelet.wait_for(GPU, 4)
        await node.kubelet.wait_for(SMALL, 28)
        other = make_pod("b", "3")
        await node.admit(other)
        assert (node.visible(pod), node.visible(other)) == (["2"], ["3"])


async def test_plugins_wait_for_a_kubelet_that_is_not_there(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node:
        await node.kubelet.stop()
        async with node.running_plugin():
            await asyncio.sleep(0.1)
            assert node.kubelet.registrations == []
            await node.kubelet.start()
            await node.kubelet.wait_for(GPU, 4)


async def test_removed_socket_is_made_again(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        before = node.kubelet.registrations.count(GPU)
        socket = node.paths.device_plugin(GPU)
        socket.unlink()
        async with asyncio.timeout(PATIENCE):
            while not socket.exists() or node.kubelet.registrations.count(GPU) == before:
                await asyncio.sleep(0.01)
        await node.kubelet.wait_for(GPU, 4)
        pod = make_pod("a", "1")
        await node.admit(pod)
        assert node.visible(pod) == ["1"]


async def test_specs_and_instances_that_a_reboot_removed_are_made_again(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node:
        pod = make_pod("a", "1:1g.10gb@4", resource=SMALL)
        async with node.running_plugin():
            await node.kubelet.wait_for(SMALL, 28)
            await node.admit(pod)
            (spec,) = node.specs()
        node.backend.reboot()
        (node.cdi / f"kilonova.dev-gpu_{spec}").unlink()
        (node.cdi / "kilonova.dev-gpu_pod-left.json").write_text("{}")
        async with node.running_plugin():
            await node.kubelet.wait_for(SMALL, 28)
            assert node.specs() == [spec]
            (instance,) = node.backend.read_inventory().devices[1].instances
            assert instance.uuid in (node.cdi / f"kilonova.dev-gpu_{spec}").read_text()
            assert node.store.holdings[0].devices[0].instance == instance


async def test_damaged_checkpoint_is_set_aside(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node:
        node.checkpoint.write_text('{"holdings": [')
        async with node.running_plugin():
            await node.kubelet.wait_for(GPU, 4)
            pod = make_pod("a", "1")
            await node.admit(pod)
            assert node.visible(pod) == ["1"]
        assert node.checkpoint.with_suffix(".damaged").exists()


async def test_request_that_no_pod_has_is_refused(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin():
        await node.kubelet.wait_for(GPU, 4)
        with pytest.raises(grpc.aio.AioRpcError, match=r"no pod on this node waits for 1 of nvid"):
            await node.kubelet.admit(make_pod("a", "2"))


@pytest.mark.parametrize(
    "step",
    [
        "before instances",
        "after instances",
        "after spec",
        "before checkpoint",
        "after checkpoint",
    ],
)
async def test_plugin_that_is_killed_at_any_step_leaves_nothing(tmp_path: Path, step: str) -> None:
    """The kubelet rejects the pod whose answer it did not get, and its devices go to the next."""
    async with plugin_node(tmp_path) as node:
        pod = make_pod("a", "1:1g.10gb@4", resource=SMALL)
        async with node.running_plugin(crash_at=step):
            await node.kubelet.wait_for(SMALL, 28)
            with pytest.raises(grpc.aio.AioRpcError):
                await node.admit(pod)
        node.pods.pods[:] = [ended(pod)]
        async with node.running_plugin():
            await node.kubelet.wait_for(SMALL, 28)
            assert node.store.holdings == ()
            assert node.specs() == []
            other = make_pod("b", "1:1g.10gb@4", resource=SMALL)
            await node.admit(other)
            (instance,) = node.backend.read_inventory().devices[1].instances
            assert node.visible(other) == [instance.uuid]


@pytest.mark.parametrize("blocked", ["cdi", "holdings.json"])
async def test_pod_is_refused_while_nothing_can_be_written(tmp_path: Path, blocked: str) -> None:
    async with plugin_node(tmp_path) as node:
        if blocked == "cdi":
            node.cdi.write_text("not a folder")
        async with node.running_plugin():
            await node.kubelet.wait_for(GPU, 4)
            if blocked != "cdi":
                node.checkpoint.mkdir()
            pod = make_pod("a", "1")
            with pytest.raises(grpc.aio.AioRpcError, match=r"pod ns/a: .*Errno"):
                await node.admit(pod)
            (node.cdi.unlink if blocked == "cdi" else node.checkpoint.rmdir)()
            assert node.store.holdings == ()
            again = make_pod("again", "1")
            await node.admit(again)
            assert node.visible(again) == ["1"]
            assert node.specs() == [f"pod-{again.uid}-c0-gpu.json"]


async def test_share_of_a_gpu_reaches_its_containers(tmp_path: Path) -> None:
    async with plugin_node(tmp_path) as node, node.running_plugin(shares_per_gpu=10):
        await node.kubelet.wait_for(SHARED_GPU, 40)
        first = make_pod("a", "1:500", resource=SHARED_GPU)
        second = make_pod("b", "1:500", resource=SHARED_GPU)
        await node.admit(first, second)
        assert node.visible(first) == node.visible(second) == ["1"]
        with pytest.raises(grpc.aio.AioRpcError, match="has GPU 1"):
            await node.admit(make_pod("c", "1:100", resource=SHARED_GPU))
        whole = make_pod("d", "1")
        with pytest.raises(grpc.aio.AioRpcError, match="has GPU 1"):
            await node.admit(whole)
