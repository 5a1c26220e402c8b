"""How much a set asks for, worked out without making any of it, and how much it may. Pure.

Replicas multiply: of the set, of scaling groups, of cliques. Somebody who writes a few digits too
many must not take the operator's memory and time from everybody else, so what is counted here is
counted before anything is made of it: by admission, and by the controllers, as not all that is
stored has been through admission.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

from msgspec.structs import replace

from kilonova.api.grove import (
    CliqueTemplate,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    ScalingGroupTemplate,
    names,
)
from kilonova.api.grove.parts import MOST_REPLICAS
from kilonova.api.grove.podcliqueset import ANY_ORDER, PodCliqueSetSpec, ResourceSharing, Template
from kilonova.workloads.keys import index_of
from kilonova.workloads.templates.lookup import cliques_alone, find_group, group_of, place_of
from kilonova.workloads.templates.startup import dependencies

MOST_PODS = MOST_REPLICAS
"""Of a set: two thirds of the pods that Kubernetes is made for in a whole cluster."""
MOST_ROLES = 256
"""Cliques of a template, and scaling groups: each is compared with all others."""

OVER_LIMIT = "ERR_OVER_LIMIT"
"""The code in `lastErrors` of what asks for too much."""
LIMIT_EXCEEDED = "LimitExceeded"
"""The reason of events that tell of it."""

CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"

Scaled = PodCliqueScalingGroup | PodClique
"""What people and autoscalers scale by itself, once it is there."""


@dataclass(frozen=True, slots=True)
class Demand:
    """How much is asked for."""

    pods: int = 0
    objects: int = 0
    """PodCliques, scaling groups, gangs, Services, autoscalers and claims."""
    waits: int = 0
    """Names in `startsAfter` of PodCliques; at most so many."""

    def __add__(self, other: "Demand") -> "Demand":
        return Demand(
            self.pods + other.pods, self.objects + other.objects, self.waits + other.waits
        )

    def times(self, count: int) -> "Demand":
        """So much, so many times."""
        return Demand(self.pods * count, self.objects * count, self.waits * count)

    def beyond(self, most: "Demand") -> str | None:
        """What there is more of than there may be, in words."""
        for mine, allowed, noun in (
            (self.pods, most.pods, "pods"),
            (self.objects, most.objects, "objects beside its pods"),
            (self.waits, most.waits, "cliques that others wait for"),
        ):
            if mine > allowed:
                return f"{mine} {noun}, more than {allowed}"
        return None


MOST_OF_SET = Demand(pods=MOST_PODS, objects=100_000, waits=1_000_000)
"""Gangs of fewer objects than these fill a set's status to what the API takes."""
MOST_OF_REPLICA = Demand(pods=MOST_PODS, objects=10_000, waits=100_000)
"""All of a replica is looked at when any of it changes: so much takes about a second."""


@dataclass(frozen=True, slots=True)
class Excess:
    """Why what is asked for is too much."""

    field: str
    value: int
    rule: str

    def __str__(self) -> str:
        return f"{self.field}: Invalid value: {self.value}: {self.rule}"


def set_demand(spec: PodCliqueSetSpec) -> Demand:
    """What a set of this spec has once all of it is made and nothing is scaled by itself.

    While an update is under way there may be more, but never twice as many of anything.
    """
    shared = sum(each.scope == "AllReplicas" for each in spec.template.resource_sharing)
    return replica_demand(spec.template).times(spec.replicas) + Demand(objects=shared)


def replica_demand(template: Template) -> Demand:
    """What one replica of a set has. Costs as much as the template is long."""
    cliques = {each.name: each for each in template.cliques}
    own = sum(each.scope == "PerReplica" for each in template.resource_sharing)
    total = Demand(objects=2 + own)  # The Service and the base gang.
    for name in cliques_alone(template):
        clique = cliques[name]
        scaled = clique.spec.auto_scaling_config is not None
        waits = _waits(template, name)
        total += _clique_demand(clique) + Demand(objects=scaled, waits=waits)
    for group in template.pod_clique_scaling_groups:
        total += _group_demand(template, group, group.replicas)
        total += Demand(objects=1 + (group.scale_config is not None))
    return total


def set_excess(spec: PodCliqueSetSpec) -> Excess | None:
    """Why a set asks for too much; None if it does not."""
    template = spec.template
    for field, parts in ((CLIQUES, template.cliques), (GROUPS, template.pod_clique_scaling_groups)):
        if len(parts) > MOST_ROLES:
            rule = f"a set has at most {MOST_ROLES}: make several sets of it"
            return Excess(field, len(parts), rule)
    whole = set_demand(spec)
    if told := whole.beyond(MOST_OF_SET):
        return _blamed(spec, whole, f"comes to {told}")
    one = replica_demand(template)
    if spec.replicas and (told := one.beyond(MOST_OF_REPLICA)):
        return _blamed(replace(spec, replicas=1), one, f"a replica comes to {told}")
    return None


