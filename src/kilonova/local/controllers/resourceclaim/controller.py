"""Creates the claims of pods from templates, and writes their names to the pods' statuses.

A claim is created before the pod's status names it. After a crash between the two it is found again
by its owner and its annotation.
"""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.resourceclaim.generation import (
    POD_CLAIM_NAME_ANNOTATION,
    build_claim,
    find_missing_claims,
    find_unreserved_claims,
    iter_claim_names,
)
from kilonova.local.controllers.resourceclaim.objects import (
    RESOURCE_CLAIMS,
    Consumer,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kilonova.local.controllers.shared.indexes import BY_CONTROLLER, index_by_controller
from kilonova.local.objects.core import PODS, Pod, PodResourceClaim
from kilonova.local.objects.indexes import add_index_once

_MANAGER = "ResourceClaimController"
_BY_CLAIM = "resource claim"
_BY_TEMPLATE = "resource claim template"
_WORKERS = 8


class ClaimGenerationController:
    """Reconciles pods with claims; others cost a check of an empty list."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        claims: Reflector[ResourceClaim],
        templates: Reflector[ResourceClaimTemplate],
        events: EventRecorder,
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._templates = templates
        self._events = events
        self._claim_writes = Expectations(claims)
        add_index_once(pods.store, _BY_CLAIM, _index_by_claims)
        add_index_once(pods.store, _BY_TEMPLATE, _index_by_templates)
        add_index_once(claims.store, BY_CONTROLLER, index_by_controller)
        watches = [
            Watch(pods, _enqueue_if_has_claims),
            Watch(claims, self._map_claim_to_pods),
            Watch(templates, self._map_template_to_pods),
        ]
        self.controller = Controller(
            "generated resource claims", self._reconcile, watches, workers=_WORKERS
        )

    def _map_claim_to_pods(self, claim: ResourceClaim) -> Iterable[Key]:
        key = (claim.metadata.namespace, claim.metadata.name)
        return [_pod_key(pod) for pod in self._pods.store.by_index(_BY_CLAIM, key)]

    def _map_template_to_pods(self, template: ResourceClaimTemplate) -> Iterable[Key]:
        key = (template.metadata.namespace, template.metadata.name)
        return [_pod_key(pod) for pod in self._pods.store.by_index(_BY_TEMPLATE, key)]

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return

        def find(name: str) -> ResourceClaim | None:
            return self._claims.store.get((pod.metadata.namespace, name))

        names: dict[str, str] = {}
        for pod_claim in find_missing_claims(pod, find):
            name = await self._generate_claim(pod, pod_claim)
            if name is None:
                return  # an event of its template enqueues the pod again
            names[pod_claim.name] = name
        try:
            if names:
                await self._write_claim_names(pod, names)
            for claim in find_unreserved_claims(pod, find):
                await self._reserve(claim, pod)
        except (NotFound, Conflict):
            return  # the pod or the claim changed or was deleted: its event follows

    async def _generate_claim(self, pod: Pod, pod_claim: PodResourceClaim) -> str | None:
        """The name of the claim; None if the template does not exist."""
        for claim in self._claims.store.by_index(BY_CONTROLLER, pod.metadata.uid):
            if claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION) == pod_claim.name:
                return claim.metadata.name
        namespace, name = pod.metadata.namespace, pod_claim.resource_claim_template_name or ""
        template = self._templates.store.get((namespace, name))
        if template is None:
            absent = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            self._record_failure(pod, pod_claim, f'resource claim template "{name}": {absent}')
            return None
        try:
            body = build_claim(pod, pod_claim, template)
            made = await self._client.create(RESOURCE_CLAIMS, body, namespace)
        except ApiStatusError as error:
            self._record_failure(pod, pod_claim, f"create ResourceClaim : {error.message}")
            raise
        await self._claim_writes.wait_for_version(made.metadata.resource_version)
        return made.metadata.name

    def _record_failure(self, pod: Pod, pod_claim: PodResourceClaim, problem: str) -> None:
        claim_names = pod.metadata
        about = ObjectReference.to(PODS, claim_names.name, claim_names.namespace, claim_names.uid)
        text = f"PodResourceClaim {pod_claim.name}: {problem}"
        self._events.event(about, "FailedResourceClaimCreation", text, warning=True)

    async def _write_claim_names(self, pod: Pod, names: dict[str, str]) -> None:
        """Write all names, since an apply removes those that it omits."""
        claim_names = {
            each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses
        }
        statuses: list[JsonObject] = [
            {"name": name, **({"resourceClaimName": claim} if claim is not None else {})}
            for name, claim in {**claim_names, **names}.items()
        ]
        await self._client.apply(
            PODS,
            pod.metadata.name,
            {
                "metadata": {"uid": pod.metadata.uid},
                "status": {"resourceClaimStatuses": statuses},
            },
            pod.metadata.namespace,
            subresource="status",
            field_manager=_MANAGER,
        )

    async def _reserve(self, claim: ResourceClaim, pod: Pod) -> None:
        consumers = [
            *claim.status.reserved_for,
            Consumer("pods", pod.metadata.name, pod.metadata.uid),
        ]
        claim_names = claim.metadata
        body: JsonObject = {
            "metadata": {"uid": claim_names.uid, "resourceVersion": claim_names.resource_version},
            "status": {"reservedFor": msgspec.to_builtins(consumers)},
        }
        await self._client.patch(
            RESOURCE_CLAIMS, claim_names.name, body, claim_names.namespace, subresource="status"
        )


def _pod_key(pod: Pod) -> Key:
    return (pod.metadata.namespace, pod.metadata.name)


def _enqueue_if_has_claims(pod: Pod) -> Iterable[Key]:
    return (_pod_key(pod),) if pod.spec.resource_claims else ()


def _index_by_claims(pod: Pod) -> Iterable[Key]:
    return [(pod.metadata.namespace, name) for name in iter_claim_names(pod)]


def _index_by_templates(pod: Pod) -> Iterable[Key]:
    return [
        (pod.metadata.namespace, pod_claim.resource_claim_template_name)
        for pod_claim in pod.spec.resource_claims
        if pod_claim.resource_claim_template_name is not None
    ]
