"""A placement report as the text of `kilonova why`."""

from collections.abc import Iterator
from typing import assert_never

from kilonova.api.times import human_duration
from kilonova.component.command.output.formats import format_table, pluralize
from kilonova.component.command.output.terminal_text import strip_control_characters
from kilonova.scheduler.convert.gangs.podgangs import gang_object_key, single_pod_gang_name
from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.explain import NodeScore, PodPlacementScore
from kilonova.scheduler.library.decisions import PlacedGang
from kilonova.scheduler.library.explanation_text import format_explanation, format_time
from kilonova.scheduler.library.placement_report import PlacedPodReport, PlacementReport

_SINGLE_POD_PREFIX = single_pod_gang_name("")


def format_answer(answer: PlacementReport, now: float) -> str:
    """The report as text."""
    return "\n".join(map(strip_control_characters, _answer_lines(answer, now)))


def _answer_lines(answer: PlacementReport, now: float) -> Iterator[str]:
    name = answer.gang.removeprefix(_SINGLE_POD_PREFIX)
    is_reservation = is_reservation_gang(name)
    is_single_pod = name != answer.gang or [pod.pod for pod in answer.pods] == [name]
    subject = f"{'Pod' if is_single_pod else 'Gang'} {name}"
    if is_reservation:
        subject = f"Reservation {gang_object_key(name)}"
    queue = f" (queue {answer.queue})" if answer.queue else ""
    match answer.state:
        case "Placed":
            nodes = pluralize(len({pod.node for pod in answer.pods}), "node")
            amount = "capacity" if is_reservation else pluralize(len(answer.pods), "pod")
            yield f"{subject}{queue} is placed: {amount} on {nodes}{_format_since(answer, now)}"
        case "Unschedulable":
            yield f"{subject}{queue} is pending."
        case "Schedulable":
            yield f"{subject}{queue} is pending, and will be placed in the next scheduling cycle."
        case "NotReady":
            yield f"{subject} is not ready for scheduling."
        case _:
            assert_never(answer.state)
    if answer.not_ready is not None:
        yield f"{answer.not_ready.reason}: {answer.not_ready.message}"
    if answer.explanation is not None:
        yield from format_explanation(answer.explanation, now)
    if answer.planned_placement is not None:
        yield from _next_placement_lines(answer.planned_placement)
    if answer.pods:
        yield ""
        yield from _pod_lines(answer.pods)


def _format_since(answer: PlacementReport, now: float) -> str:
    if answer.since is None:
        return ""
    return f", since {format_time(answer.since)} ({human_duration(now - answer.since)})"


def _next_placement_lines(placement: PlacedGang) -> Iterator[str]:
    yield ""
    rows = [(pod.pod, pod.node, pod.devices or "-") for pod in placement.pods]
    yield from format_table(("POD", "NODE", "DEVICES"), rows).split("\n")
    for unit in placement.evicted:
        gang = unit.gang.removeprefix(_SINGLE_POD_PREFIX)
        yield f"Evicted for it: {', '.join(unit.pods)} of {gang}."


def _pod_lines(pods: tuple[PlacedPodReport, ...]) -> Iterator[str]:
    rows = [(pod.pod, pod.node, pod.devices or "-", _format_total(pod.score)) for pod in pods]
    yield from format_table(("POD", "NODE", "DEVICES", "SCORE"), rows).split("\n")
    for pod in pods:
        if pod.problem:
            yield f"Problem of {pod.pod} on {pod.node}: {pod.problem}"
    scored = next((pod.score for pod in pods if pod.score is not None), None)
    if scored is not None:
        yield ""
        yield f"Score of {scored.chosen.node} for {scored.pod}: {_format_score_parts(scored)}"
        if scored.runner_up is not None:
            yield _compare_with_runner_up(scored.chosen, scored.runner_up)
        for plugin in scored.failed_plugins:
            yield f"Score plugin {plugin} failed and was ignored"


def _compare_with_runner_up(chosen: NodeScore, other: NodeScore) -> str:
    if round(other.total, 1) <= round(chosen.total, 1):
        return f"The next best would be {other.node} with {other.total:.1f}"
    return (
        f"{other.node} scores higher now: {other.total:.1f}. Scores are computed from the current "
        "state, not from that at the time of binding, and without what the scheduler has learnt "
        "about usual pods"
    )


def _format_total(score: PodPlacementScore | None) -> str:
    return "-" if score is None else f"{score.chosen.total:.1f}"


def _format_score_parts(score: PodPlacementScore) -> str:
    parts = (
        f"{each.plugin} {each.score:.1f} (weight {each.weight:g})"
        for each in score.chosen.plugin_scores
    )
    return f"{score.chosen.total:.1f}, of {', '.join(parts)}"
