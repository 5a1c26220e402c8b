"""Which objects a replica should have, and what to write so that it has them. Pure.

A clique is made when its gang and its group are seen; everything else may come at any time.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.api.grove import PodClique, PodCliqueScalingGroup
from kilonova.api.json import JsonObject
from kilonova.kube import Resource
from kilonova.workloads import resources
from kilonova.workloads.replicas.cliques import WantedClique, settle_cliques, wanted_cliques
from kilonova.workloads.replicas.observed import Observed, is_going
from kilonova.workloads.replicas.plan import Plan, names_of
from kilonova.workloads.replicas.references import indexes_in_use, pod_names
from kilonova.workloads.replicas.units import Units
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.autoscalers import autoscaler_objects
from kilonova.workloads.templates.claims import (
    external_templates,
    replica_claim_names,
    replica_claims,
    set_claim_names,
)
from kilonova.workloads.templates.computedomains import compute_domain_objects
from kilonova.workloads.templates.gangs import CliquePods, gang_objects
from kilonova.workloads.templates.groups import group_object
from kilonova.workloads.templates.labels import owner_reference
from kilonova.workloads.templates.services import service_object
from kilonova.workloads.templates.topology import levels_of


def desire(
    seen: Observed,
    revision: SetRevision,
    groups: Sequence[Units],
    anew: frozenset[str],
    settings: Settings,
) -> Plan:
    """What to write for a replica to be at a revision; `anew` are cliques to be started anew."""
    plan = Plan(seen.owners)
    set_, index = seen.set_, seen.index
    wanted = wanted_cliques(seen, groups)
    gangs = _gangs(seen, groups, wanted, settings)
    plan.keep_own(resources.GANGS, seen.gangs, gangs, others=("reuseReservationRef",))
    plan.remove(resources.GANGS, seen.gangs, names_of(gangs))
    group_objects = [group_object(set_, index, revision, each.template) for each in groups]
    plan.keep_own(resources.GROUPS, seen.groups, group_objects, others=("replicas",))
    settle_cliques(plan, seen, revision, groups, wanted, anew, settings)
    services = [service_object(set_, index)]
    autoscalers = autoscaler_objects(set_, index)
    domains = compute_domain_objects(set_, index, settings)
    for resource, live, objects in (
        (resources.SERVICES, seen.services, services),
        (resources.AUTOSCALERS, seen.autoscalers, autoscalers),
        (resources.COMPUTE_DOMAINS, seen.compute_domains, domains),
    ):
        plan.keep(resource, live, objects)
        plan.remove(resource, live, names_of(objects))
    _settle_claims(plan, seen, groups, wanted)
    return plan


def _gangs(
    seen: Observed, groups: Sequence[Units], wanted: Sequence[WantedClique], settings: Settings
) -> list[JsonObject]:
    cliques = [
        CliquePods(
            name=each.name,
            gang=each.gang,
            min_replicas=each.min_replicas,
            pod_names=pod_names(each.name, each.pods, each.roster),
            group=None if each.member is None else each.member.group_name,
            group_index=None if each.member is None else each.member.index,
        )
        for each in wanted
    ]
    replicas = {each.name: each.replicas for each in groups}
    levels = levels_of(seen.set_, seen.topologies, enabled=settings.topology)
    return gang_objects(seen.set_, seen.index, cliques, replicas, levels, settings)


def _settle_claims(
    plan: Plan, seen: Observed, groups: Sequence[Units], wanted: Sequence[WantedClique]
) -> None:
    """Make the claims of all that is there; without the templates of some, no new cliques."""
    set_, index = seen.set_, seen.index
    in_use = {each.name: indexes_in_use(each.pods, each.roster) for each in wanted}
    replicas = {each.name: each.replicas for each in groups}
    owners = _claim_owners(seen)
    claims = replica_claims(set_, index, in_use, replicas, seen.claim_templates, owners=owners)
    plan.keep(resources.CLAIMS, seen.claims, claims, spec_is_fixed=True)
    named = replica_claim_names(set_, index, in_use, replicas)
    unknown = external_templates(set_) - seen.claim_templates.keys()
    if unknown:
        known = replica_claim_names(set_, index, in_use, replicas, without=unknown)
        if named - known - seen.claims.keys() or not all(
            map(seen.has_claim, set_claim_names(set_, unknown))
        ):
            plan.claim_templates = unknown
            plan.creates = [each for each in plan.creates if each.resource is not resources.CLIQUES]
    plan.remove(resources.CLAIMS, seen.claims, named)


def _claim_owners(seen: Observed) -> dict[str, JsonObject]:
    """References to the scaling groups and cliques that are there, by full name."""
    kinds: tuple[tuple[Resource[Any], Mapping[str, PodClique | PodCliqueScalingGroup]], ...] = (
        (resources.GROUPS, seen.groups),
        (resources.CLIQUES, seen.cliques),
    )
    return {
        name: owner_reference(resource, each.metadata)
        for resource, live in kinds
        for name, each in live.items()
        if not is_going(each.metadata)
    }
