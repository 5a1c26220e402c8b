"""The Deployment controller."""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, ApiStatusError, Controller, Key, NotFound, Result, Watch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import ObjectReference
from kilonova.local.controllers.apps.controller_refs import (
    ControllerRefManager,
    build_controller_reference,
    match_controlled_objects,
)
from kilonova.local.controllers.apps.deployment.annotations import REVISION_ANNOTATION
from kilonova.local.controllers.apps.deployment.desire import (
    DeploymentPlan,
    ReplicaSetChange,
    desire,
    find_new_replica_set,
)
from kilonova.local.controllers.apps.deployment.progress import build_create_error_status
from kilonova.local.controllers.apps.deployment.rolling_update import creation_order
from kilonova.local.controllers.apps.objects import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
)
from kilonova.local.controllers.apps.pod_control import is_namespace_terminating_error
from kilonova.local.controllers.apps.selector_index import (
    BY_SELECTOR,
    find_selecting_keys,
    first_match_label,
    index_by_selector,
)
from kilonova.local.controllers.apps.status_writer import WorkloadStatusWriter
from kilonova.local.controllers.apps.templates import is_same_template
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.shared.indexes import (
    BY_CONTROLLER,
    index_by_controller,
    orphan_index_key,
    pods_by_controller,
)
from kilonova.local.objects.core import Pod
from kilonova.local.objects.indexes import add_index_once

NAME = "deployment-controller"
_WORKERS = 5


