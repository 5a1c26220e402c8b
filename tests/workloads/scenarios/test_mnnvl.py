"""AutoMNNVL: GPU cliques of a group share a compute domain."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, NotFound, unstructured_resource
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from tests.local.embedded_cluster import DEFINITIONS, wait_for_condition
from tests.workloads.admission.running_webhooks import running_webhooks
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.namespace_inventory import list_namespace_objects
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import (
    SETTINGS,
    ScenarioCluster,
    scenario_cluster,
)
from tests.workloads.workload_cluster import SCALING_GROUPS, SETS

DOMAINS = unstructured_resource(
    "resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True
)
ON = replace(SETTINGS, mnnvl=True)


async def install_compute_domains(api: ScenarioApi) -> None:
    """The CRD of NVIDIA's driver, without the driver."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    body: JsonObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "computedomains.resource.nvidia.com"},
        "spec": {
            "group": "resource.nvidia.com",
            "scope": "Namespaced",
            "names": {"kind": "ComputeDomain", "plural": "computedomains"},
            "versions": [version],
        },
    }
    async with api.client() as client:
        await client.apply(DEFINITIONS, body["metadata"]["name"], body, field_manager="driver")

        async def served() -> bool:
            try:
                await client.list(DOMAINS)
            except NotFound:
                return False
            return True

        await wait_for_condition(served)


@asynccontextmanager
async def gpu_cluster(api: ScenarioApi) -> AsyncGenerator[ScenarioCluster]:
    await install_compute_domains(api)
    nodes = NodeGroup(
        f"{api.namespace}-gpu",
        3,
        memory="1Gi",
        gpu=GpuSpec("NVIDIA-GB200", 4),
        start="10ms",
        stop="10ms",
    )
    async with scenario_cluster(api, node_groups=[nodes], free_nodes=3, settings=ON) as cluster:
        yield cluster


async def list_domains(cluster: ScenarioCluster) -> list[str]:
    return [each["metadata"]["name"] for each in await cluster.list_objects(DOMAINS)]


async def wait_for_domains(cluster: ScenarioCluster, *wanted: str) -> None:
    async def condition() -> bool:
        return await list_domains(cluster) == sorted(wanted)

    await cluster.wait_until(condition)


async def list_reached_domains(
    cluster: ScenarioCluster, clique: str
) -> tuple[str | None, list[str]]:
    """The domain that a clique's pod claims, and which of its containers use it."""
    (pod,) = await cluster.list_pods(clique)
    claims = pod["spec"].get("resourceClaims", [])
    own = [each for each in claims if each["name"] == names.MNNVL_CLAIM]
    users = [
        each["name"]
        for each in pod["spec"]["containers"]
        if {"name": names.MNNVL_CLAIM} in each["resources"].get("claims", [])
    ]
    return (own[0]["resourceClaimTemplateName"] if own else None), users


@pytest.mark.parametrize(
    ("manifest", "pods", "wanted"),
    [
        ("mnnvl-bare", 1, {"0-gpu": None}),
        ("mnnvl-two-groups", 2, {"0-left": "0-left", "0-right": "0-right"}),
        ("mnnvl-opt-out", 2, {"0-in": "0-all", "0-out": None}),
        (
            "mnnvl-three-layers",
            3,
            {"0-alone": "0-set", "0-sg-0-member": "0-group", "0-sg-0-own": "0-clique"},
        ),
        (
            "mnnvl-mixed",
            5,
            {
                "0-gpu1": "0-all",
                "0-sg1-0-gpu2": "0-all",
                "0-cpu1": None,
                "0-sg1-0-cpu2": None,
                "0-sg2-0-cpu3": None,
            },
        ),
    ],
)
async def test_mnnvl_gpu_containers_claim_the_domain_of_their_group(
    api: ScenarioApi, manifest: str, pods: int, wanted: dict[str, str | None]
) -> None:
    async with gpu_cluster(api) as cluster:
        await cluster.apply(manifest)
        await cluster.wait_until_running(pods)
        for clique, domain in wanted.items():
            expected = (f"{manifest}-{domain}", ["main"]) if domain else (None, [])
            assert await list_reached_domains(cluster, f"{manifest}-{clique}") == expected, clique
        await wait_for_domains(cluster, *{f"{manifest}-{each}" for each in wanted.values() if each})


