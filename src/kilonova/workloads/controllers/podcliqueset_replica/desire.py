"""The desired objects of a replica, and the writes that bring it there. Pure.

A clique is created when its gang and group are in the cache; the order of other objects does not
matter.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.api.grove import PodClique, PodCliqueScalingGroup
from kilonova.api.json import JsonObject
from kilonova.kube import Resource
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads import resources
from kilonova.workloads.builders.autoscalers import build_autoscalers
from kilonova.workloads.builders.compute_domains import build_compute_domains
from kilonova.workloads.builders.pod_gangs import GangMember, build_gangs
from kilonova.workloads.builders.resource_claims import (
    build_replica_claims,
    list_external_templates,
    list_replica_claim_names,
    list_set_claim_names,
)
from kilonova.workloads.builders.scaling_groups import build_scaling_group
from kilonova.workloads.builders.services import build_service
from kilonova.workloads.builders.topology_levels import resolve_levels
from kilonova.workloads.controllers.podcliqueset_replica.cliques import (
    DesiredClique,
    list_desired_cliques,
    plan_cliques,
)
from kilonova.workloads.controllers.podcliqueset_replica.observed import (
    ObservedReplica,
    is_being_deleted,
)
from kilonova.workloads.controllers.podcliqueset_replica.pod_references import (
    count_indexes,
    list_pod_names,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    ScalingGroupState,
)
from kilonova.workloads.controllers.podcliqueset_replica.write_plan import WritePlan, list_names
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.settings import OperatorSettings


def desire(
    observed: ObservedReplica,
    revision: SetRevision,
    groups: Sequence[ScalingGroupState],
    cliques_to_restart: frozenset[str],
    settings: OperatorSettings,
) -> WritePlan:
    """What to write for a replica to be at a revision; `cliques_to_restart` are restarted."""
    plan = WritePlan(observed.owner_uids)
    set_, index = observed.set_, observed.index
    wanted = list_desired_cliques(observed, groups)
    gangs = _build_gangs(observed, groups, wanted, settings)
    plan.ensure_owned(
        resources.GANGS, observed.gangs, gangs, foreign_fields=("reuseReservationRef",)
    )
    plan.delete_unwanted(resources.GANGS, observed.gangs, list_names(gangs))
    group_objects = [build_scaling_group(set_, index, revision, each.template) for each in groups]
    plan.ensure_owned(
        resources.SCALING_GROUPS, observed.groups, group_objects, foreign_fields=("replicas",)
    )
    plan_cliques(plan, observed, revision, groups, wanted, cliques_to_restart, settings)
    services = [build_service(set_, index)]
    autoscalers = build_autoscalers(set_, index)
    domains = build_compute_domains(set_, index, settings)
    for resource, live, objects in (
        (resources.SERVICES, observed.services, services),
        (resources.AUTOSCALERS, observed.autoscalers, autoscalers),
        (resources.COMPUTE_DOMAINS, observed.compute_domains, domains),
    ):
        plan.ensure_children(resource, live, objects)
        plan.delete_unwanted(resource, live, list_names(objects))
    _plan_claims(plan, observed, groups, wanted)
    return plan


def _build_gangs(
    observed: ObservedReplica,
    groups: Sequence[ScalingGroupState],
    desired: Sequence[DesiredClique],
    settings: OperatorSettings,
) -> list[JsonObject]:
    cliques = [
        GangMember(
            name=each.name,
            gang=each.gang,
            min_replicas=each.min_replicas,
            pod_names=list_pod_names(each.name, each.pod_count, each.classified_pods),
            group=None if each.member is None else each.member.group_name,
            group_index=None if each.member is None else each.member.index,
        )
        for each in desired
    ]
    replicas = {each.name: each.replica_count for each in groups}
    levels = resolve_levels(observed.set_, observed.topologies, enabled=settings.topology)
    return build_gangs(observed.set_, observed.index, cliques, replicas, levels, settings)


def _plan_claims(
    plan: WritePlan,
    observed: ObservedReplica,
    groups: Sequence[ScalingGroupState],
    desired: Sequence[DesiredClique],
) -> None:
    """Plan the claims of existing owners; while a claim template is missing, no new cliques."""
    set_, index = observed.set_, observed.index
    in_use = {each.name: count_indexes(each.pod_count, each.classified_pods) for each in desired}
    replicas = {each.name: each.replica_count for each in groups}
    owners = _list_claim_owners(observed)
    claims = build_replica_claims(
        set_, index, in_use, replicas, observed.claim_templates, owners=owners
    )
    plan.ensure_children(resources.RESOURCE_CLAIMS, observed.claims, claims, spec_is_immutable=True)
    named = list_replica_claim_names(set_, index, in_use, replicas)
    unknown = list_external_templates(set_) - observed.claim_templates.keys()
    if unknown:
        known = list_replica_claim_names(set_, index, in_use, replicas, without=unknown)
        if named - known - observed.claims.keys() or not all(
            map(observed.has_claim, list_set_claim_names(set_, unknown))
        ):
            plan.claim_templates = unknown
            plan.creates = [each for each in plan.creates if each.resource is not resources.CLIQUES]
    plan.delete_unwanted(resources.RESOURCE_CLAIMS, observed.claims, named)


def _list_claim_owners(observed: ObservedReplica) -> dict[str, JsonObject]:
    """References to the scaling groups and cliques that are there, by full name."""
    kinds: tuple[tuple[Resource[Any], Mapping[str, PodClique | PodCliqueScalingGroup]], ...] = (
        (resources.SCALING_GROUPS, observed.groups),
        (resources.CLIQUES, observed.cliques),
    )
    return {
        name: build_owner_reference(resource, each.metadata)
        for resource, live in kinds
        for name, each in live.items()
        if not is_being_deleted(each.metadata)
    }
