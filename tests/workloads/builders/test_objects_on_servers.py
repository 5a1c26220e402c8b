"""API servers accept the built objects and keep every field."""

from typing import Any

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.common import AutoScaling, RollingUpdate
from kilonova.api.grove.podcliqueset import (
    IN_ORDER,
    GroupResourceSharing,
    PodCliqueSet,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.grove.topology import (
    ReplicaSpread,
    SetTopologyConstraint,
    TopologyConstraint,
    TopologyPackConstraint,
)
from kilonova.api.json import JsonObject
from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Resource
from kilonova.kube.client.merge_patch import needs_patch
from kilonova.workloads import resources
from kilonova.workloads.builders.autoscalers import build_autoscalers
from kilonova.workloads.builders.pod_cliques import build_clique
from kilonova.workloads.builders.pod_gangs import GangMember, build_gangs
from kilonova.workloads.builders.pods import build_pod, choose_pod_name
from kilonova.workloads.builders.resource_claims import build_replica_claims, build_set_claims
from kilonova.workloads.builders.scaling_groups import build_scaling_group
from kilonova.workloads.builders.services import build_service
from kilonova.workloads.builders.topology_levels import resolve_levels
from tests.conftest import Api
from tests.workloads.api_objects import (
    SETTINGS,
    build_group_member,
    build_owner_references,
    clique,
    decode_built,
    get_current_revision,
    group,
    pod_clique_set,
    to_manifest,
    topology,
)

TOPOLOGY = topology("t", zone="example.com/zone", rack="example.com/rack")
DEVICES: JsonObject = {
    "spec": {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "x"}}]}}
}
LONG = "a-claim-template.with-a-name-that-is-much-too-long-for-a-label-or-a-pod"


def build_full_set(namespace: str) -> PodCliqueSet:
    """A set that uses all features."""
    return pod_clique_set(
        clique(
            "leader-worker",
            auto_scaling_config=AutoScaling(3, min_replicas=1),
            rolling_update=RollingUpdate(max_unavailable="50%", max_surge=1),
            resource_sharing=(ResourceSharing("devices", "PerReplica"),),
        ),
        clique(
            "worker",
            2,
            1,
            labels={"app": "x"},
            annotations={"note": "y"},
            topology_constraint=TopologyConstraint("t", TopologyPackConstraint(preferred="rack")),
        ),
        groups=[
            group(
                "sg",
                "worker",
                replicas=2,
                scale_config=AutoScaling(4),
                rolling_update=RollingUpdate(progress_deadline="5m"),
                topology_constraint=TopologyConstraint(
                    "t", TopologyPackConstraint(required="rack")
                ),
                resource_sharing=(GroupResourceSharing(LONG, "AllReplicas"),),
            )
        ],
        namespace=namespace,
        startup=IN_ORDER,
        labels={"team": "z"},
        topology_constraint=SetTopologyConstraint(
            "t",
            TopologyPackConstraint(required="zone"),
            spread=ReplicaSpread("zone", required=True),
        ),
        resource_sharing=(SetResourceSharing("devices", "AllReplicas"),),
        resource_claim_templates=(
            ResourceClaimTemplate("devices", DEVICES),
            ResourceClaimTemplate(LONG, DEVICES),
        ),
    )


def build_all_objects(set_: PodCliqueSet) -> list[tuple[Resource[Any], JsonObject]]:
    """Its objects."""
    revision = get_current_revision(set_)
    (template,) = set_.spec.template.pod_clique_scaling_groups
    places = [
        ("leader-worker", None),
        *(("worker", build_group_member(set_, "sg", each)) for each in range(2)),
    ]
    cliques = [build_clique(set_, 0, revision, name, member, SETTINGS) for name, member in places]
    typed = [decode_built(each, PodClique) for each in cliques]
    pods = [
        build_pod(
            each,
            set_,
            0,
            choose_pod_name(each.metadata.name, 0, ()),
            gated=True,
            released=False,
            settings=SETTINGS,
        )
        for each in typed
    ]
    members = [
        GangMember(
            each.metadata.name,
            each.metadata.labels[names.POD_GANG],
            each.min_available,
            (pod["metadata"]["name"],),
            None if member is None else member.group_name,
            None if member is None else member.index,
        )
        for each, pod, (_, member) in zip(typed, pods, places, strict=True)
    ]
    levels = resolve_levels(set_, {"t": TOPOLOGY})
    sizes = {each.metadata.name: each.spec.replicas for each in typed}
    return [
        (resources.SERVICES, build_service(set_, 0)),
        (resources.SCALING_GROUPS, build_scaling_group(set_, 0, revision, template)),
        *((resources.AUTOSCALERS, each) for each in build_autoscalers(set_, 0)),
        *((resources.RESOURCE_CLAIMS, each) for each in build_set_claims(set_)),
        *(
            (resources.RESOURCE_CLAIMS, each)
            for each in build_replica_claims(
                set_, 0, sizes, {"sys-0-sg": 2}, owners=build_owner_references(*sizes, "sys-0-sg")
            )
        ),
        *((resources.CLIQUES, each) for each in cliques),
        *((resources.PODS, each) for each in pods),
        *(
            (resources.GANGS, each)
            for each in build_gangs(set_, 0, members, {"sys-0-sg": 2}, levels, SETTINGS)
        ),
    ]


async def create_and_read(client: Client, resource: Resource[Any], body: JsonObject) -> JsonObject:
    plain: type[JsonObject] = dict
    return await client.create(resource.as_type(plain), body, body["metadata"]["namespace"])


async def test_every_object_is_stored_unchanged(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)
        set_ = build_full_set(api.namespace)
        assert not needs_patch(
            await create_and_read(client, resources.SETS, to_manifest(set_)), to_manifest(set_)
        )
        for resource, body in build_all_objects(set_):
            found = await create_and_read(client, resource, body)

            assert not needs_patch(found, body), f"{resource.kind} {body['metadata']['name']}"
