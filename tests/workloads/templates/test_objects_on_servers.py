"""Servers take what the templates build, and keep every field of it."""

from typing import Any

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.parts import AutoScaling, RollingUpdate
from kilonova.api.grove.podcliqueset import (
    IN_ORDER,
    GroupResourceSharing,
    PodCliqueSet,
    ResourceClaimTemplate,
    ResourceSharing,
    SetResourceSharing,
)
from kilonova.api.grove.topology import Apart, Pack, SetTopologyConstraint, TopologyConstraint
from kilonova.api.json import JsonObject
from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Resource
from kilonova.kube.apply import differs
from kilonova.workloads import resources
from kilonova.workloads.templates.autoscalers import autoscaler_objects
from kilonova.workloads.templates.claims import replica_claims, set_claims
from kilonova.workloads.templates.cliques import clique_object
from kilonova.workloads.templates.gangs import CliquePods, gang_objects
from kilonova.workloads.templates.groups import group_object
from kilonova.workloads.templates.pods import pod_name, pod_object
from kilonova.workloads.templates.services import service_object
from kilonova.workloads.templates.topology import levels_of
from tests.conftest import Api
from tests.workloads.builders import (
    SETTINGS,
    clique,
    group,
    made,
    manifest,
    member,
    owners_of,
    pod_clique_set,
    revision_of,
    topology,
)

TOPOLOGY = topology("t", zone="example.com/zone", rack="example.com/rack")
DEVICES: JsonObject = {
    "spec": {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "x"}}]}}
}
LONG = "a-claim-template.with-a-name-that-is-much-too-long-for-a-label-or-a-pod"


def everything(namespace: str) -> PodCliqueSet:
    """A set that uses all that there is."""
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
            topology_constraint=TopologyConstraint("t", Pack(preferred="rack")),
        ),
        groups=[
            group(
                "sg",
                "worker",
                replicas=2,
                scale_config=AutoScaling(4),
                rolling_update=RollingUpdate(progress_deadline="5m"),
                topology_constraint=TopologyConstraint("t", Pack(required="rack")),
                resource_sharing=(GroupResourceSharing(LONG, "AllReplicas"),),
            )
        ],
        namespace=namespace,
        startup=IN_ORDER,
        labels={"team": "z"},
        topology_constraint=SetTopologyConstraint(
            "t", Pack(required="zone"), spread=Apart("zone", required=True)
        ),
        resource_sharing=(SetResourceSharing("devices", "AllReplicas"),),
        resource_claim_templates=(
            ResourceClaimTemplate("devices", DEVICES),
            ResourceClaimTemplate(LONG, DEVICES),
        ),
    )


def built(set_: PodCliqueSet) -> list[tuple[Resource[Any], JsonObject]]:
    """Its objects."""
    revision = revision_of(set_)
    (template,) = set_.spec.template.pod_clique_scaling_groups
    places = [("leader-worker", None), *(("worker", member(set_, "sg", each)) for each in range(2))]
    cliques = [clique_object(set_, 0, revision, name, place, SETTINGS) for name, place in places]
    typed = [made(each, PodClique) for each in cliques]
    pods = [
        pod_object(
            each,
            set_,
            0,
            pod_name(each.metadata.name, 0, ()),
            gated=True,
            released=False,
            settings=SETTINGS,
        )
        for each in typed
    ]
    members = [
        CliquePods(
            each.metadata.name,
            each.metadata.labels[names.POD_GANG],
            each.min_available,
            (pod["metadata"]["name"],),
            None if place is None else place.group_name,
            None if place is None else place.index,
        )
        for each, pod, (_, place) in zip(typed, pods, places, strict=True)
    ]
    levels = levels_of(set_, {"t": TOPOLOGY})
    sizes = {each.metadata.name: each.spec.replicas for each in typed}
    return [
        (resources.SERVICES, service_object(set_, 0)),
        (resources.GROUPS, group_object(set_, 0, revision, template)),
        *((resources.AUTOSCALERS, each) for each in autoscaler_objects(set_, 0)),
        *((resources.CLAIMS, each) for each in set_claims(set_)),
        *(
            (resources.CLAIMS, each)
            for each in replica_claims(
                set_, 0, sizes, {"sys-0-sg": 2}, owners=owners_of(*sizes, "sys-0-sg")
            )
        ),
        *((resources.CLIQUES, each) for each in cliques),
        *((resources.PODS, each) for each in pods),
        *(
            (resources.GANGS, each)
            for each in gang_objects(set_, 0, members, {"sys-0-sg": 2}, levels, SETTINGS)
        ),
    ]


async def stored(client: Client, resource: Resource[Any], body: JsonObject) -> JsonObject:
    plain: type[JsonObject] = dict
    return await client.create(resource.as_type(plain), body, body["metadata"]["namespace"])


async def test_every_object_is_taken_as_it_is(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)
        set_ = everything(api.namespace)
        assert not differs(await stored(client, resources.SETS, manifest(set_)), manifest(set_))
        for resource, body in built(set_):
            found = await stored(client, resource, body)

            assert not differs(found, body), f"{resource.kind} {body['metadata']['name']}"
