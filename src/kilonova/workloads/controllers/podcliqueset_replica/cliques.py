"""The desired cliques of a replica, their revisions, and which are restarted. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.grove import PodClique, names
from kilonova.api.int_or_percent import resolve_int_or_percent
from kilonova.api.json import JsonObject
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.builders.pod_cliques import build_clique
from kilonova.workloads.builders.template_lookup import (
    GroupMember,
    get_clique_template,
    get_full_name,
    get_gang_name,
    list_standalone_cliques,
)
from kilonova.workloads.controllers.podcliqueset_replica.gang_termination import get_breached_since
from kilonova.workloads.controllers.podcliqueset_replica.observed import (
    ObservedReplica,
    is_being_deleted,
)
from kilonova.workloads.controllers.podcliqueset_replica.pod_references import count_desired_pods
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    GroupReplica,
    ScalingGroupState,
    get_max_surge,
    must_replace_pods,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.updates import (
    select_replicas_to_update,
)
from kilonova.workloads.controllers.podcliqueset_replica.write_plan import Create, WritePlan
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import ClassifiedPods
from kilonova.workloads.pods.counts import count_pods
from kilonova.workloads.resources import CLIQUES, SCALING_GROUPS, SETS
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.settings import OperatorSettings
from kilonova.workloads.update_strategy import get_rolling_update, is_on_delete, is_replica_updating


@dataclass(frozen=True, slots=True)
class DesiredClique:
    """A clique that should exist."""

    clique: str
    """Its name in the set."""
    member: GroupMember | None
    group_replica: GroupReplica | None
    """Its group replica; None for a standalone clique."""
    name: str
    gang: str
    live: PodClique | None
    """None if it does not exist or is being deleted."""
    classified_pods: ClassifiedPods
    pod_count: int
    """The number of pods that it will have."""
    min_replicas: int
    """Pods that start together with the gang."""

    @property
    def cliques_replaced_together(self) -> tuple[str, ...]:
        """The cliques that are replaced with this one."""
        return (self.clique,) if self.member is None else self.member.group.clique_names


def list_desired_cliques(
    observed: ObservedReplica, groups: Sequence[ScalingGroupState]
) -> list[DesiredClique]:
    """All cliques of a replica: standalone ones, and those of every group replica."""
    result = [
        _desire_clique(observed, name, None, None)
        for name in list_standalone_cliques(observed.set_.spec.template)
    ]
    for group in groups:
        for group_replica in group.group_replicas:
            member = GroupMember(group.template, group.name, group_replica.index)
            result += [
                _desire_clique(observed, each, member, group_replica)
                for each in group.template.clique_names
            ]
    return result


def plan_cliques(
    plan: WritePlan,
    observed: ObservedReplica,
    revision: SetRevision,
    groups: Sequence[ScalingGroupState],
    desired: Sequence[DesiredClique],
    cliques_to_restart: frozenset[str],
    settings: OperatorSettings,
) -> None:
    """Bring the cliques to a revision, each as updates allow; restart `cliques_to_restart`."""
    updatable = {each.name: _select_replicas_to_update(observed, each) for each in groups}
    for each in desired:
        owner = _get_owner_reference(observed, each)
        if owner is None:
            continue
        if each.live is None:
            if each.name not in observed.cliques and _is_gang_present(observed, each):
                body = _build_clique(observed, each, revision, owner, settings)
                _set_incarnation(
                    body, max(map(_get_clique_incarnation, _list_sibling_cliques(each)), default=0)
                )
                plan.creates.append(Create(CLIQUES, body))
            continue
        is_due = _may_update(each, updatable)
        at = revision if is_due else _find_revision(observed, each.live)
        if at is None or not plan.can_patch(each.live.metadata):
            continue
        body = _build_clique(observed, each, at, owner, settings)
        _remove_stale_metadata(observed, each.live, each.clique, body)
        if each.name in cliques_to_restart:
            _set_incarnation(body, _get_clique_incarnation(each.live) + 1)
        elif is_due:
            _set_incarnation(
                body, _compute_updated_incarnation(observed, each, each.live, revision)
            )
        # While one is still breached, a restart is completed after a crash in between.
        breached_since = get_breached_since(each.live) if each.name in cliques_to_restart else None
        plan.patch_clique(each.live, body, breached_since=breached_since)
    plan.delete_unwanted(CLIQUES, observed.cliques, {each.name for each in desired})


def _desire_clique(
    observed: ObservedReplica,
    clique: str,
    member: GroupMember | None,
    group_replica: GroupReplica | None,
) -> DesiredClique:
    set_name = observed.set_.metadata.name
    name = get_full_name(set_name, observed.index, clique, member)
    live = observed.cliques.get(name)
    if live is not None and is_being_deleted(live.metadata):
        live = None
    spec = (
        get_clique_template(observed.set_.spec.template, clique).spec if live is None else live.spec
    )
    minimum = spec.replicas if spec.min_available is None else spec.min_available
    return DesiredClique(
        clique=clique,
        member=member,
        group_replica=group_replica,
        name=name,
        gang=get_gang_name(set_name, observed.index, member),
        live=live,
        classified_pods=observed.get_classified_pods(name),
        pod_count=spec.replicas if live is None else count_desired_pods(live),
        min_replicas=min(minimum, spec.replicas),
    )


def _build_clique(
    observed: ObservedReplica,
    desired: DesiredClique,
    revision: SetRevision,
    owner: JsonObject,
    settings: OperatorSettings,
) -> JsonObject:
    return build_clique(
        observed.set_,
        observed.index,
        revision,
        desired.clique,
        desired.member,
        settings,
        owner=owner,
    )


def _get_owner_reference(observed: ObservedReplica, desired: DesiredClique) -> JsonObject | None:
    """A reference to the set or the scaling group; None if the group does not exist."""
    if desired.member is None:
        return build_owner_reference(SETS, observed.set_.metadata)
    group = observed.groups.get(desired.member.group_name)
    if group is None or is_being_deleted(group.metadata):
        return None
    return build_owner_reference(SCALING_GROUPS, group.metadata)


def _may_update(desired: DesiredClique, updatable: Mapping[str, frozenset[int]]) -> bool:
    """Whether a clique may be brought to the revision now."""
    if (
        desired.member is None
        or desired.group_replica is None
        or not desired.group_replica.is_outdated
    ):
        return True
    return desired.group_replica.index in updatable[desired.member.group_name]


def _is_gang_present(observed: ObservedReplica, desired: DesiredClique) -> bool:
    gang = observed.gangs.get(desired.gang)
    return gang is not None and not is_being_deleted(gang.metadata)


def _select_replicas_to_update(
    observed: ObservedReplica, group: ScalingGroupState
) -> frozenset[int]:
    """Which replicas of a group may be replaced now."""
    if is_on_delete(observed.set_) or get_rolling_update(observed.set_).coherent:
        return frozenset(range(group.replica_count))
    rolling_update = group.template.rolling_update
    share = resolve_int_or_percent(
        rolling_update.max_unavailable if rolling_update else None, group.requested_replicas, 1
    )
    minimum = 0 if get_max_surge(group.template, group.requested_replicas) else 1
    return select_replicas_to_update(
        group.group_replicas,
        replicas=group.requested_replicas,
        required_replicas=group.required_replicas,
        max_unavailable=max(share, minimum),
        unplaced=_list_unplaced_replicas(group, observed.now),
    )


def _list_unplaced_replicas(group: ScalingGroupState, now: datetime | None) -> frozenset[int]:
    """Unplaced group replicas; not those that have lost their nodes through the update itself."""
    if now is None or not group.is_availability_restored:
        return frozenset()
    return frozenset(
        each.index
        for each in group.group_replicas
        if each.unplaced_from and each.unplaced_from <= now
    )


def _compute_updated_incarnation(
    observed: ObservedReplica, desired: DesiredClique, live: PodClique, revision: SetRevision
) -> int:
    """The next incarnation, if the update replaces all pods of a clique at once."""
    own = _get_clique_incarnation(live)
    if is_on_delete(observed.set_):
        return own
    if desired.member is None and not get_rolling_update(observed.set_).coherent:
        return own
    if must_replace_pods(observed, live, revision, desired.cliques_replaced_together):
        return own + 1
    if not is_replica_updating(observed.set_, observed.index):
        return own
    # Pods were left outdated under OnDelete, and the strategy has changed. All cliques of a group
    # replica get the same incarnation, so that after a crash the others follow, and only once.
    return max(
        _get_clique_incarnation(each)
        + (count_pods(each, observed.get_classified_pods(each.metadata.name)).outdated > 0)
        for each in _list_sibling_cliques(desired) or (live,)
    )


def _list_sibling_cliques(desired: DesiredClique) -> tuple[PodClique, ...]:
    """The existing cliques of a clique's group replica."""
    return () if desired.group_replica is None else tuple(desired.group_replica.cliques.values())


def _get_clique_incarnation(clique: PodClique) -> int:
    return get_incarnation(clique.metadata)


def _set_incarnation(body: JsonObject, incarnation: int) -> None:
    if incarnation:
        annotations = body["metadata"].setdefault("annotations", {})
        annotations[names.INCARNATION] = str(incarnation)


def _find_revision(observed: ObservedReplica, clique: PodClique) -> SetRevision | None:
    return observed.revisions.get(clique.metadata.labels.get(names.GENERATION_HASH, ""))


def _remove_stale_metadata(
    observed: ObservedReplica, live: PodClique, clique: str, body: JsonObject
) -> None:
    """Remove labels and annotations that an older revision had.

    The incarnation annotation is never a template's, even if a template contains the key.
    """
    old = _find_revision(observed, live)
    parts = None if old is None else old.templates.get(clique)
    if parts is None:
        return
    metadata = body["metadata"]
    for field, previous in (("labels", parts.labels), ("annotations", parts.annotations)):
        gone = previous.keys() - metadata.get(field, {}).keys() - {names.INCARNATION}
        if gone:
            metadata.setdefault(field, {}).update(dict.fromkeys(gone))
