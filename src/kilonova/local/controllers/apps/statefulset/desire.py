"""What a StatefulSet should do now, pod by pod. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import msgspec

from kilonova.local.controllers.apps.facts import is_available
from kilonova.local.controllers.apps.objects import StatefulSet, StatefulSetStatus
from kilonova.local.controllers.apps.statefulset.identity import (
    has_identity,
    ordinal_of,
    revision_of,
)
from kilonova.local.controllers.objects import Pod

_MOST_AT_ONCE = 500
"""Pods that are made in one step, whatever number a set asks for."""


@dataclass(frozen=True, slots=True)
class Make:
    """Make the pod of a number, with its claims; `updated` says from which of two templates."""

    ordinal: int
    updated: bool


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a pod."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Mend:
    """Put the labels of its identity back on a pod."""

    pod: Pod
    ordinal: int


@dataclass(frozen=True, slots=True)
class Supply:
    """See to the claims of a pod that is there: that they exist, and whose they are."""

    pod: Pod
    ordinal: int
    missing: bool
    condemned: bool


Act = Make | Remove | Mend | Supply


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: the acts in order, one after the other where the set says so."""

    acts: tuple[Act, ...]
    status: StatefulSetStatus


@dataclass(frozen=True, slots=True)
class RevisionNames:
    """The revision that pods have had so far, and the one that they are to have."""

    current: str
    update: str
    collisions: int = 0


def desire(
    stateful_set: StatefulSet, pods: Sequence[Pod], revisions: RevisionNames, now: datetime
) -> Plan:
    """The next step. `pods` are those that the set controls."""
    status = status_of(stateful_set, pods, revisions, now)
    if stateful_set.metadata.deletion_timestamp is not None:
        return Plan((), completed(stateful_set, status))
    step = _Step(stateful_set, pods, revisions, now)
    updating = step.decide()
    if updating:
        fewer = status.current_replicas - (revision_of(updating) == revisions.current)
        status = msgspec.structs.replace(status, current_replicas=fewer)
    return Plan(tuple(step.acts), completed(stateful_set, status))


def status_of(
    stateful_set: StatefulSet, pods: Iterable[Pod], revisions: RevisionNames, now: datetime
) -> StatefulSetStatus:
    """The status that these pods make."""
    minimum = stateful_set.spec.min_ready_seconds
    listed = list(pods)
    ready = [pod for pod in listed if _is_running_and_ready(pod)]
    staying = [revision_of(pod) for pod in listed if pod.metadata.deletion_timestamp is None]
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(listed),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, minimum, now) for pod in ready),
        current_replicas=staying.count(revisions.current),
        updated_replicas=staying.count(revisions.update),
        current_revision=revisions.current,
        update_revision=revisions.update,
        collision_count=revisions.collisions,
    )


