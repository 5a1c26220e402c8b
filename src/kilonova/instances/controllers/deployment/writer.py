"""Writes what differs between a deployment's instances and what they should be.

Every write waits until the caches show it, so that the next plan is made from what was written. A
crash between any two writes is harmless: the next plan goes on from what exists.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kilonova.api.inference_engine import InferenceEngineDeployment, InferenceEngineInstance
from kilonova.api.json import JsonObject
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.desire import DeploymentEvent, DeploymentPlan
from kilonova.instances.controllers.deployment.instance_builder import build_instance
from kilonova.instances.controllers.deployment.instance_state import InstanceState
from kilonova.instances.controllers.deployment.revision_writer import RevisionWriter
from kilonova.instances.resources import DEPLOYMENTS, INSTANCES
from kilonova.kube import Conflict, ConnectionFailed, NotFound
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart, raise_first_failure
from kilonova.kube.events import ObjectReference
from kilonova.kube.status import StatusWriter


class DeploymentWriter:
    """Executes plans."""

    def __init__(self, context: ControllerContext) -> None:
        caches = context.caches
        self._client = context.client
        self._recorder = context.recorder
        self._new_id: Callable[[], str] = context.new_id
        self._instances = Expectations(caches.instances)
        self._revisions = RevisionWriter(context)
        self._status = StatusWriter(context.client, DEPLOYMENTS, Expectations(caches.deployments))
        self._slow_start = SlowStart(context.monotonic)

    async def apply(self, deployment: InferenceEngineDeployment, plan: DeploymentPlan) -> None:
        """Write a plan; raises the first error, after which the next plan goes on."""
        if plan.record is not None:
            await self._revisions.record(deployment, plan.record)
        await self._delete_instances(deployment, plan.delete)
        if plan.create and plan.revision is not None:
            bodies = [
                build_instance(deployment, plan.revision, self._new_id())
                for _ in range(plan.create)
            ]
            await self._create_instances(deployment, bodies)
        await self._status.write(deployment, plan.status)
        await self._revisions.forget(deployment, plan.forget)
        self.record_events(deployment, plan.events)

    def record_events(
        self, deployment: InferenceEngineDeployment, events: Iterable[DeploymentEvent]
    ) -> None:
        """Record events about a deployment."""
        known = deployment.metadata
        reference = ObjectReference.to(DEPLOYMENTS, known.name, known.namespace, known.uid)
        for each in events:
            self._recorder.event(reference, each.reason, each.message, warning=each.is_warning)

    async def _delete_instances(
        self, deployment: InferenceEngineDeployment, states: Sequence[InstanceState]
    ) -> None:
        calls = (self._delete_instance(deployment, each) for each in states)
        raise_first_failure(await asyncio.gather(*calls, return_exceptions=True))

    async def _delete_instance(
        self, deployment: InferenceEngineDeployment, state: InstanceState
    ) -> None:
        """Delete an instance; its object stays until its pods are gone, so that it is seen how long
        it has accelerators."""
        known = state.instance.metadata
        try:
            await self._client.delete(
                INSTANCES,
                known.name,
                known.namespace,
                uid=known.uid,
                propagation_policy="Foreground",
            )
        except (NotFound, Conflict):
            return  # gone, or another instance of that name
        await self._instances.wait_for_deletion((known.namespace, known.name), known.uid)
        why = f"{state.summary}, {'updated' if state.is_updated else 'outdated'}"
        message = f"Deleted instance {known.name} ({why})"
        self.record_events(deployment, [DeploymentEvent("SuccessfulDelete", message)])

    async def _create_instances(
        self, deployment: InferenceEngineDeployment, bodies: Sequence[JsonObject]
    ) -> None:
        created: list[InferenceEngineInstance] = []
        calls = [partial(self._create_instance, deployment, body, created) for body in bodies]
        try:
            await self._slow_start.run(deployment.metadata.uid, calls)
        finally:
            versions = [int(each.metadata.resource_version) for each in created]
            if versions:
                await self._instances.wait_for_version(str(max(versions)))

    async def _create_instance(
        self,
        deployment: InferenceEngineDeployment,
        body: JsonObject,
        created: list[InferenceEngineInstance],
    ) -> None:
        name, namespace = body["metadata"]["name"], deployment.metadata.namespace
        try:
            instance = await self._client.create(INSTANCES, body, namespace)
        except ConnectionFailed:
            # The answer may be lost, and the instance exist: the next plan must count it.
            instance = await self._client.get(INSTANCES, name, namespace)
        created.append(instance)
        message = f"Created instance {name}"
        self.record_events(deployment, [DeploymentEvent("SuccessfulCreate", message)])
