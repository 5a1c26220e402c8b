"""Which pods of a StatefulSet to create, delete and update. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import msgspec

from kilonova.local.controllers.apps.objects import StatefulSet, StatefulSetStatus
from kilonova.local.controllers.apps.pod_state import is_available
from kilonova.local.controllers.apps.statefulset.identity import (
    has_identity,
    parse_ordinal,
    revision_of,
)
from kilonova.local.objects.core import Pod

_MAX_CREATED_PER_SYNC = 500
"""The maximum number of pods created in one step."""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of an ordinal, with its claims; `updated` selects the template."""

    ordinal: int
    updated: bool


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Remove a pod."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class RestoreIdentity:
    """Restore the identity labels of a pod."""

    pod: Pod
    ordinal: int


@dataclass(frozen=True, slots=True)
class SyncClaims:
    """Create missing claims of an existing pod, and set their owner references."""

    pod: Pod
    ordinal: int
    create_missing: bool
    condemned: bool


PodAction = CreatePod | DeletePod | RestoreIdentity | SyncClaims


@dataclass(frozen=True, slots=True)
class StatefulSetPlan:
    """The actions in order, one at a time if the StatefulSet is ordered."""

    actions: tuple[PodAction, ...]
    status: StatefulSetStatus


@dataclass(frozen=True, slots=True)
class RevisionNames:
    """The current revision of the pods, and the update revision."""

    current: str
    update: str
    collisions: int = 0


def desire(
    stateful_set: StatefulSet, pods: Sequence[Pod], revisions: RevisionNames, now: datetime
) -> StatefulSetPlan:
    """The next step. `pods` are those that the StatefulSet controls."""
    status = compute_status(stateful_set, pods, revisions, now)
    if stateful_set.metadata.deletion_timestamp is not None:
        return StatefulSetPlan((), complete_rolling_update(stateful_set, status))
    step = _StatefulSetSync(stateful_set, pods, revisions, now)
    updating = step.plan_actions()
    if updating:
        fewer = status.current_replicas - (revision_of(updating) == revisions.current)
        status = msgspec.structs.replace(status, current_replicas=fewer)
    return StatefulSetPlan(tuple(step.actions), complete_rolling_update(stateful_set, status))


def compute_status(
    stateful_set: StatefulSet, pods: Iterable[Pod], revisions: RevisionNames, now: datetime
) -> StatefulSetStatus:
    """The status computed from these pods."""
    minimum = stateful_set.spec.min_ready_seconds
    listed = list(pods)
    ready = [pod for pod in listed if _is_running_and_ready(pod)]
    remaining = [revision_of(pod) for pod in listed if pod.metadata.deletion_timestamp is None]
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(listed),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, minimum, now) for pod in ready),
        current_replicas=remaining.count(revisions.current),
        updated_replicas=remaining.count(revisions.update),
        current_revision=revisions.current,
        update_revision=revisions.update,
        collision_count=revisions.collisions,
    )


def complete_rolling_update(
    stateful_set: StatefulSet, status: StatefulSetStatus
) -> StatefulSetStatus:
    """The status with the update revision as the current one, once all pods have it."""
    desired = stateful_set.spec.replicas
    counts = (status.updated_replicas, status.ready_replicas, status.replicas)
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or counts != (desired,) * 3:
        return status
    return msgspec.structs.replace(
        status,
        current_replicas=status.updated_replicas,
        current_revision=status.update_revision,
    )


