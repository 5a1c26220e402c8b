"""All that replicas own beside cliques: claims, autoscalers, compute domains. None is left over."""

from typing import Any

import pytest

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.parts import AutoScaling
from kilonova.api.grove.podcliqueset import (
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.kube.resource import plain
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import DEFINITIONS, definition, eventually, settle
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.ground import (
    AUTOSCALERS,
    CLAIMS,
    CLIQUES,
    GROUPS,
    NAMESPACE,
    SETS,
    Ground,
    ground,
)
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime

DOMAINS = plain("resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True)

_REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
_CLAIM = {"spec": {"devices": {"requests": [_REQUEST]}}}


def sharing_set(replicas: int) -> PodCliqueSet:
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


def claims_of(replicas: int, fronts: int = 2, teams: int = 2) -> list[str]:
    """The names that there should be; `fronts` and `teams` are those of replica 0."""
    found = ["sys-all-all"]
    for i in range(replicas):
        found.append(f"sys-{i}-each")
        found += [f"sys-{i}-front-{each}-own" for each in range(fronts if i == 0 else 2)]
        found += [f"sys-{i}-team-{each}-team" for each in range(teams if i == 0 else 2)]
    return sorted(found)


async def has(place: Ground, resource: Any, wanted: list[str]) -> None:
    async def so() -> bool:
        return await place.names(resource) == wanted

    await eventually(so)
    await settle()
    assert await place.names(resource) == wanted


async def test_claims_follow_every_scale() -> None:
    async with ground() as place, operating(place.cluster):
        await place.apply(sharing_set(2))
        await has(place, CLAIMS, claims_of(2))
        await place.client.set_scale(GROUPS, "sys-0-team", NAMESPACE, 3)
        await place.client.set_scale(CLIQUES, "sys-0-front", NAMESPACE, 4)
        await has(place, CLAIMS, claims_of(2, fronts=4, teams=3))
        await place.client.set_scale(GROUPS, "sys-0-team", NAMESPACE, 1)
        await place.client.set_scale(CLIQUES, "sys-0-front", NAMESPACE, 1)
        await has(place, CLAIMS, claims_of(2, fronts=1, teams=1))
        await place.client.set_scale(SETS, "sys", NAMESPACE, 1)
        await has(place, CLAIMS, claims_of(1, fronts=1, teams=1))
        await place.client.set_scale(SETS, "sys", NAMESPACE, 0)
        await has(place, CLAIMS, ["sys-all-all"])
        await place.client.delete(SETS, "sys", NAMESPACE)
        await has(place, CLAIMS, [])


async def test_autoscalers_go_with_their_replicas() -> None:
    scaled = AutoScaling(max_replicas=4, min_replicas=1)
    async with ground() as place, operating(place.cluster):
        await place.apply(
            pod_clique_set(
                clique("front", auto_scaling_config=scaled),
                clique("hand"),
                groups=[group("team", "hand", scale_config=scaled)],
                replicas=2,
            )
        )
        await has(place, AUTOSCALERS, ["sys-0-front", "sys-0-team", "sys-1-front", "sys-1-team"])
        await place.client.set_scale(SETS, "sys", NAMESPACE, 1)
        await has(place, AUTOSCALERS, ["sys-0-front", "sys-0-team"])
        await place.client.delete(SETS, "sys", NAMESPACE)
        await has(place, AUTOSCALERS, [])


async def test_compute_domains_are_held_while_needed_and_then_let_go() -> None:
    async with ground() as place:
        served = definition("resource.nvidia.com", "ComputeDomain", "computedomains")
        served["spec"]["versions"][0]["name"] = "v1beta1"
        await place.client.create(DEFINITIONS, served)
        await settle()
        async with operating(place.cluster, Settings(mnnvl=True)):
            await place.apply(
                pod_clique_set(
                    clique("worker", gpus=1), replicas=3, annotations={names.MNNVL_GROUP: "ring"}
                )
            )
            await has(place, DOMAINS, ["sys-0-ring", "sys-1-ring", "sys-2-ring"])
            found = await place.get(DOMAINS, "sys-0-ring")
            assert found["metadata"]["finalizers"] == [names.COMPUTE_DOMAIN_FINALIZER]
            await place.client.set_scale(SETS, "sys", NAMESPACE, 1)
            await has(place, DOMAINS, ["sys-0-ring"])
            await place.client.set_scale(SETS, "sys", NAMESPACE, 0)
            await has(place, DOMAINS, [])
            await place.client.set_scale(SETS, "sys", NAMESPACE, 2)
            await has(place, DOMAINS, ["sys-0-ring", "sys-1-ring"])
            await place.client.delete(SETS, "sys", NAMESPACE)
            await has(place, DOMAINS, [])
