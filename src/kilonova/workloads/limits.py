"""How many pods and objects a set would have, computed before any is created, and the limits. Pure.

Replicas of the set, of scaling groups and of cliques multiply. A mistyped number must not exhaust
the operator's memory and time for all other sets, so objects are counted before they are built: by
admission, and by the controllers, because stored objects may have bypassed admission.
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
from kilonova.api.grove.common import MAX_REPLICAS
from kilonova.api.grove.podcliqueset import ANY_ORDER, PodCliqueSetSpec, ResourceSharing, Template
from kilonova.workloads.builders.startup_order import list_dependencies
from kilonova.workloads.builders.template_lookup import (
    find_group_by_full_name,
    find_group_of_clique,
    list_standalone_cliques,
    locate_clique,
)
from kilonova.workloads.keys import get_label_index

MAX_PODS = MAX_REPLICAS
"""Per set: two thirds of the pods that Kubernetes supports in a cluster."""
MAX_TEMPLATE_ENTRIES = 256
"""Maximum number of cliques, and of scaling groups, in a template: each is compared with all
others.
"""

OVER_LIMIT_CODE = "ERR_OVER_LIMIT"
"""The code in `lastErrors` of an object that exceeds a limit."""
LIMIT_EXCEEDED_REASON = "LimitExceeded"
"""The reason of the event that reports it."""

CLIQUES_PATH = "spec.template.cliques"
SCALING_GROUPS_PATH = "spec.template.podCliqueScalingGroups"

ScalableObject = PodCliqueScalingGroup | PodClique
"""Objects that users and autoscalers scale on their own once they exist."""


@dataclass(frozen=True, slots=True)
class ObjectCounts:
    """Numbers of pods and objects."""

    pods: int = 0
    objects: int = 0
    """PodCliques, scaling groups, gangs, Services, autoscalers and claims."""
    startup_dependencies: int = 0
    """Entries in `startsAfter` of PodCliques; an upper bound."""

    def __add__(self, other: "ObjectCounts") -> "ObjectCounts":
        return ObjectCounts(
            self.pods + other.pods,
            self.objects + other.objects,
            self.startup_dependencies + other.startup_dependencies,
        )

    def multiply(self, count: int) -> "ObjectCounts":
        """The counts, multiplied."""
        return ObjectCounts(
            self.pods * count, self.objects * count, self.startup_dependencies * count
        )

    def describe_excess(self, limit: "ObjectCounts") -> str | None:
        """Which count exceeds the limit; None if none does."""
        for count, allowed, noun in (
            (self.pods, limit.pods, "pods"),
            (self.objects, limit.objects, "objects other than pods"),
            (self.startup_dependencies, limit.startup_dependencies, "startup dependencies"),
        ):
            if count > allowed:
                return f"{count} {noun}, and the limit is {allowed}"
        return None


SET_LIMIT = ObjectCounts(pods=MAX_PODS, objects=100_000, startup_dependencies=1_000_000)
"""With more gangs the set's status would exceed the size that the API accepts."""
REPLICA_LIMIT = ObjectCounts(pods=MAX_PODS, objects=10_000, startup_dependencies=100_000)
"""The whole replica is evaluated when any of its objects changes: at this limit that takes about a
second.
"""


@dataclass(frozen=True, slots=True)
class LimitViolation:
    """Why a requested number exceeds a limit."""

    field: str
    value: int
    rule: str

    def __str__(self) -> str:
        return f"{self.field}: Invalid value: {self.value}: {self.rule}"


def count_set_objects(spec: PodCliqueSetSpec) -> ObjectCounts:
    """Pods and objects of a set with this spec, before any clique or group is scaled on its own.

    During an update there may be more, but never twice as many.
    """
    shared = sum(each.scope == "AllReplicas" for each in spec.template.resource_sharing)
    return count_replica_objects(spec.template).multiply(spec.replicas) + ObjectCounts(
        objects=shared
    )


