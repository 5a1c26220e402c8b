"""The controller of ReplicaSets, or of ReplicationControllers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kilonova.kube import ApiStatusError, Controller, Key, Resource, Result, Watch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.local.controllers.apps.controller_refs import (
    ControllerRefManager,
    match_controlled_objects,
)
from kilonova.local.controllers.apps.objects import ReplicaSet
from kilonova.local.controllers.apps.pod_control import PodControl, build_pod_from_template
from kilonova.local.controllers.apps.pod_state import (
    is_active,
    is_terminating,
    seconds_to_next_available,
)
from kilonova.local.controllers.apps.replicaset.desire import DesiredPods, compute_status, desire
from kilonova.local.controllers.apps.selector_index import (
    BY_SELECTOR,
    find_selecting_keys,
    first_match_label,
    index_by_selector,
)
from kilonova.local.controllers.apps.status_writer import WorkloadStatusWriter
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.shared.indexes import (
    BY_CONTROLLER,
    index_by_controller,
    orphan_index_key,
    pods_by_controller,
)
from kilonova.local.objects.core import PODS, Pod
from kilonova.local.objects.indexes import add_index_once

R = TypeVar("R", bound=ReplicaSet)

_WORKERS = 5


@dataclass(frozen=True, slots=True)
class _ObservedReplicaSet(Generic[R]):
    """The observed state of a ReplicaSet."""

    replica_set: R
    active: list[Pod]
    terminating: int


class ReplicaSetController(Generic[R]):
    """One for ReplicaSets, another for ReplicationControllers, which differ only in kind."""

    def __init__(self, context: ControllerContext, resource: Resource[R], name: str) -> None:
        client = context.client_for(name)
        self._resource = resource
        self._clock = context.clock
        self._sets = context.informer(resource)
        self._pods = pods_by_controller(context)
        add_index_once(self._sets.store, BY_SELECTOR, index_by_selector)
        add_index_once(self._sets.store, BY_CONTROLLER, index_by_controller)
        self._pod_writes = Expectations(self._pods)
        self._status_writer = WorkloadStatusWriter(client, resource, Expectations(self._sets))
        self._claimer = ControllerRefManager(client, resource)
        self._pod_control = PodControl(client, context.recorder(name), resource, self._pod_writes)
        self._reports_terminating = resource.group == "apps"
        self._name = name

    def controller(self) -> Controller:
        watches = [Watch(self._sets), Watch(self._pods, self._map_pod)]
        return Controller(self._name, self._reconcile, watches, workers=_WORKERS)

    def _map_pod(self, pod: Pod) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return find_selecting_keys(self._sets.store, pod.metadata)
        return [(pod.metadata.namespace, owner.name)] if owner.kind == self._resource.kind else []

    async def _reconcile(self, key: Key) -> Result | None:
        seen = await self._observe(key)
        if seen is None:
            return None
        replica_set, failure = seen.replica_set, None
        desired = desire(
            replica_set, seen.active, self._related_pods(replica_set), self._clock.now()
        )
        try:
            await self._apply(replica_set, desired)
        except ApiStatusError as error:
            failure = error
        await self._write_status(seen, failure)
        if failure is not None:
            raise failure
        minimum = replica_set.spec.min_ready_seconds
        after = seconds_to_next_available(seen.active, minimum, self._clock.now())
        return None if after is None else Result(after)

    async def _observe(self, key: Key) -> _ObservedReplicaSet[R] | None:
        replica_set = self._sets.store.get(key)
        if replica_set is None:
            return None
        metadata, store = replica_set.metadata, self._pods.store
        owned = store.by_index(BY_CONTROLLER, metadata.uid)
        free = store.by_index(
            BY_CONTROLLER, orphan_index_key(metadata.namespace, first_match_label(replica_set))
        )
        matches = replica_set.selector.matches
        found = match_controlled_objects(
            metadata,
            [pod for pod in (*owned, *free) if is_active(pod)],
            lambda pod: matches(pod.metadata.labels),
        )
        active = await self._claimer.adopt_and_release(metadata, found, PODS, self._pod_writes)
        terminating = sum(is_terminating(pod) and matches(pod.metadata.labels) for pod in owned)
        return _ObservedReplicaSet(replica_set, active, terminating)

    def _related_pods(self, replica_set: R) -> Iterator[Pod]:
        """The pods of all ReplicaSets of the same Deployment; evaluated only if pods are
        deleted."""
        owner = replica_set.metadata.controller
        if owner is None:
            return
        for each in self._sets.store.by_index(BY_CONTROLLER, owner.uid):
            yield from self._pods.store.by_index(BY_CONTROLLER, each.metadata.uid)

    async def _apply(self, replica_set: R, desired: DesiredPods) -> None:
        metadata = replica_set.metadata
        if desired.create:
            body = build_pod_from_template(replica_set.spec.template, self._resource, metadata)
            await self._pod_control.create(metadata, [body] * desired.create)
        elif desired.delete:
            await self._pod_control.delete(metadata, desired.delete)

    async def _write_status(
        self, observed: _ObservedReplicaSet[R], failure: ApiStatusError | None
    ) -> None:
        replica_set = observed.replica_set
        status = compute_status(
            replica_set,
            observed.active,
            observed.terminating if self._reports_terminating else None,
            None if failure is None else failure.message,
            self._clock.now(),
        )
        await self._status_writer.write(replica_set, status)
