"""Which ReplicaSets of a Deployment to create, scale and delete. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kilonova.api.meta import Metadata
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.controllers.apps.deployment.annotations import (
    REVISION_ANNOTATION,
    build_revision_annotations,
    build_size_annotations,
    copy_deployment_annotations,
    desired_replicas_of,
    next_revision,
    revision_of,
)
from kilonova.local.controllers.apps.deployment.progress import (
    add_rollout_conditions,
    compute_status,
    is_complete,
    report_created_replica_set,
    report_found_replica_set,
    seconds_to_deadline,
    update_paused_condition,
)
from kilonova.local.controllers.apps.deployment.rolling_update import (
    ReplicaSetSizes,
    compute_new_size,
    creation_order,
    max_surge,
    scale_down_old,
    scale_proportionally,
    scale_up_new,
)
from kilonova.local.controllers.apps.objects import (
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    ReplicaSetSpec,
)
from kilonova.local.controllers.apps.templates import (
    TEMPLATE_HASH,
    add_labels,
    compute_template_hash,
    is_same_template,
)

_MAX_NAME_LENGTH = 253
_UNLIMITED_HISTORY = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class ReplicaSetChange:
    """A ReplicaSet to scale or annotate."""

    replica_set: ReplicaSet
    replicas: int
    annotations: dict[str, str]
    min_ready_seconds: int

    @property
    def is_needed(self) -> bool:
        replica_set = self.replica_set
        return (
            self.replicas != replica_set.spec.replicas
            or self.min_ready_seconds != replica_set.spec.min_ready_seconds
            or not self.annotations.items() <= replica_set.metadata.annotations.items()
        )


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What to write, in this order, and when to check again without an event."""

    status: DeploymentStatus
    create: ReplicaSet | None = None
    changes: tuple[ReplicaSetChange, ...] = ()
    remove: tuple[ReplicaSet, ...] = ()
    revision: str = ""
    requeue_after: float | None = None


def desire(
    deployment: Deployment, sets: Sequence[ReplicaSet], has_old_pods: bool, now: datetime
) -> DeploymentPlan:
    """The next step. `sets` are the ReplicaSets that the Deployment controls.

    `has_old_pods` indicates whether pods of old ReplicaSets still run; Recreate waits for them.
    """
    ordered = sorted(sets, key=creation_order)
    new = find_new_replica_set(deployment, ordered)
    old = [each for each in ordered if each is not new]
    if deployment.metadata.deletion_timestamp is not None:
        return DeploymentPlan(
            compute_status(deployment, deployment.status.conditions, ordered, new, now)
        )
    return _DeploymentSync(deployment, old, new, has_old_pods, now).plan()