def count_replica_objects(template: Template) -> ObjectCounts:
    """Pods and objects of one replica of a set. The cost is linear in the template."""
    cliques = {each.name: each for each in template.cliques}
    own = sum(each.scope == "PerReplica" for each in template.resource_sharing)
    total = ObjectCounts(objects=2 + own)  # The Service and the base gang.
    for name in list_standalone_cliques(template):
        clique = cliques[name]
        scaled = clique.spec.auto_scaling_config is not None
        dependencies = _count_startup_dependencies(template, name)
        total += _count_clique_objects(clique) + ObjectCounts(
            objects=scaled, startup_dependencies=dependencies
        )
    for group in template.pod_clique_scaling_groups:
        total += _count_group_objects(template, group, group.replicas)
        total += ObjectCounts(objects=1 + (group.scale_config is not None))
    return total


def check_set_limits(spec: PodCliqueSetSpec) -> LimitViolation | None:
    """Why a set exceeds the limits; None if it does not."""
    template = spec.template
    for field, entries in (
        (CLIQUES_PATH, template.cliques),
        (SCALING_GROUPS_PATH, template.pod_clique_scaling_groups),
    ):
        if len(entries) > MAX_TEMPLATE_ENTRIES:
            rule = f"a PodCliqueSet has at most {MAX_TEMPLATE_ENTRIES}; split it into several"
            return LimitViolation(field, len(entries), rule)
    total = count_set_objects(spec)
    if excess := total.describe_excess(SET_LIMIT):
        return _blame_largest_factor(spec, total, f"results in {excess}")
    one = count_replica_objects(template)
    if spec.replicas and (excess := one.describe_excess(REPLICA_LIMIT)):
        return _blame_largest_factor(
            replace(spec, replicas=1), one, f"each replica results in {excess}"
        )
    return None


def check_scale_limits(
    set_: PodCliqueSet,
    candidates: Iterable[ScalableObject],
    list_live_objects: Callable[[], Iterable[ScalableObject]],
) -> LimitViolation | None:
    """Why scaled cliques or scaling groups make a set exceed the limits; None if it does not.

    Only `candidates` with more replicas than the set's template are reported; only if there are
    any, all live objects of the set are listed.
    """
    out = [
        (each, extra)
        for each in candidates
        if (extra := _count_extra_objects(set_, each)).pods + extra.objects > 0
    ]
    if not out:
        return None
    largest, _ = max(out, key=lambda each: each[1].pods + each[1].objects)
    kind = "PodClique" if isinstance(largest, PodClique) else "PodCliqueScalingGroup"
    field, value = f"{kind} {largest.metadata.name}: spec.replicas", largest.spec.replicas
    one = sum((extra for _, extra in out), count_replica_objects(set_.spec.template))
    if excess := one.describe_excess(REPLICA_LIMIT):
        return LimitViolation(field, value, f"the set's replica results in {excess}; reduce it")
    live = list(list_live_objects())
    groups = [each for each in live if not isinstance(each, PodClique)]
    cliques = [each for each in live if isinstance(each, PodClique)]
    if not (count_live_objects(set_, groups) + _bound_extra_objects(set_, cliques)).describe_excess(
        SET_LIMIT
    ):
        return None
    if excess := count_live_objects(set_, live).describe_excess(SET_LIMIT):
        return LimitViolation(field, value, f"the set results in {excess}; reduce it")
    return None


def count_live_objects(set_: PodCliqueSet, live: Iterable[ScalableObject]) -> ObjectCounts:
    """Pods and objects of a set with its cliques and scaling groups as they are scaled now."""
    return sum((_count_extra_objects(set_, each) for each in live), count_set_objects(set_.spec))


def _blame_largest_factor(
    spec: PodCliqueSetSpec, counts: ObjectCounts, rule: str
) -> LimitViolation:
    """A violation that names the largest of the multiplied fields."""
    groups = spec.template.pod_clique_scaling_groups
    if counts.pods <= MAX_PODS and counts.objects <= REPLICA_LIMIT.objects and groups:
        index, group = max(enumerate(groups), key=lambda each: each[1].min_available)
        rule = f"{rule}; reduce it, or use cliqueStartupType {ANY_ORDER}"
        return LimitViolation(
            f"{SCALING_GROUPS_PATH}[{index}].minAvailable", group.min_available, rule
        )
    factors = max(_list_pod_factors(spec), key=lambda each: prod(value for _, value in each))
    field, value = max(factors, key=lambda each: each[1])
    if len(factors) == 1:
        return LimitViolation(field, value, f"{rule}; reduce it")
    product = " × ".join(f"{path} ({count})" for path, count in factors)
    return LimitViolation(field, value, f"{rule}; reduce one of {product}")


