"""AutoMNNVL: GPU cliques of a group reach each other through a compute domain."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, NotFound, plain
from kilonova.local.nodes.fleet import Gpu, NodeGroup
from tests.conftest import Api
from tests.local.embedded_cluster import DEFINITIONS, eventually
from tests.workloads.admission.webhooks import webhooks
from tests.workloads.ground import GROUPS, SETS
from tests.workloads.manifests.load import set_of
from tests.workloads.scenarios.inventory import inventory
from tests.workloads.scenarios.world import SETTINGS, World, world

DOMAINS = plain("resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True)
ON = replace(SETTINGS, mnnvl=True)


async def install_compute_domains(api: Api) -> None:
    """The kind as NVIDIA's driver brings it, without the driver."""
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
        await client.apply(DEFINITIONS, body["metadata"]["name"], body, manager="driver")

        async def served() -> bool:
            try:
                await client.list(DOMAINS)
            except NotFound:
                return False
            return True

        await eventually(served)


@asynccontextmanager
async def gpu_world(api: Api) -> AsyncGenerator[World]:
    await install_compute_domains(api)
    nodes = NodeGroup(
        f"{api.namespace}-gpu",
        3,
        memory="1Gi",
        gpu=Gpu("NVIDIA-GB200", 4),
        start="10ms",
        stop="10ms",
    )
    async with world(api, group=[nodes], free=3, settings=ON) as stage:
        yield stage


async def domains(stage: World) -> list[str]:
    return [each["metadata"]["name"] for each in await stage.all(DOMAINS)]


async def until_domains(stage: World, *wanted: str) -> None:
    async def so() -> bool:
        return await domains(stage) == sorted(wanted)

    await stage.until(so)


async def reached(stage: World, clique: str) -> tuple[str | None, list[str]]:
    """The domain that a clique's pod claims, and which of its containers use it."""
    (pod,) = await stage.pods(clique)
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
    api: Api, manifest: str, pods: int, wanted: dict[str, str | None]
) -> None:
    async with gpu_world(api) as stage:
        await stage.apply(manifest)
        await stage.until_running(pods)
        for clique, domain in wanted.items():
            expected = (f"{manifest}-{domain}", ["main"]) if domain else (None, [])
            assert await reached(stage, f"{manifest}-{clique}") == expected, clique
        await until_domains(stage, *{f"{manifest}-{each}" for each in wanted.values() if each})


async def test_mnnvl_domain_is_what_the_driver_expects(api: Api) -> None:
    async with gpu_world(api) as stage:
        await stage.apply("mnnvl-mixed")
        await until_domains(stage, "mnnvl-mixed-0-all")
        (found,) = await stage.all(DOMAINS)
        assert found["spec"] == {
            "numNodes": 0,
            "channel": {"resourceClaimTemplate": {"name": "mnnvl-mixed-0-all"}},
        }
        assert found["metadata"]["labels"][names.MNNVL_GROUP] == "all"
        assert found["metadata"]["finalizers"] == [names.COMPUTE_DOMAIN_FINALIZER]
        assert found["metadata"]["ownerReferences"][0]["name"] == "mnnvl-mixed"


async def test_mnnvl_domains_come_and_go_with_replicas(api: Api) -> None:
    name = "mnnvl-two-groups"
    async with gpu_world(api) as stage:
        await stage.apply(name)
        await until_domains(stage, f"{name}-0-left", f"{name}-0-right")
        await stage.scale(SETS, name, 2)
        await until_domains(
            stage, *(f"{name}-{index}-{side}" for index in (0, 1) for side in ("left", "right"))
        )
        await stage.until_running(4)
        await stage.scale(SETS, name, 1)
        await until_domains(stage, f"{name}-0-left", f"{name}-0-right")
        await stage.scale(SETS, name, 0)
        await until_domains(stage)


async def test_mnnvl_group_that_scales_stays_in_its_domain(api: Api) -> None:
    async with gpu_world(api) as stage:
        await stage.apply("mnnvl-mixed")
        await stage.until_running(5)
        await stage.scale(GROUPS, "mnnvl-mixed-0-sg1", 2)
        await stage.until_running(7)
        assert await reached(stage, "mnnvl-mixed-0-sg1-1-gpu2") == ("mnnvl-mixed-0-all", ["main"])
        assert await domains(stage) == ["mnnvl-mixed-0-all"]


async def test_mnnvl_delete_leaves_no_domain_behind(api: Api) -> None:
    async with gpu_world(api) as stage:
        before = await inventory(api)
        await stage.apply("mnnvl-two-groups", replicas=2)
        await stage.until_running(4)
        await stage.client.delete(SETS, "mnnvl-two-groups", stage.namespace)

        async def as_before() -> bool:
            return await inventory(api) == before

        await stage.until(as_before)


async def test_mnnvl_domain_deleted_by_hand_comes_back(api: Api) -> None:
    async with gpu_world(api) as stage:
        await stage.apply("mnnvl-mixed")
        await until_domains(stage, "mnnvl-mixed-0-all")
        (before,) = await stage.all(DOMAINS)
        await stage.client.delete(DOMAINS, "mnnvl-mixed-0-all", stage.namespace)

        async def made_anew() -> bool:
            found = await stage.get(DOMAINS, "mnnvl-mixed-0-all")
            return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

        await stage.until(made_anew)


def annotated(value: str | None) -> JsonObject:
    body = set_of("mnnvl-bare")
    if value is not None:
        body["metadata"]["annotations"] = {names.MNNVL_GROUP: value}
    return body


async def test_mnnvl_group_must_be_a_name_and_stays(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path, ON) as client:
        with pytest.raises(ApiStatusError, match='Invalid value: "Not A Name"') as refused:
            await client.create(SETS, annotated("Not A Name"), api.namespace)
        assert refused.value.code == 422
        await client.create(SETS, annotated("one"), api.namespace)
        for value in ("two", None):
            change: Any = {"metadata": {"annotations": {names.MNNVL_GROUP: value}}}
            with pytest.raises(ApiStatusError, match="field is immutable"):
                await client.patch(SETS, "mnnvl-bare", change, api.namespace)


async def test_mnnvl_group_is_refused_where_domains_are_off(api: Api, tmp_path: Path) -> None:
    async with webhooks(api, tmp_path) as client:
        with pytest.raises(ApiStatusError, match="multi-node NVLink is off"):
            await client.create(SETS, annotated("one"), api.namespace)
        await client.create(SETS, annotated("none"), api.namespace)
