"""Objects of a replica on both servers: defaults of the server cause no writes."""

from typing import Any

from kilonova.api.grove import PodCliqueSet
from kilonova.api.grove.common import AutoScaling, RollingUpdate
from kilonova.api.grove.podcliqueset import (
    EXPLICIT,
    GroupResourceSharing,
    ResourceClaimTemplate,
    ResourceSharing,
)
from kilonova.kube import Reflector
from kilonova.workloads.caches import build_caches
from kilonova.workloads.controllers.podcliqueset_replica.desire import desire
from kilonova.workloads.controllers.podcliqueset_replica.observed import observe_replica
from kilonova.workloads.controllers.podcliqueset_replica.revision_cache import RevisionCache
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    compute_group_states,
)
from kilonova.workloads.controllers.podcliqueset_replica.target_revision import (
    select_target_revision,
)
from kilonova.workloads.controllers.podcliqueset_replica.write_plan import WritePlan
from kilonova.workloads.keys import ReplicaKey
from tests.conftest import Api
from tests.workloads.api_objects import clique, group, pod_clique_set, to_manifest
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import (
    AUTOSCALERS,
    CLIQUES,
    GANGS,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SERVICES,
    run_runnables,
)


def build_full_set() -> PodCliqueSet:
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


async def list_pending_writes(cluster: ScenarioCluster) -> WritePlan:
    """What a replica controller that starts now would write."""
    caches = build_caches(cluster.client)
    async with run_runnables(caches.runnables, []):
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
            await each.wait_for_sync()
        set_ = caches.sets.store.get((cluster.namespace, "sys"))
        assert set_ is not None
        known = RevisionCache(caches).get_revisions(set_)
        replica = ReplicaKey(cluster.namespace, "sys", 0)
        observed = observe_replica(caches, replica, set_, known.current, known.by_hash, {})
        revision = select_target_revision(observed)
        assert revision is not None
        groups = compute_group_states(observed, revision)
        return desire(observed, revision, groups, frozenset(), cluster.settings)


async def test_server_defaults_cause_no_writes_and_edits_are_reverted(api: Api) -> None:
    async with scenario_cluster(api, nodes=1, with_scheduler=False) as cluster:
        await cluster.apply(to_manifest(build_full_set()))

        async def is_made() -> bool:
            kinds = (CLIQUES, GANGS, SCALING_GROUPS, AUTOSCALERS, RESOURCE_CLAIMS)
            return [len(await cluster.list_objects(each)) for each in kinds] == [5, 2, 1, 2, 3]

        await cluster.wait_until(is_made)
        await cluster.wait_until_settled()
        assert (await list_pending_writes(cluster)).is_empty

        edits: list[tuple[Any, str, Any]] = [
            (SERVICES, "sys-0", {"spec": {"selector": {"more": "x"}}}),
            (AUTOSCALERS, "sys-0-x", {"spec": {"maxReplicas": 9}}),
            (CLIQUES, "sys-0-a", {"spec": {"podSpec": {"hostNetwork": True}}}),
            (CLIQUES, "sys-0-x-0-b", {"spec": {"startsAfter": None}}),
            (SCALING_GROUPS, "sys-0-x", {"spec": {"rollingUpdate": None}}),
            (GANGS, "sys-0-x-0", {"spec": {"baseRef": None}}),
        ]
        specs = [(await cluster.get(kind, name))["spec"] for kind, name, _ in edits]
        for kind, name, patch in edits:
            await cluster.client.patch(kind, name, patch, cluster.namespace)

        async def is_mended() -> bool:
            found = [(await cluster.get(kind, name))["spec"] for kind, name, _ in edits]
            return found == specs

        await cluster.wait_until(is_mended)
        await cluster.wait_until_settled()
        assert (await list_pending_writes(cluster)).is_empty