def _list_pod_factors(spec: PodCliqueSetSpec) -> Iterator[list[tuple[str, int]]]:
    """For each clique, the fields and values that are multiplied to its number of pods."""
    template, replicas = spec.template, ("spec.replicas", spec.replicas)
    yield [replicas]
    groups = {each.name: index for index, each in enumerate(template.pod_clique_scaling_groups)}
    for index, clique in enumerate(template.cliques):
        factors = [replicas]
        group = find_group_of_clique(template, clique.name)
        if group is not None:
            factors.append(
                (f"{SCALING_GROUPS_PATH}[{groups[group.name]}].replicas", group.replicas)
            )
        factors.append((f"{CLIQUES_PATH}[{index}].spec.replicas", clique.spec.replicas))
        yield [each for each in factors if each[1] > 1] or [replicas]


def _count_group_objects(
    template: Template, group: ScalingGroupTemplate, replicas: int
) -> ObjectCounts:
    """All replicas of a scaling group, their gangs and its claims."""
    members = [each for each in template.cliques if each.name in group.clique_names]
    base_replicas = min(group.min_available, replicas)
    scaled = replicas - base_replicas
    shared, own = _count_claims(group.resource_sharing)
    cliques = sum(map(_count_clique_objects, members), ObjectCounts()).multiply(replicas)
    dependencies = base_replicas * sum(
        _count_startup_dependencies(template, each.name) for each in members
    )
    if template.clique_startup_type != ANY_ORDER:
        dependencies += scaled * len(members) * (len(members) - 1)
    return cliques + ObjectCounts(
        objects=scaled + shared + own * replicas, startup_dependencies=dependencies
    )


def _count_clique_objects(clique: CliqueTemplate) -> ObjectCounts:
    shared, each = _count_claims(clique.resource_sharing)
    replicas = clique.spec.replicas
    return ObjectCounts(pods=replicas, objects=1 + shared + each * replicas)


def _count_claims(sharing: Iterable[ResourceSharing]) -> tuple[int, int]:
    """How many claims all replicas share, and how many each replica has."""
    scopes = [each.scope for each in sharing]
    return scopes.count("AllReplicas"), scopes.count("PerReplica")


def _count_startup_dependencies(template: Template, clique: str) -> int:
    """How many PodCliques a clique of a base gang starts after."""
    total = 0
    for name in list_dependencies(template, clique):
        group = find_group_of_clique(template, name)
        total += 1 if group is None else min(group.min_available, group.replicas)
    return total


def _bound_extra_objects(set_: PodCliqueSet, cliques: Iterable[PodClique]) -> ObjectCounts:
    """An upper bound of what cliques have beyond the template; much cheaper to compute."""
    pods = sum(each.spec.replicas for each in cliques)
    claims = max(
        (_count_claims(each.resource_sharing)[1] for each in set_.spec.template.cliques), default=0
    )
    return ObjectCounts(pods=pods, objects=pods * claims)


def _count_extra_objects(set_: PodCliqueSet, live: ScalableObject) -> ObjectCounts:
    """How much a live object has beyond the set's template; may be negative."""
    template = set_.spec.template
    if isinstance(live, PodClique):
        position = locate_clique(set_, live.metadata)
        if position is None or position.clique.spec.replicas == live.spec.replicas:
            return ObjectCounts()
        more = live.spec.replicas - position.clique.spec.replicas
        _, each = _count_claims(position.clique.resource_sharing)
        return ObjectCounts(pods=more, objects=each * more)
    index = get_label_index(live.metadata, names.SET_REPLICA_INDEX)
    found = find_group_by_full_name(template, set_.metadata.name, index or 0, live.metadata.name)
    if found is None or found.replicas == live.spec.replicas:
        return ObjectCounts()
    expected = _count_group_objects(template, found, found.replicas)
    return _count_group_objects(template, found, live.spec.replicas) + expected.multiply(-1)
