"""Resource sharing: ResourceClaims that several pods use.

A claim belongs to a set, a scaling group or a clique, for all of its owner's replicas together or
for each of them, and is deleted with its owner. The operator creates claims; pods refer to them by
name.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from kilonova.api.grove import CliqueTemplate, PodCliqueSet, names
from kilonova.api.grove.podcliqueset import ResourceSharing, SetResourceSharing
from kilonova.api.json import JsonObject
from kilonova.api.pods.specs import with_claims
from kilonova.kube import Key
from kilonova.workloads.builders.labels import build_base_labels, build_owned_metadata
from kilonova.workloads.builders.template_lookup import (
    GroupMember,
    find_group_by_full_name,
    get_full_name,
)

NO_TEMPLATES: Mapping[Key, JsonObject] = {}


def list_external_templates(set_: PodCliqueSet) -> frozenset[Key]:
    """ResourceClaimTemplate objects, not defined in the set, that its claims are made from."""
    template = set_.spec.template
    internal = {each.name for each in template.resource_claim_templates}
    parts = (template, *template.pod_clique_scaling_groups, *template.cliques)
    return frozenset(
        _get_template_key(set_, each)
        for part in parts
        for each in part.resource_sharing
        if each.name not in internal
    )


def build_set_claims(
    set_: PodCliqueSet, external: Mapping[Key, JsonObject] = NO_TEMPLATES
) -> list[JsonObject]:
    """Claims that all replicas of a set share.

    `external` holds the `spec` of each of the external templates; for a missing one no claim is
    built.
    """
    owner = _ClaimOwner(set_.metadata.name, {}, is_set=True)
    wanted = [owner.build_shared_claim(each) for each in set_.spec.template.resource_sharing]
    return _build_claims(set_, [each for each in wanted if each is not None], external)


def build_replica_claims(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
    external: Mapping[Key, JsonObject] = NO_TEMPLATES,
    *,
    owners: Mapping[str, JsonObject],
) -> list[JsonObject]:
    """Claims of one replica of a set: its own, and those of its scaling groups and cliques.

    Replica counts of PodCliques and PodCliqueScalingGroups are given by full name, and so are the
    owner references in `owners`: an owner that is not in there has no claims yet. The count of a
    clique is one more than the greatest index of its pods, which may have gaps.
    """
    wanted = _list_replica_claims(set_, index, clique_replicas, group_replicas)
    in_replica = {names.SET_REPLICA_INDEX: str(index)}
    return _build_claims(set_, wanted, external, in_replica, owners)


def list_replica_claim_names(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
    without: Set[Key] = frozenset(),
) -> set[str]:
    """Names of all claims that one replica of a set will have.

    `without` the claims that are made from these external templates.
    """
    wanted = _list_replica_claims(set_, index, clique_replicas, group_replicas)
    internal = {each.name for each in set_.spec.template.resource_claim_templates}
    return {
        each.name
        for each in wanted
        if each.sharing.name in internal or _get_template_key(set_, each.sharing) not in without
    }


def list_set_claim_names(set_: PodCliqueSet, templates: Set[Key]) -> set[str]:
    """Names of the claims shared by all replicas that are made from these external templates."""
    internal = {each.name for each in set_.spec.template.resource_claim_templates}
    return {
        names.shared_claim(set_.metadata.name, each.name)
        for each in set_.spec.template.resource_sharing
        if each.scope == "AllReplicas"
        and each.name not in internal
        and _get_template_key(set_, each) in templates
    }


def _list_replica_claims(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
) -> list["_DesiredClaim"]:
    wanted: list[_DesiredClaim | None] = []
    set_owner = _ClaimOwner(set_.metadata.name, {}, is_set=True)
    for sharing in set_.spec.template.resource_sharing:
        wanted.append(set_owner.build_replica_claim(sharing, index, names.SET_REPLICA_INDEX))
    for owner, replicas, label, sharings in _iterate_owners(
        set_, index, clique_replicas, group_replicas
    ):
        for sharing in sharings:
            wanted.append(owner.build_shared_claim(sharing))
            wanted += [owner.build_replica_claim(sharing, each, label) for each in range(replicas)]
    return [each for each in wanted if each is not None]


def with_shared_claims(
    pod_spec: JsonObject,
    set_: PodCliqueSet,
    index: int,
    clique: CliqueTemplate,
    member: GroupMember | None,
) -> JsonObject:
    """A clique's pod spec with the claims that all pods of the clique use."""
    set_name = set_.metadata.name
    claims: list[str] = []
    for sharing in set_.spec.template.resource_sharing:
        if _applies_to(sharing, clique.name, member):
            claims.append(_get_claim_name(set_name, sharing, index))
    for sharing in member.group.resource_sharing if member is not None else ():
        if member is not None and (
            sharing.filter is None or clique.name in sharing.filter.child_clique_names
        ):
            claims.append(_get_claim_name(member.group_name, sharing, member.index))
    own = get_full_name(set_name, index, clique.name, member)
    claims += [
        names.shared_claim(own, each.name)
        for each in clique.resource_sharing
        if each.scope == "AllReplicas"
    ]
    return with_claims(pod_spec, [_build_claim_reference(each) for each in claims])


