"""Carries out what a Deployment should do."""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, ApiStatusError, Controller, Key, NotFound, Result, Watch
from kilonova.kube.echo import Echo
from kilonova.kube.events import Reference
from kilonova.local.controllers.apps.claims import Claimer, claim, controller_reference
from kilonova.local.controllers.apps.deployment.annotations import REVISION
from kilonova.local.controllers.apps.deployment.desire import Change, Plan, desire, newest
from kilonova.local.controllers.apps.deployment.progress import not_created
from kilonova.local.controllers.apps.deployment.rolling import by_age
from kilonova.local.controllers.apps.hands import is_terminating_namespace
from kilonova.local.controllers.apps.objects import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
)
from kilonova.local.controllers.apps.selection import (
    BY_SELECTOR,
    asked_label,
    keys_of_selecting,
    selector_values,
)
from kilonova.local.controllers.apps.statuses import StatusWriter
from kilonova.local.controllers.apps.templates import same_template
from kilonova.local.controllers.indexes import (
    BY_CONTROLLER,
    add_index_once,
    controller_of,
    orphans,
    pods_by_controller,
)
from kilonova.local.controllers.objects import Pod
from kilonova.local.controllers.workshop import Workshop

NAME = "deployment-controller"
_WORKERS = 5


class DeploymentController:
    """Watches Deployments and their ReplicaSets, and pods only where Recreate waits for them."""

    def __init__(self, workshop: Workshop) -> None:
        client = self._client = workshop.account(NAME)
        self._clock = workshop.clock
        self._events = workshop.recorder(NAME)
        self._deployments = workshop.cache(DEPLOYMENTS)
        self._sets = workshop.cache(REPLICA_SETS)
        self._pods = pods_by_controller(workshop)
        add_index_once(self._deployments.store, BY_SELECTOR, selector_values)
        add_index_once(self._sets.store, BY_CONTROLLER, controller_of)
        self._set_echo = Echo(self._sets)
        self._claimer = Claimer(client, DEPLOYMENTS)
        self._statuses = StatusWriter(client, DEPLOYMENTS, Echo(self._deployments))

    def controller(self) -> Controller:
        watches = [
            Watch(self._deployments),
            Watch(self._sets, self._keys_of_set),
            Watch(self._pods, self._keys_of_pod),
        ]
        return Controller("deployments", self._reconcile, watches, workers=_WORKERS)

    def _keys_of_set(self, replica_set: ReplicaSet) -> Iterable[Key]:
        known = replica_set.metadata
        if known.controller is None:
            return keys_of_selecting(self._deployments.store, known)
        is_ours = known.controller.kind == DEPLOYMENTS.kind
        return [(known.namespace, known.controller.name)] if is_ours else []

    def _keys_of_pod(self, pod: Pod) -> Iterable[Key]:
        owner, namespace = pod.metadata.controller, pod.metadata.namespace
        if owner is None or owner.kind != REPLICA_SETS.kind:
            return []
        replica_set = self._sets.store.get((namespace, owner.name))
        deployment = replica_set.metadata.controller if replica_set is not None else None
        if deployment is None or deployment.kind != DEPLOYMENTS.kind:
            return []
        key = (namespace, deployment.name)
        found = self._deployments.store.get(key)
        return [key] if found is not None and found.spec.strategy.type == "Recreate" else []

    async def _reconcile(self, key: Key) -> Result | None:
        deployment = self._deployments.store.get(key)
        if deployment is None:
            return None
        sets = await self._claimed(deployment)
        left = self._old_pods_left(deployment, sets)
        plan = desire(deployment, sets, left, self._clock.now())
        if plan.create is not None and not await self._create(deployment, plan.create):
            return None
        await self._size(deployment, plan)
        revision = {REVISION: plan.revision} if plan.revision else None
        await self._statuses.write(deployment, plan.status, revision)
        return None if plan.after is None else Result(plan.after)

    async def _claimed(self, deployment: Deployment) -> list[ReplicaSet]:
        known, store = deployment.metadata, self._sets.store
        owned = store.find(BY_CONTROLLER, known.uid)
        free = store.find(BY_CONTROLLER, orphans(known.namespace, asked_label(deployment)))
        matches = deployment.selector.matches
        found = claim(known, [*owned, *free], lambda each: matches(each.metadata.labels))
        return await self._claimer.settle(known, found, REPLICA_SETS, self._set_echo)

    def _old_pods_left(self, deployment: Deployment, sets: list[ReplicaSet]) -> bool:
        if deployment.spec.strategy.type != "Recreate":
            return False
        new = newest(deployment, sorted(sets, key=by_age))
        find = self._pods.store.find
        old = (each.metadata.uid for each in sets if each is not new)
        return any(not pod.ended for uid in old for pod in find(BY_CONTROLLER, uid))

    async def _create(self, deployment: Deployment, wanted: ReplicaSet) -> bool:
        """Make a ReplicaSet; False where the next round has to begin with something else."""
        known = deployment.metadata
        try:
            made = await self._client.create(
                REPLICA_SETS, _body(deployment, wanted), known.namespace
            )
        except AlreadyExists:
            await self._resolve_clash(deployment, wanted)
            return False
        except ApiStatusError as error:
            if is_terminating_namespace(error):
                return False
            message = f'Failed to create new replica set "{wanted.metadata.name}": {error.message}'
            status = not_created(deployment, message, self._clock.now())
            await self._statuses.write(deployment, status)
            self._events.event(_about(deployment), "ReplicaSetCreateError", message, warning=True)
            raise
        if wanted.spec.replicas:
            self._tell_scaled(deployment, wanted, 0, wanted.spec.replicas)
        await self._set_echo.of_version(made.metadata.resource_version)
        return True

    async def _resolve_clash(self, deployment: Deployment, wanted: ReplicaSet) -> None:
        """Another ReplicaSet has the name: ours after all, or one with another template."""
        name, namespace = wanted.metadata.name, deployment.metadata.namespace
        found = await self._client.get(REPLICA_SETS, name, namespace)
        owner = found.metadata.controller
        is_ours = owner is not None and owner.uid == deployment.metadata.uid
        if is_ours and same_template(found.spec.template, deployment.spec.template):
            await self._set_echo.of_version(found.metadata.resource_version)
            return
        status = deployment.status
        count = (status.collision_count or 0) + 1
        changed = msgspec.structs.replace(status, collision_count=count)
        await self._statuses.write(deployment, changed)

    async def _size(self, deployment: Deployment, plan: Plan) -> None:
        for change in plan.changes:
            await self._change(deployment, change)
        for each in plan.remove:
            known = each.metadata
            try:
                await self._client.delete(REPLICA_SETS, known.name, known.namespace, uid=known.uid)
            except NotFound:
                continue
            await self._set_echo.of_deletion((known.namespace, known.name), known.uid)

    async def _change(self, deployment: Deployment, change: Change) -> None:
        known, spec = change.replica_set.metadata, change.replica_set.spec
        body: JsonObject = {"metadata": {"resourceVersion": known.resource_version}}
        if not change.annotations.items() <= known.annotations.items():
            body["metadata"]["annotations"] = change.annotations
        if change.replicas != spec.replicas:
            body["spec"] = {"replicas": change.replicas}
        if change.min_ready_seconds != spec.min_ready_seconds:
            body.setdefault("spec", {})["minReadySeconds"] = change.min_ready_seconds
        written = await self._client.patch(REPLICA_SETS, known.name, body, known.namespace)
        if change.replicas != spec.replicas:
            self._tell_scaled(deployment, change.replica_set, spec.replicas, change.replicas)
        await self._set_echo.of_version(written.metadata.resource_version)

    def _tell_scaled(
        self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int
    ) -> None:
        direction = "up" if before < after else "down"
        message = (
            f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {after}"
        )
        self._events.event(_about(deployment), "ScalingReplicaSet", message)


def _about(deployment: Deployment) -> Reference:
    known = deployment.metadata
    return Reference.to(DEPLOYMENTS, known.name, known.namespace, known.uid)


def _body(deployment: Deployment, wanted: ReplicaSet) -> JsonObject:
    known = wanted.metadata
    return {
        "metadata": {
            "name": known.name,
            "labels": known.labels,
            "annotations": known.annotations,
            "ownerReferences": [controller_reference(DEPLOYMENTS, deployment.metadata)],
        },
        "spec": msgspec.to_builtins(wanted.spec),
    }
