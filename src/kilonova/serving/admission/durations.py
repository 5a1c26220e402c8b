"""Rules of durations: which must not be 0, and how long each may be. Pure.

The schema has rejected what is no duration, or negative.
"""

from collections.abc import Iterator
from datetime import timedelta

from kilonova.api.durations import parse_duration
from kilonova.api.serving import InferenceServiceSpec
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import invalid_value

_MINUTE, _HOUR, _DAY, _WEEK = (
    timedelta(minutes=1),
    timedelta(hours=1),
    timedelta(days=1),
    timedelta(weeks=1),
)
_SHORTEST = timedelta(milliseconds=1)
_NONE = timedelta()

Bound = tuple[str, str | None, timedelta, timedelta]
"""Path, value, the shortest and the longest duration that makes sense."""


def validate_durations(spec: InferenceServiceSpec) -> Iterator[FieldError]:
    """Errors of all durations of a spec."""
    for path, value, shortest, longest in (
        *_list_gateway_bounds(spec),
        *_list_limit_bounds(spec),
        *_list_group_bounds(spec),
    ):
        if value is None:
            continue
        try:
            found = timedelta(seconds=parse_duration(value))
        except (ValueError, OverflowError):
            yield invalid_value(path, value, "must be a duration, such as 90s, 1h30m or 4h")
            continue
        if found < shortest:
            yield invalid_value(path, value, f"must be at least {_format(shortest)}")
        elif found > longest:
            yield invalid_value(path, value, f"must be no more than {_format(longest)}")


def _list_gateway_bounds(spec: InferenceServiceSpec) -> Iterator[Bound]:
    gateway, path = spec.gateway, "spec.gateway"
    yield f"{path}.timeout", gateway.timeout, _NONE, _WEEK
    yield f"{path}.idleTimeout", gateway.idle_timeout, _NONE, _WEEK
    yield f"{path}.slowStart", gateway.slow_start, _NONE, _HOUR
    outliers, check = gateway.outlier_detection, gateway.health_check
    yield f"{path}.outlierDetection.interval", outliers.interval, _SHORTEST, _HOUR
    yield f"{path}.outlierDetection.baseEjectionTime", outliers.base_ejection_time, _SHORTEST, _DAY
    yield f"{path}.healthCheck.interval", check.interval, _SHORTEST, _HOUR
    yield f"{path}.healthCheck.timeout", check.timeout, _SHORTEST, _HOUR
    for number, key in enumerate(gateway.load_balancing.hash):
        yield f"{path}.loadBalancing.hash[{number}].ttl", key.ttl, _NONE, 52 * _WEEK
    for number, route in enumerate(spec.routes):
        yield f"spec.routes[{number}].timeout", route.timeout, _NONE, _WEEK
    yield "spec.monitoring.scrapeInterval", spec.monitoring.scrape_interval, 1000 * _SHORTEST, _HOUR


def _list_limit_bounds(spec: InferenceServiceSpec) -> Iterator[Bound]:
    rate, load = spec.limits.connection_rate, spec.limits.load
    if rate is not None:
        yield "spec.limits.connectionRate.fillInterval", rate.fill_interval, 50 * _SHORTEST, _DAY
    if load is not None:
        yield "spec.limits.load.queueTime", load.queue_time, _SHORTEST, _HOUR
        yield "spec.limits.load.retryAfter", load.retry_after, _NONE, _DAY


def _list_group_bounds(spec: InferenceServiceSpec) -> Iterator[Bound]:
    for index, group in enumerate(spec.servers):
        path = f"spec.servers[{index}]"
        yield f"{path}.drain", group.drain, _NONE, _DAY
        bounds = group.autoscaling
        if bounds is None:
            continue
        path += ".autoscaling"
        yield f"{path}.startupTime", bounds.startup_time, _NONE, _DAY
        zero = bounds.scale_to_zero
        yield f"{path}.scaleToZero.idleAfter", zero.idle_after, _NONE, _WEEK
        yield f"{path}.scaleToZero.holdTimeout", zero.hold_timeout, 1000 * _SHORTEST, _DAY
        for name, rate in (("scaleUp", bounds.scale_up), ("scaleDown", bounds.scale_down)):
            yield f"{path}.{name}.stabilization", rate.stabilization, _NONE, _DAY
            yield f"{path}.{name}.period", rate.period, 1000 * _SHORTEST, _DAY
        if bounds.sla is not None:
            for name, value in (
                ("queue", bounds.sla.queue),
                ("latency", bounds.sla.latency),
                ("timeToFirstToken", bounds.sla.time_to_first_token),
                ("interTokenLatency", bounds.sla.inter_token_latency),
            ):
                yield f"{path}.sla.{name}", value, _SHORTEST, _DAY
        for number, entry in enumerate(bounds.schedule):
            yield f"{path}.schedule[{number}].duration", entry.duration, _MINUTE, _WEEK


def _format(duration: timedelta) -> str:
    """`1ms`, `1s`, `24h`."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    return f"{seconds:g}s" if seconds < 3600 else f"{seconds / 3600:g}h"
