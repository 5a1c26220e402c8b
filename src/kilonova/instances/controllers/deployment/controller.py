"""The controller of InferenceEngineDeployments. A key is a deployment."""

from functools import partial

import msgspec
from msgspec.structs import replace

from kilonova.api.inference_engine import InferenceEngineDeployment
from kilonova.api.meta import Condition
from kilonova.instances.caches import BY_DEPLOYMENT
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.capacity.estimator import CapacityEstimator
from kilonova.instances.controllers.deployment.capacity.questions import CapacityQuestions
from kilonova.instances.controllers.deployment.desire import (
    DeploymentEvent,
    DeploymentPlan,
    desire,
)
from kilonova.instances.controllers.deployment.event_handlers import list_watches
from kilonova.instances.controllers.deployment.observed import ObservedDeployment
from kilonova.instances.controllers.deployment.progress import FAILURE
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    decode_revision,
)
from kilonova.instances.controllers.deployment.writer import DeploymentWriter
from kilonova.instances.resources import DEPLOYMENTS, ControllerRevision
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    Controller,
    Key,
    Result,
    Runnable,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.owner_references import is_controlled_by
from kilonova.kube.status import StatusWriter, is_condition_true, with_condition
from kilonova.scheduler.library.snapshots.live import LiveSnapshots

_WORKERS = 8
_BACKOFF = Backoff(0.005, 30.0)
"""What rejects instances, such as a quota, is not watched: that it is gone is found by retrying."""
_CREATION_FAILED = "FailedCreate"
_MAX_OBSERVATIONS = 3
"""After so many questions about capacity whose answer found other instances, wait a moment."""
_OBSERVATION_RETRY_SECONDS = 1.0

log = get_logger(__name__)


def build_deployment_controller(
    context: ControllerContext, snapshots: LiveSnapshots | None = None
) -> tuple[Runnable, ...]:
    """Build the controller, with what it needs to estimate capacity; the caches must be running.

    Without snapshots, the capacity of the cluster is not known.
    """
    estimator = None
    if snapshots is not None:
        estimator = CapacityEstimator(context, snapshots, lambda key: controller.queue.add(key))
    reconciler = _DeploymentReconciler(context, estimator)
    controller = Controller(
        "inferenceenginedeployment",
        reconciler.reconcile,
        list_watches(context.caches),
        workers=_WORKERS,
        backoff=_BACKOFF,
        runtime_metrics=context.runtime_metrics,
    )
    if snapshots is None or estimator is None:
        return (controller,)
    return (snapshots, estimator, controller)


class _DeploymentReconciler:
    def __init__(self, context: ControllerContext, estimator: CapacityEstimator | None) -> None:
        self._estimator = estimator
        self._caches = context.caches
        self._now = context.now
        self._writer = DeploymentWriter(context)
        self._status = StatusWriter(
            context.client, DEPLOYMENTS, Expectations(context.caches.deployments)
        )

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one deployment."""
        deployment = self._caches.deployments.store.get(key)
        if deployment is None or deployment.metadata.deletion_timestamp is not None:
            if self._estimator is not None:
                self._estimator.forget(key)
            return None
        found = await self._plan(key)
        if found is None:
            return Result(_OBSERVATION_RETRY_SECONDS)
        deployment, plan = found
        try:
            await self._writer.apply(deployment, plan)
        except ApiStatusError as error:
            await self._report_failure(deployment, error)
            raise
        return None if plan.requeue_after is None else Result(plan.requeue_after)

    async def _plan(self, key: Key) -> tuple[InferenceEngineDeployment, DeploymentPlan] | None:
        """What to write for a deployment; None if it keeps changing.

        Questions about capacity are answered one after the other. Instances may have changed
        meanwhile: they are observed again, so that the plan is always made of the latest state.
        """
        questions = CapacityQuestions(self._estimator)
        for _ in range(_MAX_OBSERVATIONS):
            deployment = self._caches.deployments.store.get(key)
            if deployment is None:
                return None
            plan = desire(self._observe(key, deployment, questions), self._now())
            if not await questions.answer(deployment):
                return deployment, plan
        return None

    def _observe(
        self, key: Key, deployment: InferenceEngineDeployment, questions: CapacityQuestions
    ) -> ObservedDeployment:
        caches, known = self._caches, deployment.metadata
        return ObservedDeployment(
            deployment,
            caches.releases.store.get((known.namespace, deployment.spec.release)),
            [
                each
                for each in caches.instances.store.by_index(BY_DEPLOYMENT, key)
                if is_controlled_by(each.metadata, known)
            ],
            _decode_revisions(
                [
                    each
                    for each in caches.revisions.store.by_index(BY_DEPLOYMENT, key)
                    if is_controlled_by(each.metadata, known)
                ]
            ),
            partial(questions.ask, deployment),
        )

    async def _report_failure(
        self, deployment: InferenceEngineDeployment, error: ApiStatusError
    ) -> None:
        """Report in the status why objects cannot be written. Conflicts pass by themselves."""
        if isinstance(error, Conflict):
            return
        if is_condition_true(deployment.status.conditions, FAILURE):
            # The message names an instance, and each attempt is another one: the write would cause
            # the next attempt.
            return
        failure = Condition(FAILURE, "True", _CREATION_FAILED, error.message)
        conditions = with_condition(deployment.status.conditions, failure, self._now())
        status = replace(
            deployment.status,
            observed_generation=deployment.metadata.generation,
            conditions=conditions,
        )
        written = await self._status.write(deployment, status)
        if written is not None:
            message = f"Cannot create its objects: {error.message}"
            event = DeploymentEvent(_CREATION_FAILED, message, is_warning=True)
            self._writer.record_events(deployment, [event])


def _decode_revisions(revisions: list[ControllerRevision]) -> list[DeploymentRevision]:
    """The revisions; one that cannot be read is left out, and cannot be rolled back to."""
    found: list[DeploymentRevision] = []
    for each in revisions:
        try:
            found.append(decode_revision(each))
        except msgspec.ValidationError as error:
            log.warning("revision ignored", revision=each.metadata.name, error=str(error))
    return found