@dataclass(slots=True)
class _StatefulSetSync:
    stateful_set: StatefulSet
    pods: Sequence[Pod]
    revisions: RevisionNames
    now: datetime
    actions: list[PodAction] = field(default_factory=list[PodAction])

    @property
    def _is_ordered(self) -> bool:
        return self.stateful_set.spec.pod_management_policy != "Parallel"

    def plan_actions(self) -> Pod | None:
        """Collect the actions; returns the pod that is deleted to be updated, if any."""
        start, count = self.stateful_set.spec.ordinals.start, self.stateful_set.spec.replicas
        numbered = {
            ordinal: pod
            for pod in self.pods
            if (ordinal := parse_ordinal(self.stateful_set, pod.metadata.name)) is not None
        }
        ordinals = range(start, start + count)
        missing = islice((each for each in ordinals if each not in numbered), _MAX_CREATED_PER_SYNC)
        seen = sorted([*missing, *(each for each in numbered if each in ordinals)])
        desired = {ordinal: numbered.get(ordinal) for ordinal in seen}
        condemned = sorted(
            (each for each in numbered.items() if each[0] not in ordinals), reverse=True
        )
        if (
            self._sync_replicas(desired)
            or self._delete_condemned(desired, condemned)
            or len(desired) < count
        ):
            return None
        if self.stateful_set.spec.update_strategy.type == "OnDelete":
            return None
        return self._update_next_pod(list(desired.values()))

    def _sync_replicas(self, desired: dict[int, Pod | None]) -> bool:
        """Create and repair the desired pods; True if the other steps have to wait."""
        for ordinal, pod in desired.items():
            waits = self._create_pod(ordinal) if pod is None else self._sync_pod(ordinal, pod)
            if waits and self._is_ordered:
                return True
        return False

    def _create_pod(self, ordinal: int) -> bool:
        self.actions.append(CreatePod(ordinal, self._uses_update_revision(ordinal)))
        return True

    def _uses_update_revision(self, ordinal: int) -> bool:
        strategy, start = (
            self.stateful_set.spec.update_strategy,
            self.stateful_set.spec.ordinals.start,
        )
        if strategy.rolling_update is not None:
            return ordinal >= start + strategy.rolling_update.partition
        if strategy.type == "RollingUpdate":
            return ordinal >= start + self.stateful_set.status.current_replicas
        return True

    def _sync_pod(self, ordinal: int, pod: Pod) -> bool:
        terminating = pod.metadata.deletion_timestamp is not None
        if pod.is_terminal:
            if not terminating:
                self.actions.append(DeletePod(pod))
            return True
        if pod.status.phase == "Pending":
            self._sync_claims(pod, ordinal, missing=True)
        if self._is_ordered and (
            terminating or not _is_running_and_ready(pod) or not self._is_available(pod)
        ):
            return True
        if not has_identity(pod):
            self.actions.append(RestoreIdentity(pod, ordinal))
        self._sync_claims(pod, ordinal)
        return False

    def _sync_claims(
        self, pod: Pod, ordinal: int, *, missing: bool = False, condemned: bool = False
    ) -> None:
        if self.stateful_set.spec.volume_claim_templates:
            self.actions.append(SyncClaims(pod, ordinal, missing, condemned))

    def _delete_condemned(
        self, desired: dict[int, Pod | None], condemned: list[tuple[int, Pod]]
    ) -> bool:
        """Delete the surplus pods, the last first; True if updates have to wait."""
        for ordinal, pod in condemned:
            self._sync_claims(pod, ordinal, condemned=True)
        first_unavailable = self._first_unavailable(desired, condemned)
        for _, pod in condemned:
            if pod.metadata.deletion_timestamp is not None:
                if self._is_ordered:
                    return True
                continue
            healthy = _is_running_and_ready(pod) and self._is_available(pod)
            if self._is_ordered and not healthy and pod is not first_unavailable:
                return True
            self.actions.append(DeletePod(pod))
            if self._is_ordered:
                return True
        return False

    def _first_unavailable(
        self, desired: dict[int, Pod | None], condemned: list[tuple[int, Pod]]
    ) -> Pod | None:
        """The unavailable pod with the lowest ordinal, or None, also if it is yet to be created."""
        for pod in (*desired.values(), *(pod for _, pod in reversed(condemned))):
            if pod is None or self._is_unavailable(pod):
                return pod
        return None

    def _update_next_pod(self, replicas: list[Pod | None]) -> Pod | None:
        """Delete the last pod of an old revision, once those after it are available."""
        rolling = self.stateful_set.spec.update_strategy.rolling_update
        partition = rolling.partition if rolling is not None else 0
        for pod in reversed(replicas[partition:]):
            if pod is None:
                return None
            terminating = pod.metadata.deletion_timestamp is not None
            if revision_of(pod) != self.revisions.update and not terminating:
                if not any(isinstance(act, DeletePod) and act.pod is pod for act in self.actions):
                    self.actions.append(DeletePod(pod))
                return pod
            if self._is_unavailable(pod):
                return None
        return None

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.stateful_set.spec.min_ready_seconds, self.now)

    def _is_unavailable(self, pod: Pod) -> bool:
        return pod.metadata.deletion_timestamp is not None or not self._is_available(pod)


def _is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.is_ready
