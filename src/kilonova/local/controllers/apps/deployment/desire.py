"""What a Deployment should do now: which ReplicaSets to make, size and remove. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kilonova.api.meta import Metadata
from kilonova.local.controllers.apps.deployment.annotations import (
    REVISION,
    copied_notes,
    desired_of,
    next_revision,
    revision_notes,
    revision_of,
    size_notes,
)
from kilonova.local.controllers.apps.deployment.progress import (
    counted,
    created_new,
    found_new,
    is_complete,
    look_again_after,
    paused_or_resumed,
    rolled,
)
from kilonova.local.controllers.apps.deployment.rolling import (
    Sizes,
    by_age,
    grown_new,
    max_surge,
    rescaled,
    shrunk_old,
    size_of_new,
)
from kilonova.local.controllers.apps.objects import (
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
)
from kilonova.local.controllers.apps.templates import (
    TEMPLATE_HASH,
    same_template,
    template_hash,
    with_labels,
)
from kilonova.local.kinds.walk import part

_LONGEST_NAME = 253
_KEEP_ALL = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Change:
    """A ReplicaSet that is to be sized, or noted on."""

    replica_set: ReplicaSet
    replicas: int
    annotations: dict[str, str]
    min_ready_seconds: int

    @property
    def is_needed(self) -> bool:
        known = self.replica_set
        return (
            self.replicas != known.spec.replicas
            or self.min_ready_seconds != known.spec.min_ready_seconds
            or not self.annotations.items() <= known.metadata.annotations.items()
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write, in this order, and when to look again if nothing happens."""

    status: DeploymentStatus
    create: ReplicaSet | None = None
    changes: tuple[Change, ...] = ()
    remove: tuple[ReplicaSet, ...] = ()
    revision: str = ""
    after: float | None = None


def desire(
    deployment: Deployment, sets: Sequence[ReplicaSet], old_pods_left: bool, now: datetime
) -> Plan:
    """The next step. `sets` are those that the Deployment controls.

    `old_pods_left` says whether pods of sets that are not the newest still run; Recreate waits
    for them.
    """
    ordered = sorted(sets, key=by_age)
    new = newest(deployment, ordered)
    old = [each for each in ordered if each is not new]
    if deployment.metadata.deletion_timestamp is not None:
        return Plan(counted(deployment, deployment.status.conditions, ordered, new, now))
    return _Step(deployment, old, new, old_pods_left, now).plan()


