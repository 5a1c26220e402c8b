"""Keeps the pods of ReplicaSets, or of ReplicationControllers, at their number."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kilonova.kube import ApiStatusError, Controller, Key, Resource, Result, Watch
from kilonova.kube.echo import Echo
from kilonova.local.controllers.apps.claims import Claimer, claim
from kilonova.local.controllers.apps.facts import is_active, is_going, next_availability
from kilonova.local.controllers.apps.hands import Hands, pod_of_template
from kilonova.local.controllers.apps.objects import ReplicaSet
from kilonova.local.controllers.apps.replicaset.desire import Desired, desire, status_of
from kilonova.local.controllers.apps.selection import (
    BY_SELECTOR,
    asked_label,
    keys_of_selecting,
    selector_values,
)
from kilonova.local.controllers.apps.statuses import StatusWriter
from kilonova.local.controllers.indexes import (
    BY_CONTROLLER,
    add_index_once,
    controller_of,
    orphans,
    pods_by_controller,
)
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.controllers.workshop import Workshop

R = TypeVar("R", bound=ReplicaSet)

_WORKERS = 5


@dataclass(frozen=True, slots=True)
class _Seen(Generic[R]):
    """What there is of a set, at one time."""

    replica_set: R
    active: list[Pod]
    going: int


class ReplicaSetController(Generic[R]):
    """One for ReplicaSets, another for ReplicationControllers, which are the same but in name."""

    def __init__(self, workshop: Workshop, resource: Resource[R], name: str) -> None:
        client = workshop.account(name)
        self._resource = resource
        self._clock = workshop.clock
        self._sets = workshop.cache(resource)
        self._pods = pods_by_controller(workshop)
        add_index_once(self._sets.store, BY_SELECTOR, selector_values)
        add_index_once(self._sets.store, BY_CONTROLLER, controller_of)
        self._pod_echo = Echo(self._pods)
        self._statuses = StatusWriter(client, resource, Echo(self._sets))
        self._claimer = Claimer(client, resource)
        self._hands = Hands(client, workshop.recorder(name), resource, self._pod_echo)
        self._counts_going = resource.group == "apps"
        self._name = name

    def controller(self) -> Controller:
        watches = [Watch(self._sets), Watch(self._pods, self._keys_of_pod)]
        return Controller(self._name, self._reconcile, watches, workers=_WORKERS)

    def _keys_of_pod(self, pod: Pod) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return keys_of_selecting(self._sets.store, pod.metadata)
        return [(pod.metadata.namespace, owner.name)] if owner.kind == self._resource.kind else []

    async def _reconcile(self, key: Key) -> Result | None:
        seen = await self._observe(key)
        if seen is None:
            return None
        replica_set, failure = seen.replica_set, None
        wanted = desire(replica_set, seen.active, self._related(replica_set), self._clock.now())
        try:
            await self._apply(replica_set, wanted)
        except ApiStatusError as error:
            failure = error
        await self._tell(seen, failure)
        if failure is not None:
            raise failure
        minimum = replica_set.spec.min_ready_seconds
        after = next_availability(seen.active, minimum, self._clock.now())
        return None if after is None else Result(after)

    async def _observe(self, key: Key) -> _Seen[R] | None:
        replica_set = self._sets.store.get(key)
        if replica_set is None:
            return None
        known, store = replica_set.metadata, self._pods.store
        owned = store.find(BY_CONTROLLER, known.uid)
        free = store.find(BY_CONTROLLER, orphans(known.namespace, asked_label(replica_set)))
        matches = replica_set.selector.matches
        found = claim(
            known,
            [pod for pod in (*owned, *free) if is_active(pod)],
            lambda pod: matches(pod.metadata.labels),
        )
        active = await self._claimer.settle(known, found, PODS, self._pod_echo)
        going = sum(is_going(pod) and matches(pod.metadata.labels) for pod in owned)
        return _Seen(replica_set, active, going)

    def _related(self, replica_set: R) -> Iterator[Pod]:
        """The pods of all sets of the same Deployment; asked for only where pods have to go."""
        owner = replica_set.metadata.controller
        if owner is None:
            return
        for each in self._sets.store.find(BY_CONTROLLER, owner.uid):
            yield from self._pods.store.find(BY_CONTROLLER, each.metadata.uid)

    async def _apply(self, replica_set: R, wanted: Desired) -> None:
        known = replica_set.metadata
        if wanted.create:
            body = pod_of_template(replica_set.spec.template, self._resource, known)
            await self._hands.create(known, [body] * wanted.create)
        elif wanted.delete:
            await self._hands.delete(known, wanted.delete)

    async def _tell(self, seen: _Seen[R], failure: ApiStatusError | None) -> None:
        replica_set = seen.replica_set
        status = status_of(
            replica_set,
            seen.active,
            seen.going if self._counts_going else None,
            None if failure is None else failure.message,
            self._clock.now(),
        )
        await self._statuses.write(replica_set, status)
