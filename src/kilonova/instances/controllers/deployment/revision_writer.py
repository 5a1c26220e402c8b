"""Writes the revisions of deployments as ControllerRevisions."""

from collections.abc import Iterable

from kilonova.api.inference_engine import InferenceEngineDeployment
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    build_controller_revision,
)
from kilonova.kube.controllers.controller_revisions import ControllerRevisionWriter
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.owner_references import is_controlled_by


class RevisionWriter:
    """Writes revisions; each write waits until the cache shows it."""

    def __init__(self, context: ControllerContext) -> None:
        cache = context.caches.revisions
        self._store = cache.store
        self._writer = ControllerRevisionWriter(context.client, Expectations(cache))

    async def record(
        self, deployment: InferenceEngineDeployment, revision: DeploymentRevision
    ) -> None:
        """Create a revision, or give a recorded one its new number."""
        known = deployment.metadata
        present = self._store.get((known.namespace, revision.name))
        if present is None or not is_controlled_by(present.metadata, known):
            body = build_controller_revision(deployment, revision)
            await self._writer.create(body, known.namespace)
        else:
            await self._writer.renumber(present, revision.number)

    async def forget(
        self, deployment: InferenceEngineDeployment, revisions: Iterable[DeploymentRevision]
    ) -> None:
        """Delete revisions."""
        for each in revisions:
            present = self._store.get((deployment.metadata.namespace, each.name))
            if present is not None:
                await self._writer.delete(present)
