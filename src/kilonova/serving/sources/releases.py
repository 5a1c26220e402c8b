"""ConfigMaps of services: what of them was refused, and on a cluster with the CRD their services.

A key is a ConfigMap. What was refused, or has no effect, is written to its annotation in either
mode. Without a namespace of its own, the installation serves InferenceServices: it creates that of
the ConfigMap, which owns it, and updates it whenever the ConfigMap changes.
"""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.serving import InferenceService, names
from kilonova.kube import (
    BadRequest,
    Controller,
    Forbidden,
    Invalid,
    Key,
    NotFound,
    Reflector,
    Result,
    Runnable,
)
from kilonova.kube.controllers.controller import Watch
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.owner_references import build_owner_reference, is_controlled_by
from kilonova.serving.builders.identity import compute_hash
from kilonova.serving.context import ServingContext
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES, DataObject
from kilonova.serving.sources.config_maps import (
    CLUSTER_LABEL_SELECTOR,
    LABEL_SELECTOR,
    ServiceConfig,
    read_config_map,
)

_log = get_logger(__name__)

_RECHECK_SECONDS = 30.0
"""How often it is looked whether a name that another object has is free."""


def build_release_cache(context: ServingContext) -> Reflector[DataObject]:
    """The ConfigMaps of services. Run it before the controller."""
    namespace = context.settings.namespace
    return Reflector(
        context.client,
        CONFIG_MAPS,
        namespace or None,
        label_selector=LABEL_SELECTOR if namespace else CLUSTER_LABEL_SELECTOR,
        runtime_metrics=context.runtime_metrics,
    )


def build_release_controller(context: ServingContext, cache: Reflector[DataObject]) -> Runnable:
    """The controller, for the leader."""
    reconciler = _ReleaseReconciler(context, cache)
    watches: list[Watch[Any]] = [Watch(cache)]
    if not context.settings.namespace:
        watches.append(Watch(context.caches.services, _list_owners))
    return Controller(
        "servicerelease",
        reconciler.reconcile,
        watches,
        runtime_metrics=context.runtime_metrics,
    )


def _list_owners(service: InferenceService) -> list[Key]:
    """The ConfigMap that a service was created from."""
    owner = service.metadata.controller
    if owner is None or owner.kind != CONFIG_MAPS.kind:
        return []
    return [(service.metadata.namespace, owner.name)]


class _ReleaseReconciler:
    def __init__(self, context: ServingContext, cache: Reflector[DataObject]) -> None:
        self._context = context
        self._cache = cache

    async def reconcile(self, key: Key) -> Result | None:
        """Reconcile one ConfigMap."""
        release = self._cache.store.get(key)
        if release is None or release.metadata.deletion_timestamp is not None:
            return None
        namespace, name = key
        settings = self._context.settings
        config = read_config_map(
            release.data,
            name,
            namespace,
            settings.prometheus_url,
            namespaced=bool(settings.namespace),
        )
        problem = ""
        if config.spec is not None and not settings.namespace:
            problem = await self._apply_service(release, config)
        await self._annotate(release.metadata, config, problem)
        return Result(_RECHECK_SECONDS) if problem else None

    async def _apply_service(self, release: DataObject, config: ServiceConfig) -> str:
        """Create or update the service; returns why that is not possible."""
        known = release.metadata
        live = self._context.caches.services.store.get((known.namespace, known.name))
        applied = compute_hash(config.spec)
        if live is not None:
            if not is_controlled_by(live.metadata, known):
                return (
                    f"InferenceService {known.name} exists already, and is not of this ConfigMap: "
                    "delete it, or choose another name"
                )
            if live.metadata.annotations.get(names.APPLIED_HASH) == applied:
                return ""
        body: JsonObject = {
            "metadata": {
                "labels": dict(config.labels),
                "annotations": {names.APPLIED_HASH: applied},
                "ownerReferences": [build_owner_reference(CONFIG_MAPS, known)],
            },
            "spec": config.spec,
        }
        try:
            await self._context.client.apply(INFERENCE_SERVICES, known.name, body, known.namespace)
        except (Invalid, BadRequest, Forbidden) as error:
            return error.message
        return ""

    async def _annotate(self, known: Metadata, config: ServiceConfig, problem: str) -> None:
        """Say in the annotation, and once in the log, what was refused and what has no effect."""
        problems = [*config.problems, *([problem] if problem else [])]
        text = msgspec.json.encode({"problems": problems, "warnings": config.warnings}).decode()
        if known.annotations.get(names.SERVICE_CONVERSION) == text:
            return
        place = f"{known.namespace}/{known.name}"
        for each in problems:
            _log.error("service configuration refused", configmap=place, problem=each)
        for each in config.warnings:
            _log.warning("service configuration without effect", configmap=place, warning=each)
        patch = {"metadata": {"uid": known.uid, "annotations": {names.SERVICE_CONVERSION: text}}}
        try:
            await self._context.client.patch(CONFIG_MAPS, known.name, patch, known.namespace)
        except NotFound:
            return
