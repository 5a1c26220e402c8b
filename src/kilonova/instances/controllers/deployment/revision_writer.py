"""Writes the revisions of deployments as ControllerRevisions."""

from collections.abc import Iterable

from kilonova.api.inference_engine import InferenceEngineDeployment
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    build_controller_revision,
)
from kilonova.instances.resources import CONTROLLER_REVISIONS, ControllerRevision
from kilonova.kube import AlreadyExists, Conflict, NotFound
from kilonova.kube.controllers.expectations import Expectations


class RevisionWriter:
    """Writes revisions; each write waits until the cache shows it."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._store = context.caches.revisions.store
        self._expectations = Expectations(context.caches.revisions)

    async def record(
        self, deployment: InferenceEngineDeployment, revision: DeploymentRevision
    ) -> None:
        """Create a revision, or give a recorded one its new number."""
        present = self._store.get((deployment.metadata.namespace, revision.name))
        owner = None if present is None else present.metadata.controller
        if present is None or owner is None or owner.uid != deployment.metadata.uid:
            await self._create(deployment, revision)
        else:
            await self._renumber(present, revision.number)

    async def forget(
        self, deployment: InferenceEngineDeployment, revisions: Iterable[DeploymentRevision]
    ) -> None:
        """Delete revisions."""
        for each in revisions:
            present = self._store.get((deployment.metadata.namespace, each.name))
            if present is not None:
                await self._delete(present)

    async def _create(
        self, deployment: InferenceEngineDeployment, revision: DeploymentRevision
    ) -> None:
        body = build_controller_revision(deployment, revision)
        namespace = deployment.metadata.namespace
        try:
            created = await self._client.create(CONTROLLER_REVISIONS, body, namespace)
        except AlreadyExists:
            # Left by an earlier deployment of this name, or created by a request whose answer was
            # lost.
            leftover = await self._client.get(CONTROLLER_REVISIONS, revision.name, namespace)
            await self._delete(leftover)
            created = await self._client.create(CONTROLLER_REVISIONS, body, namespace)
        await self._expectations.wait_for_version(created.metadata.resource_version)

    async def _renumber(self, revision: ControllerRevision, number: int) -> None:
        known = revision.metadata
        body = {"metadata": {"uid": known.uid}, "revision": number}
        changed = await self._client.patch(CONTROLLER_REVISIONS, known.name, body, known.namespace)
        await self._expectations.wait_for_version(changed.metadata.resource_version)

    async def _delete(self, revision: ControllerRevision) -> None:
        known = revision.metadata
        try:
            await self._client.delete(
                CONTROLLER_REVISIONS, known.name, known.namespace, uid=known.uid
            )
        except (NotFound, Conflict):
            return  # gone, or another one of that name
        await self._expectations.wait_for_deletion((known.namespace, known.name), known.uid)