def newest(deployment: Deployment, by_age_: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The set that has the Deployment's template: of several, the oldest."""
    template = deployment.spec.template
    return next((each for each in by_age_ if same_template(each.spec.template, template)), None)


@dataclass(frozen=True, slots=True)
class _Step:
    deployment: Deployment
    old: list[ReplicaSet]
    new: ReplicaSet | None
    old_pods_left: bool
    now: datetime

    @property
    def _sets(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]

    def plan(self) -> Plan:
        if self.deployment.spec.paused:
            return self._paused()
        if self._is_rescaled():
            return self._resize()
        if self.deployment.spec.strategy.type == "Recreate":
            return self._recreate()
        return self._roll()

    def _paused(self) -> Plan:
        return replace(self._resize(), remove=self._past_the_limit())

    def _is_rescaled(self) -> bool:
        wanted = self.deployment.spec.replicas
        return any(
            desired_of(each) not in (None, wanted) for each in self._sets if each.spec.replicas > 0
        )

    def _resize(self) -> Plan:
        sizes, noted = rescaled(self.deployment, self.old, self.new)
        return self._finish(sizes, noted, rolling=False)

    def _recreate(self) -> Plan:
        active = [each for each in self.old if each.spec.replicas > 0]
        if active:
            return self._finish({each.metadata.uid: 0 for each in active}, active)
        if self.old_pods_left or any(each.status.replicas for each in self.old):
            return self._finish({}, [])
        if self.new is None:
            return self._with_new()._grow({})
        wanted = self.deployment.spec.replicas
        return self._grow({} if self.new.spec.replicas == wanted else {self._new_uid: wanted})

    def _roll(self) -> Plan:
        if self.new is None:
            return self._with_new()._roll_on({})
        return self._roll_on(grown_new(self.deployment, self.old, self.new))

    def _roll_on(self, grown: Sizes) -> Plan:
        assert self.new is not None
        return self._grow(grown or shrunk_old(self.deployment, self.old, self.new))

    def _grow(self, sizes: Sizes) -> Plan:
        plan = self._finish(sizes, [each for each in self._sets if each.metadata.uid in sizes])
        if not sizes and is_complete(self.deployment, self.deployment.status):
            return replace(plan, remove=self._past_the_limit())
        return plan

    @property
    def _new_uid(self) -> str:
        return self.new.metadata.uid if self.new is not None else ""

    def _with_new(self) -> "_Step":
        """The step as it goes on once the newest set has been made."""
        return replace(self, new=new_replica_set(self.deployment, self.old))

    def _finish(self, sizes: Sizes, noted: Sequence[ReplicaSet], *, rolling: bool = True) -> Plan:
        """The plan with these sizes; `noted` are to carry the number that is wanted now."""
        deployment, new, now = self.deployment, self.new, self.now
        created = new if new is not None and not new.metadata.uid else None
        conditions = paused_or_resumed(deployment, now)
        if created is not None:
            conditions = created_new(deployment, conditions, created.metadata.name, now)
        elif new is not None:
            conditions = found_new(deployment, conditions, new.metadata.name, now)
        status = counted(deployment, conditions, self._sets, new, now)
        if rolling:
            status = rolled(deployment, status, self._sets, new, now)
        uids = {each.metadata.uid for each in noted}
        changes = [self._change(each, sizes, uids) for each in self._sets if each is not created]
        return Plan(
            status,
            created,
            tuple(change for change in changes if change.is_needed),
            revision=self._revision(),
            after=look_again_after(deployment, status, now) if rolling else None,
        )

    def _change(self, each: ReplicaSet, sizes: Sizes, noted: set[str]) -> Change:
        notes: dict[str, str] = {}
        minimum = each.spec.min_ready_seconds
        if each is self.new:
            notes = copied_notes(self.deployment)
            notes |= revision_notes(each, next_revision(self.old))
            minimum = self.deployment.spec.min_ready_seconds
        if each.metadata.uid in noted:
            notes |= size_notes(self.deployment, max_surge(self.deployment))
        size = sizes.get(each.metadata.uid, each.spec.replicas)
        return Change(each, size, notes, minimum)

    def _revision(self) -> str:
        if self.new is None:
            return ""
        present = revision_of(self.new)
        if present is None:
            return self.new.metadata.annotations[REVISION]
        return str(max(present, next_revision(self.old)))

    def _past_the_limit(self) -> tuple[ReplicaSet, ...]:
        limit = self.deployment.spec.revision_history_limit
        if limit is None or limit == _KEEP_ALL:
            return ()
        alive = [each for each in self.old if each.metadata.deletion_timestamp is None]
        alive.sort(key=lambda each: (revision_of(each) or 0, *by_age(each)))
        return tuple(each for each in alive[: max(len(alive) - limit, 0)] if _is_idle(each))


def _is_idle(each: ReplicaSet) -> bool:
    observed = each.metadata.generation <= each.status.observed_generation
    return observed and each.status.replicas == each.spec.replicas == 0


def new_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> ReplicaSet:
    """The set for the Deployment's template, as it is to be made."""
    spec = deployment.spec
    hash_ = template_hash(spec.template, deployment.status.collision_count)
    label = {TEMPLATE_HASH: hash_}
    template = with_labels(spec.template, label)
    selector = {**spec.selector, "matchLabels": {**part(spec.selector, "matchLabels"), **label}}
    prefix = deployment.metadata.name[: _LONGEST_NAME - 1 - len(hash_)]
    notes = copied_notes(deployment) | {REVISION: str(next_revision(old))}
    return ReplicaSet(
        Metadata(
            f"{prefix}-{hash_}",
            uid="",
            resource_version="",
            namespace=deployment.metadata.namespace,
            labels=template["metadata"]["labels"],
            annotations=notes | size_notes(deployment, max_surge(deployment)),
        ),
        ReplicaSetSpec(size_of_new(deployment, old, 0), spec.min_ready_seconds, selector, template),
    )