def scale_excess(
    set_: PodCliqueSet,
    own: Iterable[Scaled],
    everything: Callable[[], Iterable[Scaled]],
) -> Excess | None:
    """Why what people or autoscalers have scaled by itself makes too much of a set.

    It is the fault of those among `own` that have more replicas than the set's template says;
    only where there are some, all that is live of the set is asked for.
    """
    out = [(each, extra) for each in own if (extra := _extra(set_, each)).pods + extra.objects > 0]
    if not out:
        return None
    most, _ = max(out, key=lambda each: each[1].pods + each[1].objects)
    kind = "PodClique" if isinstance(most, PodClique) else "PodCliqueScalingGroup"
    field, value = f"{kind} {most.metadata.name}: spec.replicas", most.spec.replicas
    one = sum((extra for _, extra in out), replica_demand(set_.spec.template))
    if told := one.beyond(MOST_OF_REPLICA):
        return Excess(field, value, f"the set's replica comes to {told}: lower it")
    live = list(everything())
    groups = [each for each in live if not isinstance(each, PodClique)]
    cliques = [each for each in live if isinstance(each, PodClique)]
    if not (live_demand(set_, groups) + _at_most(set_, cliques)).beyond(MOST_OF_SET):
        return None
    if told := live_demand(set_, live).beyond(MOST_OF_SET):
        return Excess(field, value, f"the set comes to {told}: lower it")
    return None


def live_demand(set_: PodCliqueSet, live: Iterable[Scaled]) -> Demand:
    """What a set comes to as its parts that are there are scaled."""
    return sum((_extra(set_, each) for each in live), set_demand(set_.spec))


def _blamed(spec: PodCliqueSetSpec, demand: Demand, rule: str) -> Excess:
    """The greatest of the factors that make so much."""
    groups = spec.template.pod_clique_scaling_groups
    if demand.pods <= MOST_PODS and demand.objects <= MOST_OF_REPLICA.objects and groups:
        index, group = max(enumerate(groups), key=lambda each: each[1].min_available)
        rule = f"{rule}: lower it, or let cliques start in any order"
        return Excess(f"{GROUPS}[{index}].minAvailable", group.min_available, rule)
    factors = max(_products(spec), key=lambda each: prod(value for _, value in each))
    field, value = max(factors, key=lambda each: each[1])
    if len(factors) == 1:
        return Excess(field, value, f"{rule}: lower it")
    together = " × ".join(f"{path} ({count})" for path, count in factors)
    return Excess(field, value, f"{rule}: lower one of {together}")


def _products(spec: PodCliqueSetSpec) -> Iterator[list[tuple[str, int]]]:
    """What is multiplied for the pods of each clique: fields and their values, if it is several."""
    template, replicas = spec.template, ("spec.replicas", spec.replicas)
    yield [replicas]
    groups = {each.name: index for index, each in enumerate(template.pod_clique_scaling_groups)}
    for index, clique in enumerate(template.cliques):
        factors = [replicas]
        group = group_of(template, clique.name)
        if group is not None:
            factors.append((f"{GROUPS}[{groups[group.name]}].replicas", group.replicas))
        factors.append((f"{CLIQUES}[{index}].spec.replicas", clique.spec.replicas))
        yield [each for each in factors if each[1] > 1] or [replicas]


def _group_demand(template: Template, group: ScalingGroupTemplate, replicas: int) -> Demand:
    """All units of a group, their gangs and its claims."""
    members = [each for each in template.cliques if each.name in group.clique_names]
    together = min(group.min_available, replicas)
    scaled = replicas - together
    shared, own = _claims(group.resource_sharing)
    units = sum(map(_clique_demand, members), Demand()).times(replicas)
    waits = together * sum(_waits(template, each.name) for each in members)
    if template.clique_startup_type != ANY_ORDER:
        waits += scaled * len(members) * (len(members) - 1)
    return units + Demand(objects=scaled + shared + own * replicas, waits=waits)


def _clique_demand(clique: CliqueTemplate) -> Demand:
    shared, each = _claims(clique.resource_sharing)
    replicas = clique.spec.replicas
    return Demand(pods=replicas, objects=1 + shared + each * replicas)


def _claims(sharing: Iterable[ResourceSharing]) -> tuple[int, int]:
    """How many claims all replicas share, and how many each has."""
    scopes = [each.scope for each in sharing]
    return scopes.count("AllReplicas"), scopes.count("PerReplica")


def _waits(template: Template, clique: str) -> int:
    """How many PodCliques a clique of a base gang starts after."""
    total = 0
    for name in dependencies(template, clique):
        group = group_of(template, name)
        total += 1 if group is None else min(group.min_available, group.replicas)
    return total


def _at_most(set_: PodCliqueSet, cliques: Iterable[PodClique]) -> Demand:
    """No less than what cliques have more than the template says; much faster to tell."""
    pods = sum(each.spec.replicas for each in cliques)
    claims = max(
        (_claims(each.resource_sharing)[1] for each in set_.spec.template.cliques), default=0
    )
    return Demand(pods=pods, objects=pods * claims)


def _extra(set_: PodCliqueSet, live: Scaled) -> Demand:
    """How much more there is of a live object than the set's template says; it may be less."""
    template = set_.spec.template
    if isinstance(live, PodClique):
        place = place_of(set_, live.metadata)
        if place is None or place.clique.spec.replicas == live.spec.replicas:
            return Demand()
        more = live.spec.replicas - place.clique.spec.replicas
        _, each = _claims(place.clique.resource_sharing)
        return Demand(pods=more, objects=each * more)
    index = index_of(live.metadata, names.SET_REPLICA_INDEX)
    found = find_group(template, set_.metadata.name, index or 0, live.metadata.name)
    if found is None or found.replicas == live.spec.replicas:
        return Demand()
    usual = _group_demand(template, found, found.replicas)
    return _group_demand(template, found, live.spec.replicas) + usual.times(-1)
