"""Instances, deployments and revisions as rows of tables, and as JSON."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
import typer

from kilonova.api.inference_engine import (
    InferenceEngineDeployment,
    InferenceEngineInstance,
    names,
)
from kilonova.api.times import human_age
from kilonova.component.command.output.format_names import OutputFormat
from kilonova.component.command.output.formats import encode_as, format_table
from kilonova.instances.commands.cluster_reading import DeploymentWithRevisions
from kilonova.instances.controllers.deployment.progress import (
    BLOCKED,
    COMPLETE,
    PAUSED,
    PROGRESSING,
    ROLLING,
    TIMED_OUT,
)
from kilonova.instances.controllers.deployment.revisions import sort_newest_first
from kilonova.kube.status import find_condition

V = TypeVar("V", bound=msgspec.Struct)

_STATES = {COMPLETE: "Complete", ROLLING: "Updating", PAUSED: "Paused", TIMED_OUT: "Stuck"}
_INSTANCE_HEADER = (
    "NAMESPACE",
    "NAME",
    "MODEL",
    "RELEASE",
    "DEPLOYMENT",
    "PHASE",
    "AGENTS",
    "DOMAIN",
    "REPAIRS",
    "AGE",
)
_DEPLOYMENT_HEADER = (
    "NAMESPACE",
    "NAME",
    "RELEASE",
    "REVISION",
    "DESIRED",
    "READY",
    "UPDATED",
    "UNALLOCATABLE",
    "ADDITIONAL",
    "STATE",
)
_REVISION_HEADER = ("REVISION", "RELEASE", "SINCE", "INSTANCES", "HASH", "CURRENT")


class InstanceSummary(msgspec.Struct, frozen=True, rename="camel"):
    """An instance."""

    namespace: str
    name: str
    model: str
    release: str
    deployment: str
    phase: str
    target_agents: int
    ready_agents: int
    domain: str
    recreated: int
    relocated: int
    created: str


class DeploymentSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A deployment, and how far it is."""

    namespace: str
    name: str
    release: str
    revision: int | None
    desired: int
    ready: int
    updated: int
    unallocatable: int
    additional: int | None
    state: str
    message: str
    """Why it is in this state."""


class RevisionSummary(msgspec.Struct, frozen=True, rename="camel"):
    """A revision of a deployment."""

    revision: int
    release: str
    hash: str
    since: str | None
    instances: int
    current: bool


def print_instances(found: Sequence[InferenceEngineInstance], output: OutputFormat) -> None:
    """Print instances."""

    def cells(item: InstanceSummary) -> tuple[str, ...]:
        return (
            item.namespace,
            item.name,
            item.model,
            item.release or "-",
            item.deployment or "-",
            item.phase,
            f"{item.ready_agents}/{item.target_agents}",
            item.domain or "-",
            str(item.recreated + item.relocated),
            human_age(item.created, datetime.now(UTC)),
        )

    rows = [summarise_instance(each) for each in found]
    _print_rows(rows, _INSTANCE_HEADER, cells, output, "no instances")


def print_deployments(found: Sequence[InferenceEngineDeployment], output: OutputFormat) -> None:
    """Print deployments, and below the table why those wait that do."""

    def cells(item: DeploymentSummary) -> tuple[str, ...]:
        return (
            item.namespace,
            item.name,
            item.release or "-",
            "-" if item.revision is None else str(item.revision),
            str(item.desired),
            str(item.ready),
            str(item.updated),
            str(item.unallocatable),
            "-" if item.additional is None else str(item.additional),
            item.state,
        )

    rows = [summarise_deployment(each) for each in found]
    _print_rows(rows, _DEPLOYMENT_HEADER, cells, output, "no deployments")
    waiting = [each for each in rows if each.state != "Complete" and each.message]
    if output == "table" and waiting:
        typer.echo()
        for each in waiting:
            typer.echo(f"{each.namespace}/{each.name}: {each.message}")


def print_history(found: DeploymentWithRevisions, output: OutputFormat) -> None:
    """Print the revisions of a deployment."""

    def cells(item: RevisionSummary) -> tuple[str, ...]:
        return (
            str(item.revision),
            item.release or "-",
            human_age(item.since, datetime.now(UTC)),
            str(item.instances),
            item.hash,
            "yes" if item.current else "",
        )

    rows = summarise_revisions(found)
    _print_rows(rows, _REVISION_HEADER, cells, output, "no revisions yet")


def summarise_instance(instance: InferenceEngineInstance) -> InstanceSummary:
    """An instance as a row."""
    known, spec, status = instance.metadata, instance.spec, instance.status
    is_terminating = known.deletion_timestamp is not None
    return InstanceSummary(
        namespace=known.namespace,
        name=known.name,
        model=spec.model,
        release=spec.release,
        deployment=known.labels.get(names.DEPLOYMENT, ""),
        phase="Terminating" if is_terminating else status.phase,
        target_agents=status.target_agents or spec.target_agents or 0,
        ready_agents=status.ready_agents,
        domain=status.domain,
        recreated=status.repairs.recreated,
        relocated=status.repairs.relocated,
        created=known.creation_timestamp,
    )


def summarise_deployment(deployment: InferenceEngineDeployment) -> DeploymentSummary:
    """A deployment as a row."""
    known, spec, status = deployment.metadata, deployment.spec, deployment.status
    state, message = describe_state(deployment)
    return DeploymentSummary(
        namespace=known.namespace,
        name=known.name,
        release=spec.release or (spec.template.release if spec.template else ""),
        revision=status.current_revision,
        desired=spec.replicas,
        ready=status.ready_replicas,
        updated=status.updated_replicas,
        unallocatable=status.unallocatable,
        additional=status.additional_replicas,
        state=state,
        message=message,
    )


def describe_state(deployment: InferenceEngineDeployment) -> tuple[str, str]:
    """The state of a deployment in a word, and why."""
    status = deployment.status
    if (status.observed_generation or 0) < deployment.metadata.generation:
        return "Pending", "not observed yet: is the component `instances` running?"
    blocked = find_condition(status.conditions, BLOCKED)
    if blocked is not None and blocked.status == "True":
        return "Blocked", blocked.message
    progressing = find_condition(status.conditions, PROGRESSING)
    if progressing is None:
        return "Pending", ""
    return _STATES.get(progressing.reason, progressing.reason), progressing.message


def summarise_revisions(found: DeploymentWithRevisions) -> list[RevisionSummary]:
    """The revisions of a deployment as rows, the newest first."""
    status = found.deployment.status
    since = {(each.revision, each.template_hash): each.since for each in status.history}
    hashes = [
        each.metadata.labels.get(names.TEMPLATE_HASH, "")
        for each in found.instances
        if each.metadata.deletion_timestamp is None
    ]
    return [
        RevisionSummary(
            revision=each.number,
            release=each.release,
            hash=each.hash,
            since=since.get((each.number, each.hash)),
            instances=hashes.count(each.hash),
            current=each.number == status.current_revision,
        )
        for each in sort_newest_first(found.revisions)
    ]


def _print_rows(
    rows: Sequence[V],
    header: Sequence[str],
    cells: Callable[[V], Sequence[str]],
    output: OutputFormat,
    empty: str,
) -> None:
    if output != "table":
        typer.echo(encode_as(rows, output))
    elif rows:
        typer.echo(format_table(header, [cells(each) for each in rows]))
    else:
        typer.echo(empty, err=True)
