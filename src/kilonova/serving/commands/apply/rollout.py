"""Applies objects, and waits until services are ready."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService
from kilonova.component.failure import CommandFailed
from kilonova.kube import Client, NotFound
from kilonova.kube.status import find_condition
from kilonova.serving.commands.apply.manifests import KIND, AppliedObject, ServeManifests
from kilonova.serving.commands.cluster_access import get_service, no_such_kind
from kilonova.serving.resources import INGRESSES, SERVICES

_POLL_SECONDS = 0.3
_SETTLED = ("Ready", "Idle")

Sleep = Callable[[float], Awaitable[None]]


async def apply_objects(
    client: Client, manifests: ServeManifests, *, dry_run: bool = False
) -> list[str]:
    """Apply by server-side apply; a line for each object says what happened, or would happen."""
    lines: list[str] = []
    owners: dict[str, JsonObject] = {}
    for each in manifests.objects:
        applied, line = await _apply(client, each, owners, dry_run)
        if each.resource.kind == KIND:
            owners[each.name] = applied
        lines.append(line)
    for name in dict.fromkeys(each.owner for each in manifests.objects if each.owner):
        lines += await _delete_unwanted(client, owners[name], manifests, dry_run)
    return lines


async def wait_until_ready(
    client: Client,
    services: Sequence[AppliedObject],
    timeout: float,
    report: Callable[[str], None],
    sleep: Sleep = asyncio.sleep,
) -> list[InferenceService]:
    """Wait for all services; `report` is called with what each waits for, whenever that changes.

    `CommandFailed` after `timeout` seconds, or at once for a service that has failed.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + timeout
    told: dict[str, str] = {}
    while True:
        found = [await get_service(client, each.name, each.namespace) for each in services]
        waiting = [each for each in found if not _is_settled(each)]
        for each in waiting:
            reason = describe_wait(each)
            if told.get(each.metadata.name) != reason:
                told[each.metadata.name] = reason
                report(f"{each.metadata.name}: {reason}")
        if not waiting:
            return found
        failed = next((each for each in waiting if _has_failed(each)), None)
        if failed is not None:
            raise CommandFailed(f"{failed.metadata.name} has failed: {describe_wait(failed)}")
        if clock() >= deadline:
            raise CommandFailed(_describe_timeout(waiting, timeout))
        await sleep(_POLL_SECONDS)


def describe_wait(service: InferenceService) -> str:
    """What a service waits for."""
    status = service.status
    if not _is_observed(service):
        return "waiting for the controller"
    accepted = find_condition(status.conditions, "ConfigurationAccepted")
    if accepted is not None and accepted.status == "False":
        return f"{accepted.reason}: {accepted.message}"
    ready = find_condition(status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return status.phase or "Pending"
    return f"{ready.reason}: {ready.message}"


async def _apply(
    client: Client, wanted: AppliedObject, owners: Mapping[str, JsonObject], dry_run: bool
) -> tuple[JsonObject, str]:
    body = _with_owner(wanted.body, owners[wanted.owner]) if wanted.owner else wanted.body
    resource = wanted.resource.as_type(dict[str, Any])
    name, namespace = wanted.name, wanted.namespace
    try:
        before = await client.get(resource, name, namespace)
    except NotFound:
        before = None
    try:
        after = await client.apply(resource, name, body, namespace, dry_run=dry_run)
    except NotFound as error:
        if "namespaces" in error.message:
            raise CommandFailed(
                f"namespace {namespace} does not exist: `kubectl create namespace {namespace}`"
            ) from error
        raise no_such_kind() from error
    outcome = "created"
    if before is not None:
        outcome = "unchanged" if _select_wanted(before) == _select_wanted(after) else "changed"
    return after, f"{wanted.reference} {outcome}{' (dry run)' if dry_run else ''}"


async def _delete_unwanted(
    client: Client, owner: JsonObject, manifests: ServeManifests, dry_run: bool
) -> list[str]:
    """Delete the Service and the Ingress that earlier values of a release had, and these lack."""
    from kilonova.serving.supersonic.labels import build_component_labels  # for few services

    known = owner["metadata"]
    labels = build_component_labels(known["name"], "metrics-collector")
    selector = ",".join(f"{key}={value}" for key, value in labels.items())
    wanted = {each.reference for each in manifests.objects}
    lines: list[str] = []
    for resource in (SERVICES, INGRESSES):
        untyped = resource.as_type(dict[str, Any])
        found = await client.list(untyped, known["namespace"], label_selector=selector)
        for each in found.items:
            metadata = each["metadata"]
            reference = f"{resource.kind.lower()}/{metadata['name']}"
            owners = {held["uid"] for held in metadata.get("ownerReferences", ())}
            if reference in wanted or known["uid"] not in owners:
                continue
            await client.delete(untyped, metadata["name"], known["namespace"], dry_run=dry_run)
            lines.append(f"{reference} deleted{' (dry run)' if dry_run else ''}")
    return lines


def _with_owner(body: JsonObject, owner: JsonObject) -> JsonObject:
    """An object that is deleted with its owner."""
    known = owner["metadata"]
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {
        key: known[key] for key in ("name", "uid")
    }
    return {**body, "metadata": {**body["metadata"], "ownerReferences": [reference]}}


def _select_wanted(found: JsonObject) -> JsonObject:
    """What users write of an object."""
    metadata = found["metadata"]
    content = {key: value for key, value in found.items() if key not in ("metadata", "status")}
    return content | {key: metadata.get(key) or {} for key in ("labels", "annotations")}


def _is_observed(service: InferenceService) -> bool:
    observed = service.status.observed_generation
    return observed is not None and observed >= (service.metadata.generation or 0)


def _is_settled(service: InferenceService) -> bool:
    return _is_observed(service) and service.status.phase in _SETTLED


def _has_failed(service: InferenceService) -> bool:
    return _is_observed(service) and service.status.phase == "Failed"


def _describe_timeout(waiting: Sequence[InferenceService], timeout: float) -> str:
    names = ", ".join(each.metadata.name for each in waiting)
    text = f"{names} not ready after {timeout:g} s: {describe_wait(waiting[0])}"
    if any(not _is_observed(each) for each in waiting):
        return f"{text}: `kilonova status` (on a cluster `kilonova doctor`) shows whether it runs"
    return f"{text}; `kilonova serve why {waiting[0].metadata.name}` shows details"


def format_objects(objects: Sequence[AppliedObject], output: str) -> str:
    """The objects as YAML documents, or as a List in JSON."""
    import msgspec

    bodies: list[JsonObject] = [each.body for each in objects]
    if output == "json":
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        return msgspec.json.format(msgspec.json.encode(listed), indent=2).decode()
    return "---\n".join(msgspec.yaml.encode(each).decode() for each in bodies).rstrip()