def find_new_replica_set(deployment: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet with the Deployment's template: of several, the oldest."""
    template = deployment.spec.template
    return next((each for each in sets if is_same_template(each.spec.template, template)), None)


@dataclass(frozen=True, slots=True)
class _DeploymentSync:
    deployment: Deployment
    old: list[ReplicaSet]
    new: ReplicaSet | None
    has_old_pods: bool
    now: datetime

    @property
    def _all_sets(self) -> list[ReplicaSet]:
        return [*self.old, *([self.new] if self.new is not None else [])]

    def plan(self) -> DeploymentPlan:
        if self.deployment.spec.paused:
            return self._plan_paused()
        if self._is_scaling_event():
            return self._plan_scaling()
        if self.deployment.spec.strategy.type == "Recreate":
            return self._plan_recreate()
        return self._plan_rolling_update()

    def _plan_paused(self) -> DeploymentPlan:
        return replace(self._plan_scaling(), remove=self._select_expired_sets())

    def _is_scaling_event(self) -> bool:
        desired = self.deployment.spec.replicas
        return any(
            desired_replicas_of(each) not in (None, desired)
            for each in self._all_sets
            if each.spec.replicas > 0
        )

    def _plan_scaling(self) -> DeploymentPlan:
        sizes, annotated = scale_proportionally(self.deployment, self.old, self.new)
        return self._build_plan(sizes, annotated, rolling=False)

    def _plan_recreate(self) -> DeploymentPlan:
        active = [each for each in self.old if each.spec.replicas > 0]
        if active:
            return self._build_plan({each.metadata.uid: 0 for each in active}, active)
        if self.has_old_pods or any(each.status.replicas for each in self.old):
            return self._build_plan({}, [])
        if self.new is None:
            return self._with_new_replica_set()._plan_sizes({})
        desired = self.deployment.spec.replicas
        return self._plan_sizes(
            {} if self.new.spec.replicas == desired else {self._new_uid: desired}
        )

    def _plan_rolling_update(self) -> DeploymentPlan:
        if self.new is None:
            return self._with_new_replica_set()._roll_old_sets({})
        return self._roll_old_sets(scale_up_new(self.deployment, self.old, self.new))

    def _roll_old_sets(self, grown: ReplicaSetSizes) -> DeploymentPlan:
        assert self.new is not None
        return self._plan_sizes(grown or scale_down_old(self.deployment, self.old, self.new))

    def _plan_sizes(self, sizes: ReplicaSetSizes) -> DeploymentPlan:
        plan = self._build_plan(
            sizes, [each for each in self._all_sets if each.metadata.uid in sizes]
        )
        if not sizes and is_complete(self.deployment, self.deployment.status):
            return replace(plan, remove=self._select_expired_sets())
        return plan

    @property
    def _new_uid(self) -> str:
        return self.new.metadata.uid if self.new is not None else ""

    def _with_new_replica_set(self) -> "_DeploymentSync":
        """The sync as it continues once the newest ReplicaSet has been created."""
        return replace(self, new=build_new_replica_set(self.deployment, self.old))

    def _build_plan(
        self, sizes: ReplicaSetSizes, annotated: Sequence[ReplicaSet], *, rolling: bool = True
    ) -> DeploymentPlan:
        """The plan with these sizes; `annotated` are the ReplicaSets that get the desired-replicas
        annotation."""
        deployment, new, now = self.deployment, self.new, self.now
        created = new if new is not None and not new.metadata.uid else None
        conditions = update_paused_condition(deployment, now)
        if created is not None:
            conditions = report_created_replica_set(
                deployment, conditions, created.metadata.name, now
            )
        elif new is not None:
            conditions = report_found_replica_set(deployment, conditions, new.metadata.name, now)
        status = compute_status(deployment, conditions, self._all_sets, new, now)
        if rolling:
            status = add_rollout_conditions(deployment, status, self._all_sets, new, now)
        uids = {each.metadata.uid for each in annotated}
        changes = [
            self._build_change(each, sizes, uids) for each in self._all_sets if each is not created
        ]
        return DeploymentPlan(
            status,
            created,
            tuple(change for change in changes if change.is_needed),
            revision=self._revision(),
            requeue_after=seconds_to_deadline(deployment, status, now) if rolling else None,
        )

    def _build_change(
        self, each: ReplicaSet, sizes: ReplicaSetSizes, annotated: set[str]
    ) -> ReplicaSetChange:
        new_annotations: dict[str, str] = {}
        minimum = each.spec.min_ready_seconds
        if each is self.new:
            new_annotations = copy_deployment_annotations(self.deployment)
            new_annotations |= build_revision_annotations(each, next_revision(self.old))
            minimum = self.deployment.spec.min_ready_seconds
        if each.metadata.uid in annotated:
            new_annotations |= build_size_annotations(self.deployment, max_surge(self.deployment))
        size = sizes.get(each.metadata.uid, each.spec.replicas)
        return ReplicaSetChange(each, size, new_annotations, minimum)

    def _revision(self) -> str:
        if self.new is None:
            return ""
        present = revision_of(self.new)
        if present is None:
            return self.new.metadata.annotations[REVISION_ANNOTATION]
        return str(max(present, next_revision(self.old)))

    def _select_expired_sets(self) -> tuple[ReplicaSet, ...]:
        limit = self.deployment.spec.revision_history_limit
        if limit is None or limit == _UNLIMITED_HISTORY:
            return ()
        alive = [each for each in self.old if each.metadata.deletion_timestamp is None]
        alive.sort(key=lambda each: (revision_of(each) or 0, *creation_order(each)))
        return tuple(each for each in alive[: max(len(alive) - limit, 0)] if _is_idle(each))


def _is_idle(each: ReplicaSet) -> bool:
    observed = each.metadata.generation <= each.status.observed_generation
    return observed and each.status.replicas == each.spec.replicas == 0


def build_new_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> ReplicaSet:
    """The ReplicaSet to create for the Deployment's template."""
    spec = deployment.spec
    hash_ = compute_template_hash(spec.template, deployment.status.collision_count)
    label = {TEMPLATE_HASH: hash_}
    template = add_labels(spec.template, label)
    selector = {
        **spec.selector,
        "matchLabels": {**nested_object(spec.selector, "matchLabels"), **label},
    }
    prefix = deployment.metadata.name[: _MAX_NAME_LENGTH - 1 - len(hash_)]
    new_annotations = copy_deployment_annotations(deployment) | {
        REVISION_ANNOTATION: str(next_revision(old))
    }
    return ReplicaSet(
        Metadata(
            f"{prefix}-{hash_}",
            uid="",
            resource_version="",
            namespace=deployment.metadata.namespace,
            labels=template["metadata"]["labels"],
            annotations=new_annotations | build_size_annotations(deployment, max_surge(deployment)),
        ),
        ReplicaSetSpec(
            compute_new_size(deployment, old, 0), spec.min_ready_seconds, selector, template
        ),
    )
