"""Which deployments to reconcile after a change of another object."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.inference_engine import InferenceEngineInstance, Release
from kilonova.instances.caches import Caches, list_deployment_keys
from kilonova.instances.resources import ControllerRevision
from kilonova.kube import ChangeWatch, Key, Watch


def list_watches(caches: Caches) -> list[Watch[Any] | ChangeWatch[Any]]:
    """The watches of the controller."""

    def map_release(release: Release) -> Iterator[Key]:
        """The deployments that name a release."""
        known = release.metadata
        store = caches.deployments.store
        for each in store.objects():
            if (each.metadata.namespace, each.spec.release) == (known.namespace, known.name):
                yield store.key_of(each)

    return [
        Watch(caches.deployments),
        Watch(caches.instances, _map_instance),
        Watch(caches.revisions, _map_revision),
        Watch(caches.releases, map_release),
    ]


def _map_instance(instance: InferenceEngineInstance) -> Iterator[Key]:
    return list_deployment_keys(instance.metadata)


def _map_revision(revision: ControllerRevision) -> Iterator[Key]:
    return list_deployment_keys(revision.metadata)
