"""The value of a PromQL expression per server. Pure."""

from kilonova.api.serving import MetricTarget
from kilonova.serving.autoscaler.model import Load, Observation, Vote, format_figure
from kilonova.serving.autoscaler.modes.demand import TOLERANCE, divide, keep


def vote_metric(target: MetricTarget, load: Load | None, observation: Observation) -> Vote:
    """The servers at which the value is at its threshold.

    A value that grows with the number of servers is shared by them. An average (a latency) is
    changed by their number: it is compared at the servers that produced it, those that are ready,
    and there are never more servers than requests.
    """
    value = observation.metric
    if value is None:
        return keep(observation, "Metric", "the metric has no value")
    threshold, text = format_figure(target.threshold), format_figure(value)
    if target.per_replica:
        wanted = max(0, divide(value, target.threshold))
        return Vote(wanted, "Metric", f"metric {text} over {threshold} per server → {wanted}")
    ready, ratio = observation.ready, value / target.threshold
    if not ready:
        return keep(observation, "Metric", "no server is ready that the average could be of")
    if abs(ratio - 1) <= TOLERANCE:
        return keep(observation, "Metric", f"average {text} is about {threshold}")
    if ratio > 1 and observation.starting:
        # What these will change is not in the average yet.
        why = f"average {text} for {threshold}, and {observation.starting} servers are starting"
        return keep(observation, "Metric", why)
    wanted = max(1, divide(ready * ratio, 1))
    message = f"average {text} for {threshold} at {ready} servers → {wanted}"
    if load is not None and load.total < wanted:
        wanted = max(1, divide(load.total, 1))
        message += f", not more than the {load}"
    return Vote(wanted, "Metric", message)
