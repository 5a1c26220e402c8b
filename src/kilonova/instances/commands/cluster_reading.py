"""Reads instances and deployments of a cluster for a command, and rolls deployments back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from kilonova.api.inference_engine import (
    InferenceEngineDeployment,
    InferenceEngineInstance,
    names,
)
from kilonova.component.cluster_errors import translate_cluster_errors
from kilonova.component.failure import CommandFailed
from kilonova.instances.commands.deployments.rollback_plan import (
    RollbackPlan,
    RollbackTarget,
    plan_rollback,
)
from kilonova.instances.controllers.deployment.revisions import (
    DeploymentRevision,
    decode_revision,
)
from kilonova.instances.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    INSTANCES,
    RELEASES,
)
from kilonova.kube import Client, NotFound, PatchType, connect

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class DeploymentWithRevisions:
    """A deployment, and what it was made from."""

    deployment: InferenceEngineDeployment
    revisions: tuple[DeploymentRevision, ...]
    instances: tuple[InferenceEngineInstance, ...]


def read_instances(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str | None,
    selector: str,
    deployments: Sequence[str],
) -> list[InferenceEngineInstance]:
    """Instances (of all deployments, or of those named), by namespace and name."""

    async def read(client: Client) -> list[InferenceEngineInstance]:
        return (await client.list(INSTANCES, namespace, label_selector=selector)).items

    found = _run(kubeconfig, context, read)
    if deployments:
        found = [
            each for each in found if each.metadata.labels.get(names.DEPLOYMENT) in deployments
        ]
    return sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name))


def read_deployments(
    kubeconfig: Path | None, context: str | None, namespace: str | None, wanted: Sequence[str]
) -> list[InferenceEngineDeployment]:
    """Deployments (all, or those named), by namespace and name."""

    async def read(client: Client) -> list[InferenceEngineDeployment]:
        return (await client.list(DEPLOYMENTS, namespace)).items

    found = _run(kubeconfig, context, read)
    missing = [name for name in wanted if name not in {each.metadata.name for each in found}]
    if missing:
        raise _missing(missing[0], namespace)
    if wanted:
        found = [each for each in found if each.metadata.name in wanted]
    return sorted(found, key=lambda each: (each.metadata.namespace, each.metadata.name))


def read_deployment(
    kubeconfig: Path | None, context: str | None, namespace: str, name: str
) -> DeploymentWithRevisions:
    """A deployment with its revisions and instances."""
    return _run(kubeconfig, context, lambda client: _read(client, namespace, name))


def roll_back(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    name: str,
    target: RollbackTarget,
    *,
    dry_run: bool,
) -> Iterator[str]:
    """Roll a deployment back, and say what was done."""

    async def write(client: Client) -> RollbackPlan:
        found = await _read(client, namespace, name)
        releases = (await client.list(RELEASES, namespace)).items
        plan = plan_rollback(found.deployment, found.revisions, releases, target)
        await client.patch(
            DEPLOYMENTS, name, plan.patch, namespace, patch_type=PatchType.JSON, dry_run=dry_run
        )
        return plan

    plan = _run(kubeconfig, context, write)
    revision = plan.revision
    release = f" ({revision.title})" if revision.release else ""
    suffix = " (dry run)" if dry_run else ""
    yield f"{namespace}/{name} rolled back to revision {revision.number}{release}{suffix}"
    yield from plan.notes


async def _read(client: Client, namespace: str, name: str) -> DeploymentWithRevisions:
    try:
        deployment = await client.get(DEPLOYMENTS, name, namespace)
    except NotFound:
        raise _missing(name, namespace) from None
    selector, uid = f"{names.DEPLOYMENT}={name}", deployment.metadata.uid
    revisions = await client.list(CONTROLLER_REVISIONS, namespace, label_selector=selector)
    instances = await client.list(INSTANCES, namespace, label_selector=selector)
    return DeploymentWithRevisions(
        deployment,
        tuple(
            decode_revision(each)
            for each in revisions.items
            if (owner := each.metadata.controller) is not None and owner.uid == uid
        ),
        tuple(instances.items),
    )


def _missing(name: str, namespace: str | None) -> CommandFailed:
    where = "any namespace" if namespace is None else f"namespace {namespace}"
    return CommandFailed(
        f"InferenceEngineDeployment {name} does not exist in {where}: `kilonova instances status "
        "-A` lists all"
    )


def _run(
    kubeconfig: Path | None, context: str | None, action: Callable[[Client], Awaitable[R]]
) -> R:
    async def run() -> R:
        async with connect(kubeconfig, context) as client:
            return await action(client)

    with translate_cluster_errors("work on", "; `kilonova doctor` lists missing permissions"):
        return asyncio.run(run())
