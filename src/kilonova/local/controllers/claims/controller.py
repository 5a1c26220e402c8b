"""Makes the claims that pods want from templates, and tells the pods their names.

A claim is created before the pod's status names it. A crash between the two is mended by looking
for it: it carries its owner and the name under which the pod knows it.
"""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import ApiStatusError, Client, Conflict, Controller, NotFound, Reflector, Watch
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.identity import Key
from kilonova.local.controllers.claims.generation import (
    ANNOTATION,
    claim_names,
    generated_claim,
    missing_claims,
    unreserved,
)
from kilonova.local.controllers.claims.objects import CLAIMS, Claim, Consumer, Template
from kilonova.local.controllers.indexes import BY_CONTROLLER, add_index_once, controller_of
from kilonova.local.controllers.objects import PODS, Pod, PodResourceClaim

_MANAGER = "ResourceClaimController"
_BY_CLAIM = "resource claim"
_BY_TEMPLATE = "resource claim template"
_WORKERS = 8


class GeneratedClaims:
    """Works on pods that name claims; others cost a look at an empty list."""

    def __init__(
        self,
        client: Client,
        pods: Reflector[Pod],
        claims: Reflector[Claim],
        templates: Reflector[Template],
        events: Recorder,
    ) -> None:
        self._client = client
        self._pods = pods
        self._claims = claims
        self._templates = templates
        self._events = events
        self._echo = Echo(claims)
        add_index_once(pods.store, _BY_CLAIM, _keys_of_claims)
        add_index_once(pods.store, _BY_TEMPLATE, _keys_of_templates)
        add_index_once(claims.store, BY_CONTROLLER, controller_of)
        watches = [
            Watch(pods, _with_claims),
            Watch(claims, self._users),
            Watch(templates, self._waiting),
        ]
        self.controller = Controller(
            "generated resource claims", self._reconcile, watches, workers=_WORKERS
        )

    def _users(self, claim: Claim) -> Iterable[Key]:
        key = (claim.metadata.namespace, claim.metadata.name)
        return [_key(pod) for pod in self._pods.store.find(_BY_CLAIM, key)]

    def _waiting(self, template: Template) -> Iterable[Key]:
        key = (template.metadata.namespace, template.metadata.name)
        return [_key(pod) for pod in self._pods.store.find(_BY_TEMPLATE, key)]

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.store.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return

        def find(name: str) -> Claim | None:
            return self._claims.store.get((pod.metadata.namespace, name))

        names: dict[str, str] = {}
        for wanted in missing_claims(pod, find):
            name = await self._generate(pod, wanted)
            if name is None:
                return  # its template will wake the pod again
            names[wanted.name] = name
        try:
            if names:
                await self._tell(pod, names)
            for claim in unreserved(pod, find):
                await self._reserve(claim, pod)
        except (NotFound, Conflict):
            return  # one of them changed or went, which is an event of its own

    async def _generate(self, pod: Pod, wanted: PodResourceClaim) -> str | None:
        """The name of the claim; None where there is no template to make it from."""
        for claim in self._claims.store.find(BY_CONTROLLER, pod.metadata.uid):
            if claim.metadata.annotations.get(ANNOTATION) == wanted.name:
                return claim.metadata.name
        namespace, name = pod.metadata.namespace, wanted.resource_claim_template_name or ""
        template = self._templates.store.get((namespace, name))
        if template is None:
            absent = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
            self._complain(pod, wanted, f'resource claim template "{name}": {absent}')
            return None
        try:
            body = generated_claim(pod, wanted, template)
            made = await self._client.create(CLAIMS, body, namespace)
        except ApiStatusError as error:
            self._complain(pod, wanted, f"create ResourceClaim : {error.message}")
            raise
        await self._echo.of_version(made.metadata.resource_version)
        return made.metadata.name

    def _complain(self, pod: Pod, wanted: PodResourceClaim, why: str) -> None:
        known = pod.metadata
        about = Reference.to(PODS, known.name, known.namespace, known.uid)
        text = f"PodResourceClaim {wanted.name}: {why}"
        self._events.event(about, "FailedResourceClaimCreation", text, warning=True)

    async def _tell(self, pod: Pod, names: dict[str, str]) -> None:
        """Write all names, since what an apply leaves out is taken away."""
        known = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
        statuses: list[JsonObject] = [
            {"name": name, **({"resourceClaimName": claim} if claim is not None else {})}
            for name, claim in {**known, **names}.items()
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
            manager=_MANAGER,
        )

    async def _reserve(self, claim: Claim, pod: Pod) -> None:
        consumers = [
            *claim.status.reserved_for,
            Consumer("pods", pod.metadata.name, pod.metadata.uid),
        ]
        known = claim.metadata
        body: JsonObject = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": {"reservedFor": msgspec.to_builtins(consumers)},
        }
        await self._client.patch(CLAIMS, known.name, body, known.namespace, subresource="status")


def _key(pod: Pod) -> Key:
    return (pod.metadata.namespace, pod.metadata.name)


def _with_claims(pod: Pod) -> Iterable[Key]:
    return (_key(pod),) if pod.spec.resource_claims else ()


def _keys_of_claims(pod: Pod) -> Iterable[Key]:
    return [(pod.metadata.namespace, name) for name in claim_names(pod)]


def _keys_of_templates(pod: Pod) -> Iterable[Key]:
    return [
        (pod.metadata.namespace, wanted.resource_claim_template_name)
        for wanted in pod.spec.resource_claims
        if wanted.resource_claim_template_name is not None
    ]
