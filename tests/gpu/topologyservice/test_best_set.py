"""The best set is what the scheduler chooses, and asking for it changes nothing."""

import msgspec
import pytest

from kilonova.api.gpu.annotations import DEVICES
from kilonova.gpu.topologyservice.best_set import InvalidQuery
from kilonova.gpu.topologyservice.queries import parse_query
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.gpu.agent.agent_cluster import A100, H100, gpu_fleet, gpu_pod, wait_for_phase
from tests.gpu.topologyservice.topology_cluster import run_topology_service
from tests.local.embedded_cluster import PODS, virtual_time


@virtual_time
async def test_scheduler_binds_to_the_set_that_was_answered() -> None:
    async with run_topology_service() as service:
        answer = await service.get("/v1/best-set", gpus="4", preference="NVLinkOptimal")
        (chosen,) = answer["sets"]
        assert chosen["bandwidthGbps"] == 900
        annotations = {"gpu.kilonova.dev/topology": "NVLinkOptimal"}
        await service.client.create(
            PODS,
            gpu_pod(
                "train",
                requests={"nvidia.com/gpu": "4"},
                annotations=annotations,
                spec={"schedulerName": "kilonova-scheduler"},
            ),
            "default",
        )
        await wait_for_phase(service.client, "train", "Running")
        pod = await service.client.get(PODS, "train", "default")
        assert pod["spec"]["nodeName"] == chosen["node"]
        assert pod["metadata"]["annotations"][DEVICES] == ",".join(map(str, chosen["gpus"]))
        assert len(set(chosen["uuids"])) == 4


@virtual_time
async def test_more_gpus_than_a_node_has_are_equal_sets_of_near_nodes() -> None:
    group = NodeGroup("gpu", count=8, cpu="64", memory="512Gi", gpu=H100, racks=2, start="0.1s")
    async with run_topology_service(Fleet(nodes=(group,))) as service:
        before = (await service.send("/v1/topology")).body
        sets = (await service.get("/v1/best-set", gpus="32"))["sets"]
        assert [len(each["gpus"]) for each in sets] == [8, 8, 8, 8]
        nodes = {each["node"]: each for each in msgspec.json.decode(before)["nodes"]}
        racks = {nodes[each["node"]]["domains"]["kilonova.dev/rack"] for each in sets}
        assert len(racks) == 1
        sets = (await service.get("/v1/best-set", gpus="12", perNode="4"))["sets"]
        assert [len(each["gpus"]) for each in sets] == [4, 4, 4]
        assert len({(each["node"], tuple(each["gpus"])) for each in sets}) == 3
        assert (await service.send("/v1/topology")).body == before


@virtual_time
async def test_mig_instances_are_answered_with_their_starts() -> None:
    async with run_topology_service(gpu_fleet(A100)) as service:
        answer = await service.get("/v1/best-set", gpus="3", profile="2g.10gb")
        places = [(each["gpus"][0], each["starts"][0]) for each in answer["sets"]]
        assert len(set(places)) == 3
        assert {start for _, start in places} <= {0, 2, 4}


@virtual_time
async def test_what_does_not_exist_is_answered_with_the_reason() -> None:
    async with run_topology_service() as service:
        answer = await service.get("/v1/best-set", gpus="1", model="B200")
        assert answer == {"sets": [], "reason": "there are no 1 free GPUs of model B200"}
        answer = await service.get("/v1/best-set", gpus="4", minBandwidth="901")
        assert "at least 901 GB/s" in answer["reason"]
        reply = await service.send("/v1/best-set", gpus="12", perNode="5")
        assert (reply.status, b"do not divide 12" in reply.body) == (400, True)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([], "gpus: required"),
        ([("gpus", "0")], "gpus: 0 is not between 1 and 65536"),
        ([("gpus", "-1")], "gpus: '-1' is not a number"),
        ([("gpus", "9" * 400)], "is not a number from 1 to 65536"),
        ([("gpus", "٣")], "is not a number"),
        ([("gpus", "1"), ("gpus", "2")], "gpus: given 2 times"),
        ([("gpus", "1"), ("preference", "Fast")], "preference: 'Fast' is none of None, NVLink"),
        ([("gpus", "1"), ("profile", "9g.1gb")], "profile: '9g.1gb' is no MIG profile"),
        ([("gpus", "1"), ("minMemory", "80Gi")], "minMemory: '80Gi' is not a number"),
        ([("gpus", "1"), ("colour", "red")], "colour: unknown parameter; there are gpus"),
    ],
)
def test_invalid_parameters_are_named(parameters: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(InvalidQuery) as error:
        parse_query(parameters)
    assert message in str(error.value)