async def test_mnnvl_domain_is_what_the_driver_expects(api: ScenarioApi) -> None:
    async with gpu_cluster(api) as cluster:
        await cluster.apply("mnnvl-mixed")
        await wait_for_domains(cluster, "mnnvl-mixed-0-all")
        (found,) = await cluster.list_objects(DOMAINS)
        assert found["spec"] == {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": "mnnvl-mixed-0-all"}},
        }
        assert found["metadata"]["labels"][names.MNNVL_GROUP] == "all"
        assert found["metadata"]["finalizers"] == [names.COMPUTE_DOMAIN_FINALIZER]
        assert found["metadata"]["ownerReferences"][0]["name"] == "mnnvl-mixed"


async def test_mnnvl_domains_are_created_and_deleted_with_replicas(api: ScenarioApi) -> None:
    name = "mnnvl-two-groups"
    async with gpu_cluster(api) as cluster:
        await cluster.apply(name)
        await wait_for_domains(cluster, f"{name}-0-left", f"{name}-0-right")
        await cluster.scale(SETS, name, 2)
        await wait_for_domains(
            cluster, *(f"{name}-{index}-{side}" for index in (0, 1) for side in ("left", "right"))
        )
        await cluster.wait_until_running(4)
        await cluster.scale(SETS, name, 1)
        await wait_for_domains(cluster, f"{name}-0-left", f"{name}-0-right")
        await cluster.scale(SETS, name, 0)
        await wait_for_domains(cluster)


async def test_mnnvl_group_that_scales_stays_in_its_domain(api: ScenarioApi) -> None:
    async with gpu_cluster(api) as cluster:
        await cluster.apply("mnnvl-mixed")
        await cluster.wait_until_running(5)
        await cluster.scale(SCALING_GROUPS, "mnnvl-mixed-0-sg1", 2)
        await cluster.wait_until_running(7)
        assert await list_reached_domains(cluster, "mnnvl-mixed-0-sg1-1-gpu2") == (
            "mnnvl-mixed-0-all",
            ["main"],
        )
        assert await list_domains(cluster) == ["mnnvl-mixed-0-all"]


async def test_mnnvl_delete_leaves_no_domain_behind(api: ScenarioApi) -> None:
    async with gpu_cluster(api) as cluster:
        before = await list_namespace_objects(api)
        await cluster.apply("mnnvl-two-groups", replicas=2)
        await cluster.wait_until_running(4)
        await cluster.client.delete(SETS, "mnnvl-two-groups", cluster.namespace)

        async def as_before() -> bool:
            return await list_namespace_objects(api) == before

        await cluster.wait_until(as_before)


async def test_mnnvl_deleted_domain_is_recreated(api: ScenarioApi) -> None:
    async with gpu_cluster(api) as cluster:
        await cluster.apply("mnnvl-mixed")
        await wait_for_domains(cluster, "mnnvl-mixed-0-all")
        (before,) = await cluster.list_objects(DOMAINS)
        await cluster.client.delete(DOMAINS, "mnnvl-mixed-0-all", cluster.namespace)

        async def made_anew() -> bool:
            found = await cluster.get(DOMAINS, "mnnvl-mixed-0-all")
            return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

        await cluster.wait_until(made_anew)


def build_annotated_set(value: str | None) -> JsonObject:
    body = load_set("mnnvl-bare")
    if value is not None:
        body["metadata"]["annotations"] = {names.MNNVL_GROUP: value}
    return body


async def test_mnnvl_group_must_be_a_name_and_is_immutable(
    api: ScenarioApi, tmp_path: Path
) -> None:
    async with running_webhooks(api, tmp_path, ON) as client:
        with pytest.raises(ApiStatusError, match='Invalid value: "Not A Name"') as rejected:
            await client.create(SETS, build_annotated_set("Not A Name"), api.namespace)
        assert rejected.value.code == 422
        await client.create(SETS, build_annotated_set("one"), api.namespace)
        for value in ("two", None):
            change: Any = {"metadata": {"annotations": {names.MNNVL_GROUP: value}}}
            with pytest.raises(ApiStatusError, match="field is immutable"):
                await client.patch(SETS, "mnnvl-bare", change, api.namespace)


async def test_mnnvl_group_is_rejected_when_disabled(api: ScenarioApi, tmp_path: Path) -> None:
    async with running_webhooks(api, tmp_path) as client:
        with pytest.raises(ApiStatusError, match="multi-node NVLink is disabled"):
            await client.create(SETS, build_annotated_set("one"), api.namespace)
        await client.create(SETS, build_annotated_set("none"), api.namespace)
