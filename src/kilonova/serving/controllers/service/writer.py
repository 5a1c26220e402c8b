"""Writes what differs between the objects of a service and what they should be.

Every write is idempotent and waits until the caches show it; a crash between any two is harmless:
the next plan goes on from what exists. What one object is refused for does not keep others from
being written.
"""

from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService, names
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    Conflict,
    NotFound,
    Reflector,
    Resource,
)
from kilonova.kube.client.merge_patch import needs_patch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.owned_objects import NameTaken
from kilonova.kube.owner_references import is_controlled_by
from kilonova.serving.builders.identity import compute_hash
from kilonova.serving.context import ServingContext
from kilonova.serving.controllers.service.desire import DesiredObject, ServicePlan
from kilonova.serving.controllers.service.observed import LiveObject, Problem
from kilonova.serving.resources import CLAIMS

_NOUN = "service"


@dataclass(slots=True)
class WriteOutcome:
    """What could not be written."""

    problems: list[Problem] = field(default_factory=list[Problem])
    error: ApiStatusError | None = None
    """The first error that is to be retried."""

    def add_failure(self, resource: Resource[Any], name: str, error: ApiStatusError) -> None:
        """An object was refused. Conflicts pass by themselves, and are only retried."""
        self.error = self.error or error
        if not isinstance(error, Conflict):
            message = f"{resource.kind} {name} cannot be written: {error.message}"
            self.problems.append(Problem("FailedCreate", message))


@dataclass(frozen=True, slots=True)
class _Kind:
    cache: Reflector[Any]
    expectations: Expectations[Any]


class ServiceWriter:
    """Executes plans, except for the status."""

    def __init__(self, context: ServingContext) -> None:
        caches = context.caches
        self._client = context.client
        self._recorder = context.recorder
        self._refer_to = context.refer_to
        self._kinds = [
            _Kind(each, Expectations(each))
            for each in (
                caches.server_sets,
                caches.deployments,
                caches.gateway_services,
                caches.gateway_secrets,
                caches.config_maps,
                *caches.others,
            )
        ]

    async def apply(self, service: InferenceService, plan: ServicePlan) -> WriteOutcome:
        """Write a plan."""
        outcome = WriteOutcome()
        for claim in plan.claims:
            try:
                await self._create_claim(service, claim)
            except ApiStatusError as error:
                outcome.add_failure(CLAIMS, claim["metadata"]["name"], error)
        for each in plan.objects:
            try:
                await self._apply(service, each)
            except NameTaken as error:
                outcome.problems.append(Problem("NameTaken", str(error)))
            except ApiStatusError as error:
                if isinstance(error, NotFound) and each.if_missing is not None:
                    outcome.problems.append(each.if_missing)
                else:
                    outcome.add_failure(each.resource, each.name, error)
        for each in plan.delete:
            await self._delete(service, each)
        return outcome

    def record_event(
        self, service: InferenceService, reason: str, message: str, *, is_warning: bool = False
    ) -> None:
        """Record an event about a service."""
        reference = self._refer_to(service)
        self._recorder.event(reference, reason, message, warning=is_warning)

    async def _apply(self, service: InferenceService, wanted: DesiredObject) -> None:
        resource, owner = wanted.resource, service.metadata
        kind = self._find_kind(wanted)
        live = kind.cache.store.get((owner.namespace, wanted.name))
        if live is None:
            live = await self._get(resource, wanted.name, owner.namespace)
        if live is not None and not is_controlled_by(live.metadata, owner):
            raise NameTaken(resource.kind, wanted.name, _NOUN)
        body = _stamp(wanted, live)
        if live is not None and _is_current(live, body):
            return
        written = await self._client.apply(resource, wanted.name, body, owner.namespace)
        if live is None:
            message = f"Created {resource.kind} {wanted.name}"
            self.record_event(service, "SuccessfulCreate", message)
        if wanted.if_missing is None:
            # The cache of a kind that the cluster may lack may not have found it yet.
            await kind.expectations.wait_for_version(written.metadata.resource_version)

    async def _delete(self, service: InferenceService, unwanted: LiveObject) -> None:
        known, resource = unwanted.metadata, unwanted.resource
        try:
            await self._client.delete(resource, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return  # gone, or another object of that name
        message = f"Deleted {resource.kind} {known.name}"
        self.record_event(service, "SuccessfulDelete", message)
        kind = next(each for each in self._kinds if each.cache.resource is resource)
        await kind.expectations.wait_for_deletion((known.namespace, known.name), known.uid)

    async def _create_claim(self, service: InferenceService, claim: JsonObject) -> None:
        namespace, name = service.metadata.namespace, claim["metadata"]["name"]
        if await self._get(CLAIMS, name, namespace) is None:
            try:
                await self._client.create(CLAIMS, claim, namespace)
            except AlreadyExists:
                return

    async def _get(self, resource: Resource[Any], name: str, namespace: str) -> Any:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None

    def _find_kind(self, wanted: DesiredObject) -> _Kind:
        """The cache that has an object."""
        found = [each for each in self._kinds if each.cache.resource is wanted.resource]
        # In the namespaced mode servers and gateways are Deployments, in caches of their own.
        is_of_servers = names.SERVER in wanted.body["metadata"]["labels"]
        return found[0] if is_of_servers else found[-1]


def _stamp(wanted: DesiredObject, live: Any) -> JsonObject:
    """What is written: with the hash of what is wanted, and with the number of servers that the
    autoscaler has decided, which must not change in between."""
    body, metadata = dict(wanted.body), dict(wanted.body["metadata"])
    hashed = body
    if wanted.keeps_replicas:
        hashed = {**body, "spec": {**body["spec"], "replicas": None}}
        if live is not None:
            body["spec"] = {**body["spec"], "replicas": live.spec.replicas}
            metadata["resourceVersion"] = live.metadata.resource_version
    stamp = {names.APPLIED_HASH: compute_hash(hashed)}
    body["metadata"] = {**metadata, "annotations": {**metadata["annotations"], **stamp}}
    return body


def _is_current(live: Any, wanted: JsonObject) -> bool:
    """Whether an object is as it was written last, and nothing of that was changed since.

    The hash shows what is no longer desired, which a comparison cannot: others may have set it.
    """
    known = cast("JsonObject", msgspec.to_builtins(live))
    compared = {key: value for key, value in wanted.items() if key in known}
    if isinstance(getattr(live, "spec", None), msgspec.Struct):
        fields = known["spec"]
        compared["spec"] = {k: v for k, v in wanted["spec"].items() if k in fields}
    return not needs_patch(known, compared)
