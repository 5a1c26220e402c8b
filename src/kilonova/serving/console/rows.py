"""Rows of inference services. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from kilonova.api.pods.workload_owner import Owned, find_workload
from kilonova.api.serving import GroupLoad, InferenceService, ScalingStatus, TracedRequest
from kilonova.component.console import Row
from kilonova.component.console.values import ConditionRow, condition_rows, parse_timestamp
from kilonova.serving.builders.identity import SERVICE_KIND

T = TypeVar("T", int, float)


class ServerGroupRow(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True
):
    """A group of servers."""

    name: str
    ready: int
    desired: int
    draining: int = 0
    updated: int = 0
    mode: str = ""
    """What decided the number of servers."""
    decision: str = ""
    in_flight: int | None = None
    queued: int | None = None
    held: int | None = None
    problem: str = ""


class ModelRow(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True
):
    """A model that is loaded and unloaded at run time."""

    model: str
    group: str
    copies: int
    loading: int = 0
    problem: str = ""


class TraceRow(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True
):
    """A traced request."""

    trace_id: str
    request: str
    """What was asked for, and of which model."""
    status: str = ""
    group: str = ""
    duration: float
    first_byte: float | None = None
    server_time: float | None = None
    ended: float | None = None


class InferenceServiceRow(
    Row, frozen=True, gc=False, rename="camel", omit_defaults=True, kw_only=True
):
    """A service. Its id is `namespace/name`. Times are in milliseconds; a figure that nobody
    measured is left out."""

    phase: str
    ready: int
    replicas: int
    gateways: int
    desired_gateways: int
    url: str = ""
    grpc_address: str = ""
    service_address: str = ""
    tracing: str = ""
    """The collector of its traces."""
    paused: bool = False
    requests: float | None = None
    """Answered, each second."""
    errors: float | None = None
    rejected: float | None = None
    tokens: float | None = None
    in_flight: int | None = None
    queued: int | None = None
    held: int | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
    latency_p99: float | None = None
    queue_time: float | None = None
    compute_time: float | None = None
    time_to_first_token: float | None = None
    problem: str = ""
    """Why it is not ready."""
    groups: tuple[ServerGroupRow, ...] = ()
    models: tuple[ModelRow, ...] = ()
    traces: tuple[TraceRow, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    created: float | None = None
    workload: str = ""
    """What its pods name as their workload."""


def service_row(service: InferenceService) -> InferenceServiceRow:
    """The row of a service: figures of its groups are added up, of times the greatest counts."""
    metadata, spec, status = service.metadata, service.spec, service.status
    loads = [each.load for each in status.scaling]
    is_deleted = metadata.deletion_timestamp is not None
    return InferenceServiceRow(
        id=f"{metadata.namespace}/{metadata.name}",
        phase="Terminating" if is_deleted else status.phase or "Pending",
        ready=status.ready,
        replicas=status.replicas,
        gateways=status.gateways,
        desired_gateways=spec.gateway.replicas,
        url=status.url,
        grpc_address=status.grpc_address,
        service_address=status.service_address,
        tracing=spec.gateway.tracing.endpoint if spec.gateway.tracing else "",
        paused=spec.paused,
        requests=_add(loads, lambda each: each.requests_per_second),
        errors=_add(loads, lambda each: each.errors_per_second),
        rejected=_add(loads, lambda each: each.rejected_per_second),
        tokens=_add(loads, lambda each: each.tokens_per_second),
        in_flight=_add(loads, lambda each: each.in_flight),
        queued=_add(loads, lambda each: each.queued),
        held=_add(loads, lambda each: each.held),
        latency_p50=_find_greatest(loads, lambda each: each.latency_p50),
        latency_p95=_find_greatest(loads, lambda each: each.latency_p95),
        latency_p99=_find_greatest(loads, lambda each: each.latency_p99),
        queue_time=_find_greatest(loads, lambda each: each.queue_time),
        compute_time=_find_greatest(loads, lambda each: each.compute_time),
        time_to_first_token=_find_greatest(loads, lambda each: each.time_to_first_token),
        problem=_find_problem(service),
        groups=tuple(_list_groups(service)),
        models=tuple(_list_models(service)),
        traces=tuple(_list_traces(service)),
        conditions=condition_rows(status.conditions),
        created=parse_timestamp(metadata.creation_timestamp),
        workload=find_workload(Owned.from_metadata(SERVICE_KIND, metadata)).id,
    )


def _list_groups(service: InferenceService) -> Iterator[ServerGroupRow]:
    scaling = {each.name: each for each in service.status.scaling}
    for group in service.status.servers:
        decision = scaling.get(group.name, ScalingStatus(name=group.name))
        yield ServerGroupRow(
            name=group.name,
            ready=group.ready,
            desired=group.desired,
            draining=group.draining,
            updated=group.updated,
            mode=decision.mode,
            decision=decision.message,
            in_flight=decision.load.in_flight,
            queued=decision.load.queued,
            held=decision.load.held,
            problem=group.message,
        )


def _list_models(service: InferenceService) -> Iterator[ModelRow]:
    for group in service.status.servers:
        for model in group.models:
            yield ModelRow(
                model=model.name,
                group=group.name,
                copies=model.copies,
                loading=model.loading,
                problem=model.message,
            )


def _list_traces(service: InferenceService) -> Iterator[TraceRow]:
    for each in service.status.traces:
        yield TraceRow(
            trace_id=each.trace_id,
            request=_name_request(each),
            status=each.status or "No answer",
            group=each.group,
            duration=each.duration,
            first_byte=each.first_byte,
            server_time=each.server_time,
            ended=parse_timestamp(each.time),
        )


def _name_request(traced: TracedRequest) -> str:
    is_said = not traced.model or f"/{traced.model}" in traced.request
    return traced.request if is_said else f"{traced.request} ({traced.model})"


def _find_problem(service: InferenceService) -> str:
    """The message of the first condition that is false, other than the summary of all."""
    false = [each for each in service.status.conditions if each.status == "False"]
    return next((each.message for each in false if each.type != "Ready"), "")


def _list_known(loads: Iterable[GroupLoad], figure: Callable[[GroupLoad], T | None]) -> list[T]:
    return [each for load in loads if (each := figure(load)) is not None]


def _add(loads: Iterable[GroupLoad], figure: Callable[[GroupLoad], T | None]) -> T | None:
    """The sum over groups; None if no group knows it."""
    known = _list_known(loads, figure)
    return sum(known[1:], start=known[0]) if known else None


def _find_greatest(
    loads: Iterable[GroupLoad], figure: Callable[[GroupLoad], float | None]
) -> float | None:
    return max(_list_known(loads, figure), default=None)