def completed(stateful_set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """The status in which the new revision is the current one, once all pods have it."""
    wanted = stateful_set.spec.replicas
    counts = (status.updated_replicas, status.ready_replicas, status.replicas)
    if stateful_set.spec.update_strategy.type != "RollingUpdate" or counts != (wanted,) * 3:
        return status
    return msgspec.structs.replace(
        status,
        current_replicas=status.updated_replicas,
        current_revision=status.update_revision,
    )


@dataclass(slots=True)
class _Step:
    stateful_set: StatefulSet
    pods: Sequence[Pod]
    revisions: RevisionNames
    now: datetime
    acts: list[Act] = field(default_factory=list[Act])

    @property
    def _in_order(self) -> bool:
        return self.stateful_set.spec.pod_management_policy != "Parallel"

    def decide(self) -> Pod | None:
        """Gather the acts; the pod that is removed to be updated, if one is."""
        start, count = self.stateful_set.spec.ordinals.start, self.stateful_set.spec.replicas
        numbered = {
            ordinal: pod
            for pod in self.pods
            if (ordinal := ordinal_of(self.stateful_set, pod.metadata.name)) is not None
        }
        ordinals = range(start, start + count)
        missing = islice((each for each in ordinals if each not in numbered), _MOST_AT_ONCE)
        seen = sorted([*missing, *(each for each in numbered if each in ordinals)])
        wanted = {ordinal: numbered.get(ordinal) for ordinal in seen}
        condemned = sorted(
            (each for each in numbered.items() if each[0] not in ordinals), reverse=True
        )
        if self._keep(wanted) or self._condemn(wanted, condemned) or len(wanted) < count:
            return None
        if self.stateful_set.spec.update_strategy.type == "OnDelete":
            return None
        return self._update(list(wanted.values()))

    def _keep(self, wanted: dict[int, Pod | None]) -> bool:
        """Make and mend the pods that are wanted; True where the others have to wait."""
        for ordinal, pod in wanted.items():
            waits = self._make(ordinal) if pod is None else self._look_after(ordinal, pod)
            if waits and self._in_order:
                return True
        return False

    def _make(self, ordinal: int) -> bool:
        self.acts.append(Make(ordinal, self._is_made_updated(ordinal)))
        return True

    def _is_made_updated(self, ordinal: int) -> bool:
        strategy, start = (
            self.stateful_set.spec.update_strategy,
            self.stateful_set.spec.ordinals.start,
        )
        if strategy.rolling_update is not None:
            return ordinal >= start + strategy.rolling_update.partition
        if strategy.type == "RollingUpdate":
            return ordinal >= start + self.stateful_set.status.current_replicas
        return True

    def _look_after(self, ordinal: int, pod: Pod) -> bool:
        going = pod.metadata.deletion_timestamp is not None
        if pod.ended:
            if not going:
                self.acts.append(Remove(pod))
            return True
        if pod.status.phase == "Pending":
            self._supply(pod, ordinal, missing=True)
        if self._in_order and (going or not _is_running_and_ready(pod) or not self._available(pod)):
            return True
        if not has_identity(pod):
            self.acts.append(Mend(pod, ordinal))
        self._supply(pod, ordinal)
        return False

    def _supply(
        self, pod: Pod, ordinal: int, *, missing: bool = False, condemned: bool = False
    ) -> None:
        if self.stateful_set.spec.volume_claim_templates:
            self.acts.append(Supply(pod, ordinal, missing, condemned))

    def _condemn(self, wanted: dict[int, Pod | None], condemned: list[tuple[int, Pod]]) -> bool:
        """Remove the pods that are not wanted, the last first; True where updates have to wait."""
        for ordinal, pod in condemned:
            self._supply(pod, ordinal, condemned=True)
        first_unavailable = self._first_unavailable(wanted, condemned)
        for _, pod in condemned:
            if pod.metadata.deletion_timestamp is not None:
                if self._in_order:
                    return True
                continue
            healthy = _is_running_and_ready(pod) and self._available(pod)
            if self._in_order and not healthy and pod is not first_unavailable:
                return True
            self.acts.append(Remove(pod))
            if self._in_order:
                return True
        return False

    def _first_unavailable(
        self, wanted: dict[int, Pod | None], condemned: list[tuple[int, Pod]]
    ) -> Pod | None:
        """The lowest pod that is not available, or None: also where it is one yet to be made."""
        for pod in (*wanted.values(), *(pod for _, pod in reversed(condemned))):
            if pod is None or self._is_unavailable(pod):
                return pod
        return None

    def _update(self, replicas: list[Pod | None]) -> Pod | None:
        """Remove the last pod of an old revision, once those after it are available."""
        rolling = self.stateful_set.spec.update_strategy.rolling_update
        partition = rolling.partition if rolling is not None else 0
        for pod in reversed(replicas[partition:]):
            if pod is None:
                return None
            going = pod.metadata.deletion_timestamp is not None
            if revision_of(pod) != self.revisions.update and not going:
                if not any(isinstance(act, Remove) and act.pod is pod for act in self.acts):
                    self.acts.append(Remove(pod))
                return pod
            if self._is_unavailable(pod):
                return None
        return None

    def _available(self, pod: Pod) -> bool:
        return is_available(pod, self.stateful_set.spec.min_ready_seconds, self.now)

    def _is_unavailable(self, pod: Pod) -> bool:
        return pod.metadata.deletion_timestamp is not None or not self._available(pod)


def _is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and pod.ready
