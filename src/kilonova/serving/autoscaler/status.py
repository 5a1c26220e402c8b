"""What the status reports about scaling. Pure."""

from datetime import datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.serving import GroupLoad, ScalingStatus
from kilonova.api.times import format_rfc3339
from kilonova.serving.signals import GroupSignals

_DIGITS = 3
_MILLISECONDS = 1000.0


def build_load(signals: GroupSignals | None, held: int) -> GroupLoad:
    """The load of a group; what is unknown is left out. Figures are rounded, so that a status is
    not written for a change that is not visible."""
    if signals is None:
        return GroupLoad(held=held or None)
    in_flight = None if signals.in_flight is None else signals.in_flight + (signals.pending or 0)
    return GroupLoad(
        in_flight=in_flight,
        queued=signals.queued,
        held=max(held, signals.held) or None,
        requests_per_second=_round(signals.requests_per_second),
        errors_per_second=_round(signals.errors_per_second),
        rejected_per_second=_round(signals.rejected_per_second),
        tokens_per_second=_round(signals.tokens_per_second),
        latency_p50=_to_milliseconds(signals.latency.p50),
        latency_p95=_to_milliseconds(signals.latency.p95),
        latency_p99=_to_milliseconds(signals.latency.p99),
        queue_time=_to_milliseconds(signals.mean_queue_time),
        compute_time=_to_milliseconds(signals.mean_compute_time),
        time_to_first_token=_to_milliseconds(signals.time_to_first_token.p95),
    )


def build_scaling_status(
    group: str,
    decision: tuple[int, str, str],
    load: GroupLoad,
    old: ScalingStatus | None,
    now: datetime,
) -> ScalingStatus:
    """The status of a group after a decision (number, mode, message)."""
    desired, mode, message = decision
    is_same = old is not None and old.desired == desired and old.decided_at is not None
    decided_at = old.decided_at if old is not None and is_same else format_rfc3339(now)
    return ScalingStatus(
        name=group,
        desired=desired,
        mode=mode,
        message=message,
        load=load,
        decided_at=decided_at,
    )


def encode_scaling(entries: list[ScalingStatus]) -> JsonObject:
    """The fields of the status that the autoscaler owns."""
    encoded = [msgspec.to_builtins(each) for each in entries]
    for each in encoded:
        each["load"] = {k: v for k, v in each.get("load", {}).items() if v is not None}
    return {"scaling": encoded}


def is_decision_changed(old: tuple[ScalingStatus, ...], new: list[ScalingStatus]) -> bool:
    """Whether a number or a mode differs: that is written at once."""
    before = [(each.name, each.desired, each.mode) for each in old]
    return before != [(each.name, each.desired, each.mode) for each in new]


def _to_milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else _round(seconds * _MILLISECONDS)


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
