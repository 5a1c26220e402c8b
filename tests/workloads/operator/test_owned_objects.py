"""Claims, autoscalers and compute domains of replicas: none is left behind."""

from typing import Any

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.common import AutoScaling
from kilonova.api.grove.podcliqueset import (
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.kube.client.resource import unstructured_resource
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import (
    DEFINITIONS,
    advance_time,
    definition,
    virtual_time,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    AUTOSCALERS,
    CLIQUES,
    NAMESPACE,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time

DOMAINS = unstructured_resource(
    "resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True
)

_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
_CLAIM = {"spec": {"devices": {"requests": [_REQUEST]}}}


def build_sharing_set(replicas: int) -> PodCliqueSet:
    """Claims at every level: of the set, of its group, of a clique."""
    return pod_clique_set(
        clique("front", 2, resource_sharing=(ResourceSharing("own", "PerReplica"),)),
        clique("hand"),
        groups=[
            group(
                "team",
                "hand",
                replicas=2,
                resource_sharing=(GroupResourceSharing("team", "PerReplica"),),
            )
        ],
        replicas=replicas,
        resource_claim_templates=tuple(
            ResourceClaimTemplate(each, _CLAIM) for each in ("all", "each", "own", "team")
        ),
        resource_sharing=(
            SetResourceSharing("all", "AllReplicas"),
            SetResourceSharing("each", "PerReplica"),
        ),
    )


def list_expected_claims(replicas: int, fronts: int = 2, teams: int = 2) -> list[str]:
    """The names that there should be; `fronts` and `teams` are those of replica 0."""
    found = ["sys-all-all"]
    for i in range(replicas):
        found.append(f"sys-{i}-each")
        found += [f"sys-{i}-front-{each}-own" for each in range(fronts if i == 0 else 2)]
        found += [f"sys-{i}-team-{each}-team" for each in range(teams if i == 0 else 2)]
    return sorted(found)


async def wait_until_present(cluster: WorkloadCluster, resource: Any, wanted: list[str]) -> None:
    async def condition() -> bool:
        return await cluster.list_names(resource) == wanted

    await wait_for_condition(condition)
    await advance_time()
    assert await cluster.list_names(resource) == wanted


async def test_claims_follow_every_scale() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_sharing_set(2))
        await wait_until_present(cluster, RESOURCE_CLAIMS, list_expected_claims(2))
        await cluster.client.set_scale(SCALING_GROUPS, "sys-0-team", NAMESPACE, 3)
        await cluster.client.set_scale(CLIQUES, "sys-0-front", NAMESPACE, 4)
        await wait_until_present(
            cluster, RESOURCE_CLAIMS, list_expected_claims(2, fronts=4, teams=3)
        )
        await cluster.client.set_scale(SCALING_GROUPS, "sys-0-team", NAMESPACE, 1)
        await cluster.client.set_scale(CLIQUES, "sys-0-front", NAMESPACE, 1)
        await wait_until_present(
            cluster, RESOURCE_CLAIMS, list_expected_claims(2, fronts=1, teams=1)
        )
        await cluster.client.set_scale(SETS, "sys", NAMESPACE, 1)
        await wait_until_present(
            cluster, RESOURCE_CLAIMS, list_expected_claims(1, fronts=1, teams=1)
        )
        await cluster.client.set_scale(SETS, "sys", NAMESPACE, 0)
        await wait_until_present(cluster, RESOURCE_CLAIMS, ["sys-all-all"])
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_until_present(cluster, RESOURCE_CLAIMS, [])


async def test_autoscalers_are_deleted_with_their_replicas() -> None:
    scaled = AutoScaling(max_replicas=4, min_replicas=1)
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(
            pod_clique_set(
                clique("front", auto_scaling_config=scaled),
                clique("hand"),
                groups=[group("team", "hand", scale_config=scaled)],
                replicas=2,
            )
        )
        await wait_until_present(
            cluster, AUTOSCALERS, ["sys-0-front", "sys-0-team", "sys-1-front", "sys-1-team"]
        )
        await cluster.client.set_scale(SETS, "sys", NAMESPACE, 1)
        await wait_until_present(cluster, AUTOSCALERS, ["sys-0-front", "sys-0-team"])
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_until_present(cluster, AUTOSCALERS, [])


async def test_compute_domains_keep_their_finalizer_while_needed() -> None:
    async with workload_cluster() as cluster:
        served = definition("resource.nvidia.com", "ComputeDomain", "computedomains")
        served["spec"]["versions"][0]["name"] = "v1beta1"
        await cluster.client.create(DEFINITIONS, served)
        await advance_time()
        async with running_operator(cluster.cluster, OperatorSettings(mnnvl=True)):
            await cluster.apply(
                pod_clique_set(
                    clique("worker", gpus=1), replicas=3, annotations={names.MNNVL_GROUP: "ring"}
                )
            )
            await wait_until_present(cluster, DOMAINS, ["sys-0-ring", "sys-1-ring", "sys-2-ring"])
            found = await cluster.get(DOMAINS, "sys-0-ring")
            assert found["metadata"]["finalizers"] == [names.COMPUTE_DOMAIN_FINALIZER]
            await cluster.client.set_scale(SETS, "sys", NAMESPACE, 1)
            await wait_until_present(cluster, DOMAINS, ["sys-0-ring"])
            await cluster.client.set_scale(SETS, "sys", NAMESPACE, 0)
            await wait_until_present(cluster, DOMAINS, [])
            await cluster.client.set_scale(SETS, "sys", NAMESPACE, 2)
            await wait_until_present(cluster, DOMAINS, ["sys-0-ring", "sys-1-ring"])
            await cluster.client.delete(SETS, "sys", NAMESPACE)
            await wait_until_present(cluster, DOMAINS, [])
