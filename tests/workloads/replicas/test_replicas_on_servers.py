"""Objects of a replica on both servers: what a server fills in is nothing to mend."""

from typing import Any

from kilonova.api.grove import PodCliqueSet
from kilonova.api.grove.parts import AutoScaling, RollingUpdate
from kilonova.api.grove.podcliqueset import (
    EXPLICIT,
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
)
from kilonova.kube import Reflector
from kilonova.workloads.caches import build_caches
from kilonova.workloads.keys import Replica
from kilonova.workloads.replicas.desire import desire
from kilonova.workloads.replicas.known import RevisionReader
from kilonova.workloads.replicas.observed import observe
from kilonova.workloads.replicas.plan import Plan
from kilonova.workloads.replicas.revision import revision_of_replica
from kilonova.workloads.replicas.units import units_of
from tests.conftest import Api
from tests.workloads.builders import clique, group, manifest, pod_clique_set
from tests.workloads.ground import (
    AUTOSCALERS,
    CLAIMS,
    CLIQUES,
    GANGS,
    GROUPS,
    SERVICES,
    parts_running,
)
from tests.workloads.scenarios.world import World, world


def with_everything() -> PodCliqueSet:
    """A set that says something of every field that a server might fill in around."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    claim = ResourceClaimTemplate("gpu", {"spec": {"devices": {"requests": [request]}}})
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    container = {
        "name": "main",
        "image": "busybox",
        "ports": [{"containerPort": 80}],
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
        "env": [{"name": "EMPTY", "value": ""}],
    }
    return pod_clique_set(
        clique(
            "a",
            2,
            1,
            pod_spec={"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]},
            auto_scaling_config=AutoScaling(5, 2, (metric,)),
            rolling_update=RollingUpdate(max_unavailable="50%"),
            resource_sharing=(ResourceSharing("gpu", "PerReplica"),),
        ),
        clique("b", after=("a",)),
        clique("c", 2),
        groups=[
            group(
                "x",
                "b",
                "c",
                replicas=2,
                rolling_update=RollingUpdate(max_surge=1, progress_deadline="5m"),
                scale_config=AutoScaling(4),
                resource_sharing=(GroupResourceSharing("gpu", "AllReplicas"),),
            )
        ],
        startup=EXPLICIT,
        resource_claim_templates=(claim,),
        priority_class_name="system-cluster-critical",
        labels={"team": "blue"},
        annotations={"note": "1"},
        termination_delay="10m",
    )


async def left_to_write(stage: World) -> Plan:
    """What a replica controller that starts now would write."""
    caches = build_caches(stage.client)
    async with parts_running(caches.parts, []):
        own: list[Reflector[Any]] = [
            caches.sets,
            caches.revisions,
            caches.cliques,
            caches.groups,
            caches.gangs,
            caches.pods,
            caches.services,
            caches.autoscalers,
            caches.claims,
            caches.topologies,
        ]
        for each in own:
            await each.wait_synced()
        set_ = caches.sets.store.get((stage.namespace, "sys"))
        assert set_ is not None
        known = RevisionReader(caches).of(set_)
        replica = Replica(stage.namespace, "sys", 0)
        seen = observe(caches, replica, set_, known.current, known.by_hash, {})
        revision = revision_of_replica(seen)
        assert revision is not None
        groups = units_of(seen, revision)
        return desire(seen, revision, groups, frozenset(), stage.settings)


async def test_nothing_is_left_to_write_and_edits_are_mended(api: Api) -> None:
    async with world(api, nodes=1, schedules=False) as stage:
        await stage.apply(manifest(with_everything()))

        async def is_made() -> bool:
            kinds = (CLIQUES, GANGS, GROUPS, AUTOSCALERS, CLAIMS)
            return [len(await stage.all(each)) for each in kinds] == [5, 2, 1, 2, 3]

        await stage.until(is_made)
        await stage.until_settled()
        assert (await left_to_write(stage)).is_empty

        edits: list[tuple[Any, str, Any]] = [
            (SERVICES, "sys-0", {"spec": {"selector": {"more": "x"}}}),
            (AUTOSCALERS, "sys-0-x", {"spec": {"maxReplicas": 9}}),
            (CLIQUES, "sys-0-a", {"spec": {"podSpec": {"hostNetwork": True}}}),
            (CLIQUES, "sys-0-x-0-b", {"spec": {"startsAfter": None}}),
            (GROUPS, "sys-0-x", {"spec": {"rollingUpdate": None}}),
            (GANGS, "sys-0-x-0", {"spec": {"baseRef": None}}),
        ]
        specs = [(await stage.get(kind, name))["spec"] for kind, name, _ in edits]
        for kind, name, patch in edits:
            await stage.client.patch(kind, name, patch, stage.namespace)

        async def is_mended() -> bool:
            found = [(await stage.get(kind, name))["spec"] for kind, name, _ in edits]
            return found == specs

        await stage.until(is_mended)
        await stage.until_settled()
        assert (await left_to_write(stage)).is_empty