def with_own_claims(
    pod_spec: JsonObject, sharings: Sequence[ResourceSharing], clique: str, pod_index: int
) -> JsonObject:
    """A pod spec with the claims of a clique (its full name) that are for this pod alone."""
    claims = [
        _build_claim_reference(names.replica_claim(clique, pod_index, each.name))
        for each in sharings
        if each.scope == "PerReplica"
    ]
    return with_claims(pod_spec, claims)


@dataclass(frozen=True, slots=True)
class _DesiredClaim:
    """A claim that should exist."""

    name: str
    sharing: ResourceSharing
    labels: Mapping[str, str]
    owner: str | None
    """Full name of the owning scaling group or clique; None if the set owns it."""


@dataclass(frozen=True, slots=True)
class _ClaimOwner:
    """The object that claims are named after."""

    name: str
    labels: Mapping[str, str]
    is_set: bool = False

    @property
    def _child_name(self) -> str | None:
        return None if self.is_set else self.name

    def build_shared_claim(self, sharing: ResourceSharing) -> _DesiredClaim | None:
        if sharing.scope != "AllReplicas":
            return None
        name = names.shared_claim(self.name, sharing.name)
        return _DesiredClaim(name, sharing, self.labels, self._child_name)

    def build_replica_claim(
        self, sharing: ResourceSharing, index: int, label: str
    ) -> _DesiredClaim | None:
        if sharing.scope != "PerReplica":
            return None
        name = names.replica_claim(self.name, index, sharing.name)
        return _DesiredClaim(name, sharing, {**self.labels, label: str(index)}, self._child_name)


def _iterate_owners(
    set_: PodCliqueSet,
    index: int,
    clique_replicas: Mapping[str, int],
    group_replicas: Mapping[str, int],
) -> Iterator[tuple[_ClaimOwner, int, str, Sequence[ResourceSharing]]]:
    """Scaling groups and cliques with replicas, the label of a replica, and their sharing rules."""
    template, set_name = set_.spec.template, set_.metadata.name
    members: list[GroupMember | None] = [None]
    for group_name, replicas in group_replicas.items():
        group = find_group_by_full_name(template, set_name, index, group_name)
        if group is None:
            continue
        owner = _ClaimOwner(group_name, {names.SCALING_GROUP: group_name})
        yield owner, replicas, names.SCALING_GROUP_REPLICA_INDEX, group.resource_sharing
        members += [GroupMember(group, group_name, each) for each in range(replicas)]
    for clique in template.cliques:
        if not clique.resource_sharing:
            continue
        for member in members:
            if member is not None and clique.name not in member.group.clique_names:
                continue
            name = get_full_name(set_name, index, clique.name, member)
            if name not in clique_replicas:
                continue
            owner = _ClaimOwner(name, {names.POD_CLIQUE: name})
            yield owner, clique_replicas[name], names.POD_INDEX, clique.resource_sharing


def _build_claims(
    set_: PodCliqueSet,
    wanted: Sequence[_DesiredClaim],
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
            template = external.get(_get_template_key(set_, each.sharing))
        if template is None:
            continue
        own: JsonObject = template.get("metadata") or {}
        own_labels: dict[str, str] = own.get("labels") or {}
        base = build_base_labels(set_.metadata.name, names.RESOURCE_CLAIM_COMPONENT, each.name)
        all_labels = {**own_labels, **base, **labels, **each.labels}
        metadata = build_owned_metadata(
            set_, each.name, all_labels, dict(own.get("annotations") or {})
        )
        if each.owner is not None:
            metadata["ownerReferences"] = [owners[each.owner]]
        result.append({"metadata": metadata, "spec": template.get("spec") or {}})
    return result


def _get_template_key(set_: PodCliqueSet, sharing: ResourceSharing) -> Key:
    return sharing.namespace or set_.metadata.namespace, sharing.name


def _get_claim_name(owner: str, sharing: ResourceSharing, index: int) -> str:
    if sharing.scope == "AllReplicas":
        return names.shared_claim(owner, sharing.name)
    return names.replica_claim(owner, index, sharing.name)


def _applies_to(sharing: SetResourceSharing, clique: str, member: GroupMember | None) -> bool:
    chosen = sharing.filter
    if chosen is None or clique in chosen.child_clique_names:
        return True
    return member is not None and member.group.name in chosen.child_scaling_group_names


def _build_claim_reference(claim: str) -> JsonObject:
    return {"name": names.pod_claim_name(claim), "resourceClaimName": claim}