class DeploymentController:
    """Watches Deployments and their ReplicaSets, and pods for strategy Recreate."""

    def __init__(self, context: ControllerContext) -> None:
        client = self._client = context.client_for(NAME)
        self._clock = context.clock
        self._events = context.recorder(NAME)
        self._deployments = context.informer(DEPLOYMENTS)
        self._sets = context.informer(REPLICA_SETS)
        self._pods = pods_by_controller(context)
        add_index_once(self._deployments.store, BY_SELECTOR, index_by_selector)
        add_index_once(self._sets.store, BY_CONTROLLER, index_by_controller)
        self._set_writes = Expectations(self._sets)
        self._claimer = ControllerRefManager(client, DEPLOYMENTS)
        self._status_writer = WorkloadStatusWriter(
            client, DEPLOYMENTS, Expectations(self._deployments)
        )

    def controller(self) -> Controller:
        watches = [
            Watch(self._deployments),
            Watch(self._sets, self._map_replica_set),
            Watch(self._pods, self._map_pod),
        ]
        return Controller("deployments", self._reconcile, watches, workers=_WORKERS)

    def _map_replica_set(self, replica_set: ReplicaSet) -> Iterable[Key]:
        metadata = replica_set.metadata
        if metadata.controller is None:
            return find_selecting_keys(self._deployments.store, metadata)
        is_ours = metadata.controller.kind == DEPLOYMENTS.kind
        return [(metadata.namespace, metadata.controller.name)] if is_ours else []

    def _map_pod(self, pod: Pod) -> Iterable[Key]:
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
        sets = await self._claim_replica_sets(deployment)
        left = self._has_old_pods(deployment, sets)
        plan = desire(deployment, sets, left, self._clock.now())
        if plan.create is not None and not await self._create_replica_set(deployment, plan.create):
            return None
        await self._scale_and_clean_up(deployment, plan)
        revision = {REVISION_ANNOTATION: plan.revision} if plan.revision else None
        await self._status_writer.write(deployment, plan.status, revision)
        return None if plan.requeue_after is None else Result(plan.requeue_after)

    async def _claim_replica_sets(self, deployment: Deployment) -> list[ReplicaSet]:
        metadata, store = deployment.metadata, self._sets.store
        owned = store.by_index(BY_CONTROLLER, metadata.uid)
        free = store.by_index(
            BY_CONTROLLER, orphan_index_key(metadata.namespace, first_match_label(deployment))
        )
        matches = deployment.selector.matches
        found = match_controlled_objects(
            metadata, [*owned, *free], lambda each: matches(each.metadata.labels)
        )
        return await self._claimer.adopt_and_release(
            metadata, found, REPLICA_SETS, self._set_writes
        )

    def _has_old_pods(self, deployment: Deployment, sets: list[ReplicaSet]) -> bool:
        if deployment.spec.strategy.type != "Recreate":
            return False
        new = find_new_replica_set(deployment, sorted(sets, key=creation_order))
        find = self._pods.store.by_index
        old = (each.metadata.uid for each in sets if each is not new)
        return any(not pod.is_terminal for uid in old for pod in find(BY_CONTROLLER, uid))

    async def _create_replica_set(self, deployment: Deployment, desired: ReplicaSet) -> bool:
        """Create a ReplicaSet; False if the reconcile has to be repeated."""
        metadata = deployment.metadata
        try:
            made = await self._client.create(
                REPLICA_SETS, _build_replica_set(deployment, desired), metadata.namespace
            )
        except AlreadyExists:
            await self._resolve_name_collision(deployment, desired)
            return False
        except ApiStatusError as error:
            if is_namespace_terminating_error(error):
                return False
            message = f'Failed to create new replica set "{desired.metadata.name}": {error.message}'
            status = build_create_error_status(deployment, message, self._clock.now())
            await self._status_writer.write(deployment, status)
            self._events.event(
                _object_reference(deployment), "ReplicaSetCreateError", message, warning=True
            )
            raise
        if desired.spec.replicas:
            self._record_scaling(deployment, desired, 0, desired.spec.replicas)
        await self._set_writes.wait_for_version(made.metadata.resource_version)
        return True

    async def _resolve_name_collision(self, deployment: Deployment, desired: ReplicaSet) -> None:
        """Another ReplicaSet has the name: it is ours after all, or has another template."""
        name, namespace = desired.metadata.name, deployment.metadata.namespace
        found = await self._client.get(REPLICA_SETS, name, namespace)
        owner = found.metadata.controller
        is_ours = owner is not None and owner.uid == deployment.metadata.uid
        if is_ours and is_same_template(found.spec.template, deployment.spec.template):
            await self._set_writes.wait_for_version(found.metadata.resource_version)
            return
        status = deployment.status
        count = (status.collision_count or 0) + 1
        changed = msgspec.structs.replace(status, collision_count=count)
        await self._status_writer.write(deployment, changed)

    async def _scale_and_clean_up(self, deployment: Deployment, plan: DeploymentPlan) -> None:
        for change in plan.changes:
            await self._apply_change(deployment, change)
        for each in plan.remove:
            metadata = each.metadata
            try:
                await self._client.delete(
                    REPLICA_SETS, metadata.name, metadata.namespace, uid=metadata.uid
                )
            except NotFound:
                continue
            await self._set_writes.wait_for_deletion(
                (metadata.namespace, metadata.name), metadata.uid
            )

    async def _apply_change(self, deployment: Deployment, change: ReplicaSetChange) -> None:
        metadata, spec = change.replica_set.metadata, change.replica_set.spec
        body: JsonObject = {"metadata": {"resourceVersion": metadata.resource_version}}
        if not change.annotations.items() <= metadata.annotations.items():
            body["metadata"]["annotations"] = change.annotations
        if change.replicas != spec.replicas:
            body["spec"] = {"replicas": change.replicas}
        if change.min_ready_seconds != spec.min_ready_seconds:
            body.setdefault("spec", {})["minReadySeconds"] = change.min_ready_seconds
        written = await self._client.patch(REPLICA_SETS, metadata.name, body, metadata.namespace)
        if change.replicas != spec.replicas:
            self._record_scaling(deployment, change.replica_set, spec.replicas, change.replicas)
        await self._set_writes.wait_for_version(written.metadata.resource_version)

    def _record_scaling(
        self, deployment: Deployment, replica_set: ReplicaSet, before: int, after: int
    ) -> None:
        direction = "up" if before < after else "down"
        message = (
            f"Scaled {direction} replica set {replica_set.metadata.name} from {before} to {after}"
        )
        self._events.event(_object_reference(deployment), "ScalingReplicaSet", message)


def _object_reference(deployment: Deployment) -> ObjectReference:
    metadata = deployment.metadata
    return ObjectReference.to(DEPLOYMENTS, metadata.name, metadata.namespace, metadata.uid)


def _build_replica_set(deployment: Deployment, desired: ReplicaSet) -> JsonObject:
    metadata = desired.metadata
    return {
        "metadata": {
            "name": metadata.name,
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "ownerReferences": [build_controller_reference(DEPLOYMENTS, deployment.metadata)],
        },
        "spec": msgspec.to_builtins(desired.spec),
    }
