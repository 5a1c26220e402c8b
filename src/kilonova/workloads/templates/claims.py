"""Resource sharing: ResourceClaims that several pods use.

A claim belongs to a set, a scaling group or a clique, for all of its owner's replicas together or
for each of them, and goes with its owner. The operator makes claims; pods refer to them by name.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kilonova.api.grove import CliqueTemplate, PodCliqueSet, names
from kilonova.api.grove.podcliqueset import ResourceSharing, SetResourceSharing
from kilonova.api.json import JsonObject
from kilonova.kube import Key
from kilonova.workloads.templates.containers import with_claims
from kilonova.workloads.templates.labels import base_labels, owned_by_set
from kilonova.workloads.templates.lookup import Member, find_group, full_name

NO_TEMPLATES: Mapping[Key, JsonObject] = {}


def external_templates(set_: PodCliqueSet) -> frozenset[Key]:
    """ResourceClaimTemplates outside the set that its claims are made from."""
    template = set_.spec.template
    internal = {each.name for each in template.resource_claim_templates}
    parts = (template, *template.pod_clique_scaling_groups, *template.cliques)
    return frozenset(
        _external_key(set_, each)
        for part in parts
        for each in part.resource_sharing
        if each.name not in internal
    )


def set_claims(
    set_: PodCliqueSet, external: Mapping[Key, JsonObject] = NO_TEMPLATES
) -> list[JsonObject]:
    """Claims for all replicas of a set together.

    `external` holds the `spec` of each of the `external_templates`; what is not in it is not there
    yet, and nothing is made of it.
    """
    owner = _Owner(set_.metadata.name, {}, is_set=True)
    wanted = [owner.shared(each) for each in set_.spec.template.resource_sharing]
    return _claims(set_, [each for each in wanted if each is not None], external)


def replica_claims(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
    external: Mapping[Key, JsonObject] = NO_TEMPLATES,
    *,
    owners: Mapping[str, JsonObject],
) -> list[JsonObject]:
    """Claims of one replica of a set: its own, and those of its scaling groups and cliques.

    The replicas of PodCliques and PodCliqueScalingGroups are given by their full names, and so are
    the references to them in `owners`: what is not in there has no claims yet. A clique has as many
    replicas as there are indexes to claim for: where its pods have gaps, one more than the greatest
    index.
    """
    wanted = _wanted_in_replica(set_, index, clique_replicas, group_replicas)
    in_replica = {names.SET_REPLICA_INDEX: str(index)}
    return _claims(set_, wanted, external, in_replica, owners)


def replica_claim_names(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
    without: Set[Key] = frozenset(),
) -> set[str]:
    """Names of all claims that one replica of a set is to have in the end.

    `without` those that are made from these of the `external_templates`.
    """
    wanted = _wanted_in_replica(set_, index, clique_replicas, group_replicas)
    internal = {each.name for each in set_.spec.template.resource_claim_templates}
    return {
        each.name
        for each in wanted
        if each.sharing.name in internal or _external_key(set_, each.sharing) not in without
    }


def set_claim_names(set_: PodCliqueSet, templates: Set[Key]) -> set[str]:
    """Names of claims for all replicas together that are made from these external templates."""
    internal = {each.name for each in set_.spec.template.resource_claim_templates}
    return {
        names.shared_claim(set_.metadata.name, each.name)
        for each in set_.spec.template.resource_sharing
        if each.scope == "AllReplicas"
        and each.name not in internal
        and _external_key(set_, each) in templates
    }


def _wanted_in_replica(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
) -> list["_Wanted"]:
    wanted: list[_Wanted | None] = []
    of_set = _Owner(set_.metadata.name, {}, is_set=True)
    for sharing in set_.spec.template.resource_sharing:
        wanted.append(of_set.of_replica(sharing, index, names.SET_REPLICA_INDEX))
    for owner, replicas, label, sharings in _owners(set_, index, clique_replicas, group_replicas):
        for sharing in sharings:
            wanted.append(owner.shared(sharing))
            wanted += [owner.of_replica(sharing, each, label) for each in range(replicas)]
    return [each for each in wanted if each is not None]


def with_shared_claims(
    pod_spec: JsonObject,
    set_: PodCliqueSet,
    index: int,
    clique: CliqueTemplate,
    member: Member | None,
) -> JsonObject:
    """A clique's pod with the claims that all pods of the clique use."""
    set_name = set_.metadata.name
    claims: list[str] = []
    for sharing in set_.spec.template.resource_sharing:
        if _reaches(sharing, clique.name, member):
            claims.append(_claim_name(set_name, sharing, index))
    for sharing in member.group.resource_sharing if member is not None else ():
        if member is not None and (
            sharing.filter is None or clique.name in sharing.filter.child_clique_names
        ):
            claims.append(_claim_name(member.group_name, sharing, member.index))
    own = full_name(set_name, index, clique.name, member)
    claims += [
        names.shared_claim(own, each.name)
        for each in clique.resource_sharing
        if each.scope == "AllReplicas"
    ]
    return with_claims(pod_spec, [_reference(each) for each in claims])


