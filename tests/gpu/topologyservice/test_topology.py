"""The views of nodes and of the cluster follow nodes and pods."""

import pytest

from kilonova.api.gpu.annotations import DEVICES
from kilonova.local.simnodes import Fleet
from tests.gpu.agent.agent_cluster import A100, gpu_fleet, gpu_pod
from tests.gpu.topologyservice.topology_cluster import TopologyClient, run_topology_service
from tests.local.embedded_cluster import NODES, PODS, virtual_time, wait_for_condition

pytestmark = virtual_time


async def test_cluster_and_nodes_are_described_alike() -> None:
    async with run_topology_service() as service:
        cluster = await service.get("/v1/topology")
        assert cluster["totals"] == {"nodes": 2, "gpus": 16, "freeGpus": 16, "unhealthyGpus": 0}
        assert [each["node"] for each in cluster["nodes"]] == ["gpu-0", "gpu-1"]
        node = await service.get("/v1/topology/gpu-1")
        assert node == cluster["nodes"][1]
        first = node["gpus"][0]
        published = await service.client.get(NODES, "gpu-1")
        assert first["uuid"] in published["metadata"]["annotations"]["gpu.kilonova.dev/topology"]
        assert (first["freeMilli"], first["healthy"], first["portGbps"]) == (1000, True, 900)
        assert node["domains"]["topology.kubernetes.io/zone"] == "zone-a"


@pytest.mark.parametrize("count", [0, 1])
async def test_cluster_of_any_size_is_described(count: int) -> None:
    async with run_topology_service(gpu_fleet(count=count) if count else Fleet()) as service:
        cluster = await service.get("/v1/topology")
        assert [each["node"] for each in cluster["nodes"]] == ["gpu-0"][:count]
        assert cluster["totals"]["gpus"] == 8 * count


async def test_unknown_nodes_and_paths_are_errors_that_say_what_there_is() -> None:
    async with run_topology_service() as service:
        reply = await service.send("/v1/topology/nowhere")
        assert (reply.status, b"'nowhere' does not exist" in reply.body) == (404, True)
        reply = await service.send("/v2/topology")
        assert (reply.status, b"/v1/best-set?gpus=N" in reply.body) == (404, True)
        reply = await service.send("/v1/topology", method="POST")
        assert (reply.status, reply.headers["allow"]) == (405, "GET")


async def test_gpus_of_pods_are_not_free_until_the_pods_are_gone() -> None:
    async with run_topology_service() as service:
        await service.client.create(
            PODS,
            gpu_pod(
                "train",
                requests={"nvidia.com/gpu": "4"},
                spec={"schedulerName": "kilonova-scheduler"},
            ),
            "default",
        )
        await _wait_for_free(service, 12)
        pod = await service.client.get(PODS, "train", "default")
        given = [int(each) for each in pod["metadata"]["annotations"][DEVICES].split(",")]
        node = await service.get(f"/v1/topology/{pod['spec']['nodeName']}")
        assert [each["index"] for each in node["gpus"] if each["freeMilli"] == 0] == given
        await service.client.delete(PODS, "train", "default", grace_period_seconds=0)
        await _wait_for_free(service, 16)


async def test_slices_and_instances_of_mig_pods_are_listed() -> None:
    async with run_topology_service(gpu_fleet(A100)) as service:
        await service.client.create(
            PODS,
            gpu_pod(
                "slice",
                requests={"nvidia.com/mig-3g.20gb": "1"},
                spec={"schedulerName": "kilonova-scheduler"},
            ),
            "default",
        )

        async def has_instance() -> bool:
            gpus = (await service.get("/v1/topology/gpu-0"))["gpus"]
            return any(each.get("instances") for each in gpus)

        await wait_for_condition(has_instance)
        gpus = (await service.get("/v1/topology/gpu-0"))["gpus"]
        (sliced,) = [each for each in gpus if each.get("instances")]
        (instance,) = sliced["instances"]
        start = instance["start"]
        assert instance["profile"] == "3g.20gb"
        assert sliced["occupiedSlices"] == list(range(start, start + 4))
        assert (sliced["freeMilli"], sliced["migEnabled"]) == (0, True)


async def test_answers_are_encoded_again_only_after_a_change() -> None:
    async with run_topology_service() as service:
        first = (await service.send("/v1/topology")).body
        assert (await service.send("/v1/topology")).body is first
        # A question for a set changes the scheduler's state, and takes it back.
        await service.get("/v1/best-set", gpus="8")
        assert (await service.send("/v1/topology")).body is first
        await service.client.delete(NODES, "gpu-1")

        async def is_gone() -> bool:
            return (await service.get("/v1/topology"))["totals"]["nodes"] == 1

        await wait_for_condition(is_gone)
        assert (await service.send("/v1/topology/gpu-1")).status == 404


async def _wait_for_free(service: TopologyClient, gpus: int) -> None:
    async def is_reached() -> bool:
        return (await service.get("/v1/topology"))["totals"]["freeGpus"] == gpus

    await wait_for_condition(is_reached)
