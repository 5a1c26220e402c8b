"""Why a service is as it is: its decisions, and what it waits for. Pure."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from kilonova.api.serving import (
    InferenceService,
    ScalingStatus,
    ServerGroup,
    ServerGroupStatus,
    names,
)
from kilonova.api.times import human_age
from kilonova.component.command.output.formats import pluralize
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.serving.autoscaler.modes.schedule import find_bounds
from kilonova.serving.controllers.service.server_status import explain_pod
from kilonova.serving.resources import Pod


class PodExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that is not ready."""

    name: str
    role: str
    node: str
    reason: str


class GroupExplanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A group of servers, and why it has as many as it has."""

    name: str
    desired: int
    ready: int
    draining: int = 0
    bounds: str = ""
    mode: str = ""
    decision: str = ""
    decided_at: str = ""
    load: list[str] = []
    waits_for: str = ""
    models: list[str] = []


class ServiceExplanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A service."""

    name: str
    namespace: str
    phase: str
    problems: list[str] = []
    """Conditions that are not true."""
    groups: list[GroupExplanation] = []
    pods: list[PodExplanation] = []
    """Those that are not ready."""


def explain_service(
    service: InferenceService, pods: Sequence[Pod], now: datetime
) -> ServiceExplanation:
    """From the status of a service and the state of its pods."""
    known, status = service.metadata, service.status
    servers = {each.name: each for each in status.servers}
    scaling = {each.name: each for each in status.scaling}
    return ServiceExplanation(
        name=known.name,
        namespace=known.namespace,
        phase="Terminating" if known.deletion_timestamp else status.phase or "Pending",
        problems=list(_list_problems(service)),
        groups=[
            _explain_group(
                service,
                group,
                servers.get(group.name, ServerGroupStatus(name=group.name)),
                scaling.get(group.name, ScalingStatus(name=group.name)),
                now,
            )
            for group in service.spec.servers
        ],
        pods=[_explain_pod(each) for each in pods if not each.is_ready],
    )


def format_explanation(found: ServiceExplanation, now: datetime) -> str:
    """The explanation as text."""
    return "\n".join(strip_control_characters(line) for line in _list_lines(found, now))


def _list_problems(service: InferenceService) -> Iterator[str]:
    status = service.status
    generation = service.metadata.generation
    if status.observed_generation is None or status.observed_generation < generation:
        yield (
            "the controller has not seen the latest change: `kilonova status` (on a cluster "
            "`kilonova doctor`) shows whether it runs"
        )
    for each in status.conditions:
        if each.status != "True":
            yield f"{each.type}: {each.reason}: {each.message}"


def _explain_group(
    service: InferenceService,
    group: ServerGroup,
    state: ServerGroupStatus,
    scaling: ScalingStatus,
    now: datetime,
) -> GroupExplanation:
    return GroupExplanation(
        name=group.name,
        desired=state.desired,
        ready=state.ready,
        draining=state.draining,
        bounds=_describe_bounds(service, group, now),
        mode=scaling.mode,
        decision=scaling.message,
        decided_at=scaling.decided_at or "",
        load=list(_list_load(scaling)),
        waits_for=state.message,
        models=[
            f"{each.name}: {pluralize(each.copies, 'server')}"
            + (f", {each.loading} loading" if each.loading else "")
            + (f": {each.message}" if each.message else "")
            for each in state.models
        ],
    )


def _describe_bounds(service: InferenceService, group: ServerGroup, now: datetime) -> str:
    if service.spec.paused:
        return "paused: the number stays as it is (`kilonova serve resume` ends that)"
    scaling = group.autoscaling
    if scaling is None:
        number = 1 if group.replicas is None else group.replicas
        return f"always {number}: there is no autoscaling"
    own = f"{scaling.min_replicas} to {scaling.max_replicas}"
    if scaling.scaler != "Builtin":
        return f"{own}, by a {scaling.scaler}"
    bounds = find_bounds(scaling, now)
    schedules = " and ".join(dict.fromkeys(filter(None, (bounds.minimum_by, bounds.maximum_by))))
    if not schedules:
        return own
    return f"{bounds.minimum} to {bounds.maximum} by {schedules} (otherwise {own})"


def _list_load(scaling: ScalingStatus) -> Iterator[str]:
    load = scaling.load
    counts = ((load.in_flight, "in flight"), (load.queued, "queued"), (load.held, "held"))
    for value, name in counts:
        if value is not None:
            yield f"{value} {name}"
    rates = (
        (load.requests_per_second, "requests/s"),
        (load.errors_per_second, "errors/s"),
        (load.rejected_per_second, "rejected/s"),
        (load.tokens_per_second, "tokens/s"),
    )
    for value, name in rates:
        if value:
            yield f"{value:.3g} {name}"
    times = (
        (load.latency_p95, "latency p95"),
        (load.queue_time, "queue"),
        (load.time_to_first_token, "first token p95"),
    )
    for value, name in times:
        if value is not None:
            yield f"{name} {value:.3g} ms"


def _explain_pod(pod: Pod) -> PodExplanation:
    reason = explain_pod(pod)
    if pod.metadata.deletion_timestamp is not None:
        reason = "it finishes its requests before it ends"
    return PodExplanation(
        name=pod.metadata.name,
        role=pod.metadata.labels.get(names.ROLE, ""),
        node=pod.spec.node_name,
        reason=reason or (f"starting on {pod.spec.node_name}" if pod.spec.node_name else "pending"),
    )


def _list_lines(found: ServiceExplanation, now: datetime) -> Iterator[str]:
    yield f"{found.namespace}/{found.name}: {found.phase}"
    yield from (f"  {each}" for each in found.problems)
    for group in found.groups:
        draining = f", {group.draining} draining" if group.draining else ""
        yield f"Group {group.name}: {group.ready} of {group.desired} servers ready{draining}"
        if group.decision:
            age = f", {human_age(group.decided_at, now)} ago" if group.decided_at else ""
            yield f"  decided   {group.mode}: {group.decision}{age}"
        yield f"  bounds    {group.bounds}"
        if group.load:
            yield f"  load      {', '.join(group.load)}"
        if group.waits_for:
            yield f"  waits     {group.waits_for}"
        yield from (f"  model     {each}" for each in group.models)
    if found.pods:
        yield "Pods that are not ready:"
        yield from (f"  {each.name}: {each.reason}" for each in found.pods)