def with_own_claims(
    pod_spec: JsonObject, sharings: Sequence[ResourceSharing], clique: str, pod_index: int
) -> JsonObject:
    """A pod with the claims of a clique (its full name) that are for this pod alone."""
    claims = [
        _reference(names.replica_claim(clique, pod_index, each.name))
        for each in sharings
        if each.scope == "PerReplica"
    ]
    return with_claims(pod_spec, claims)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A claim that should be there."""

    name: str
    sharing: ResourceSharing
    labels: Mapping[str, str]
    owner: str | None
    """Full name of the scaling group or clique that it belongs to; None if that is the set."""


@dataclass(frozen=True, slots=True)
class _Owner:
    """What claims are named after."""

    name: str
    labels: Mapping[str, str]
    is_set: bool = False

    @property
    def _child(self) -> str | None:
        return None if self.is_set else self.name

    def shared(self, sharing: ResourceSharing) -> _Wanted | None:
        if sharing.scope != "AllReplicas":
            return None
        name = names.shared_claim(self.name, sharing.name)
        return _Wanted(name, sharing, self.labels, self._child)

    def of_replica(self, sharing: ResourceSharing, index: int, label: str) -> _Wanted | None:
        if sharing.scope != "PerReplica":
            return None
        name = names.replica_claim(self.name, index, sharing.name)
        return _Wanted(name, sharing, {**self.labels, label: str(index)}, self._child)


def _owners(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
) -> Iterator[tuple[_Owner, int, str, Sequence[ResourceSharing]]]:
    """Scaling groups and cliques, their replicas, the label for a replica, and what they share."""
    template, set_name = set_.spec.template, set_.metadata.name
    members: list[Member | None] = [None]
    for group_name, replicas in group_replicas.items():
        group = find_group(template, set_name, index, group_name)
        if group is None:
            continue
        owner = _Owner(group_name, {names.SCALING_GROUP: group_name})
        yield owner, replicas, names.SCALING_GROUP_REPLICA_INDEX, group.resource_sharing
        members += [Member(group, group_name, each) for each in range(replicas)]
    for clique in template.cliques:
        if not clique.resource_sharing:
            continue
        for member in members:
            if member is not None and clique.name not in member.group.clique_names:
                continue
            name = full_name(set_name, index, clique.name, member)
            if name not in clique_replicas:
                continue
            owner = _Owner(name, {names.POD_CLIQUE: name})
            yield owner, clique_replicas[name], names.POD_INDEX, clique.resource_sharing


def _claims(
    set_: PodCliqueSet,
    wanted: Sequence[_Wanted],
    external: Mapping[Key, JsonObject],
    labels: Mapping[str, str] = {},
    owners: Mapping[str, JsonObject] = {},
) -> list[JsonObject]:
    internal = {
        each.name: each.template_spec for each in set_.spec.template.resource_claim_templates
    }
    result: list[JsonObject] = []
    for each in wanted:
        if each.owner is not None and each.owner not in owners:
            continue
        template = internal.get(each.sharing.name)
        if template is None:
            template = external.get(_external_key(set_, each.sharing))
        if template is None:
            continue
        own: JsonObject = template.get("metadata") or {}
        own_labels: dict[str, str] = own.get("labels") or {}
        base = base_labels(set_.metadata.name, names.RESOURCE_CLAIM_COMPONENT, each.name)
        all_labels = {**own_labels, **base, **labels, **each.labels}
        metadata = owned_by_set(set_, each.name, all_labels, dict(own.get("annotations") or {}))
        if each.owner is not None:
            metadata["ownerReferences"] = [owners[each.owner]]
        result.append({"metadata": metadata, "spec": template.get("spec") or {}})
    return result


def _external_key(set_: PodCliqueSet, sharing: ResourceSharing) -> Key:
    return sharing.namespace or set_.metadata.namespace, sharing.name


def _claim_name(owner: str, sharing: ResourceSharing, index: int) -> str:
    if sharing.scope == "AllReplicas":
        return names.shared_claim(owner, sharing.name)
    return names.replica_claim(owner, index, sharing.name)


def _reaches(sharing: SetResourceSharing, clique: str, member: Member | None) -> bool:
    chosen = sharing.filter
    if chosen is None or clique in chosen.child_clique_names:
        return True
    return member is not None and member.group.name in chosen.child_scaling_group_names


def _reference(claim: str) -> JsonObject:
    return {"name": names.claim_in_pod(claim), "resourceClaimName": claim}
