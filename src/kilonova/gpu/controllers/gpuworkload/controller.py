"""The GPUWorkload controller. A key is a workload."""

import dataclasses

from msgspec.structs import replace

from kilonova.api.kgwe import GPUWorkload, names
from kilonova.api.meta import Condition
from kilonova.gpu.controllers.caches import BY_WORKLOAD
from kilonova.gpu.controllers.context import ControllerContext
from kilonova.gpu.controllers.gpuworkload.affinity import (
    PodKey,
    ReferencedPod,
    list_referenced_pods,
)
from kilonova.gpu.controllers.gpuworkload.desire import (
    WorkloadEvent,
    WorkloadPlan,
    desire,
)
from kilonova.gpu.controllers.gpuworkload.event_handlers import (
    NODES_CHANGED,
    WorkloadEventHandlers,
)
from kilonova.gpu.controllers.gpuworkload.observed import ObservedWorkload
from kilonova.gpu.controllers.gpuworkload.writer import WorkloadWriter
from kilonova.gpu.controllers.node_devices import DevicesOfNode, fits_on_idle_node
from kilonova.gpu.controllers.resources import PODS, WORKLOADS
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    Controller,
    Key,
    NotFound,
    Result,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import NameTaken
from kilonova.kube.status import StatusWriter, find_condition, with_condition
from kilonova.scheduler.core.gpu.layout import GpuLayout
from kilonova.scheduler.core.model.requests import Shape

_WORKERS = 16
_BACKOFF = Backoff(0.005, 30.0)
"""What rejects pods, such as a quota, is not watched: that it is gone is found by retrying."""
CREATION_FAILED = "CreationFailed"


def build_workload_controller(context: ControllerContext) -> Controller:
    """Build the controller; the caches must be running."""
    handlers = WorkloadEventHandlers(context.caches, context.devices)
    reconciler = _WorkloadReconciler(context)

    async def reconcile(key: Key) -> Result | None:
        if key != NODES_CHANGED:
            return await reconciler.reconcile(key)
        for waiting in handlers.list_waiting():
            controller.queue.add(waiting)
        return None

    controller = Controller(
        "gpuworkload",
        reconcile,
        handlers.list_watches(),
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )
    return controller


class _WorkloadReconciler:
    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._caches = context.caches
        self._settings = context.settings
        self._devices = context.devices
        self._now = context.now
        self._writer = WorkloadWriter(context)
        self._status = StatusWriter(
            context.client, WORKLOADS, Expectations(context.caches.workloads)
        )

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one workload."""
        workload = self._caches.workloads.store.get(key)
        if workload is None or workload.metadata.deletion_timestamp is not None:
            return None
        observed = await self._observe(key, workload)
        plan = desire(observed, self._now(), self._settings)
        try:
            await self._writer.apply(observed, plan)
        except (ApiStatusError, NameTaken) as error:
            await self._report_failure(workload, plan, error)
            raise
        return None if plan.requeue_after is None else Result(plan.requeue_after)

    async def _observe(self, key: Key, workload: GPUWorkload) -> ObservedWorkload:
        caches, (namespace, name) = self._caches, key
        pods = caches.pods.store.by_index(BY_WORKLOAD, key)
        layouts: dict[Shape, set[GpuLayout]] = {}

        def fits(shape: Shape, amount: int) -> bool:
            if shape.gpu is None:
                return False
            if shape not in layouts:
                nodes = caches.nodes.store.objects()
                layouts[shape] = self._devices.find_layouts(nodes, shape)
            request = dataclasses.replace(shape.gpu, count=amount)
            return any(fits_on_idle_node(each, request) for each in layouts[shape])

        return ObservedWorkload(
            workload,
            pods,
            caches.gangs.store.get((namespace, names.gang(name))),
            caches.services.store.get((namespace, names.service(name))),
            self._read_devices,
            fits,
            await self._find_referenced_pods(workload),
        )

    def _read_devices(self, name: str) -> DevicesOfNode | None:
        node = self._caches.nodes.store.get(("", name))
        return None if node is None else self._devices.read(node)

    async def _find_referenced_pods(self, workload: GPUWorkload) -> dict[PodKey, ReferencedPod]:
        """The pods that constraints name; only needed before pods are created."""
        if workload.status.phase != "Pending":
            return {}
        found: dict[PodKey, ReferencedPod] = {}
        namespace = workload.metadata.namespace
        for key in sorted(list_referenced_pods(workload.spec.constraints, namespace)):
            try:
                pod = await self._client.get(PODS, key[1], key[0])
            except NotFound:
                found[key] = ReferencedPod(exists=False)
            else:
                found[key] = ReferencedPod(exists=True, node=pod.spec.node_name)
        return found

    async def _report_failure(
        self, workload: GPUWorkload, plan: WorkloadPlan, error: Exception
    ) -> None:
        """Report in the status why objects cannot be written. Conflicts pass by themselves."""
        if plan.status_first or isinstance(error, Conflict):
            return
        message = error.message if isinstance(error, ApiStatusError) else str(error)
        old = find_condition(workload.status.conditions, "Scheduled")
        if old is not None and (old.reason, old.message) == (CREATION_FAILED, message):
            return
        condition = Condition("Scheduled", "False", CREATION_FAILED, message)
        conditions = with_condition(workload.status.conditions, condition, self._now())
        await self._status.write(workload, replace(workload.status, conditions=conditions))
        event = WorkloadEvent(CREATION_FAILED, f"Cannot create its objects: {message}", True)
        self._writer.record_events(workload, (event,))
