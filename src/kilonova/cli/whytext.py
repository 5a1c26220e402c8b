"""An answer, as `kilonova why` prints it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import assert_never

from kilonova.api.times import human_duration, rfc3339
from kilonova.cli.screen import tamed
from kilonova.cli.tables import counted, table
from kilonova.scheduler.answering import Answer, StandingPod
from kilonova.scheduler.core.explaining import Explanation, NodeScore, PlacementScore
from kilonova.scheduler.decisions import PlacedGang
from kilonova.scheduler.reading.gangs import lone_name, plain_name
from kilonova.scheduler.reading.reservations import is_reservation

_LONE = lone_name("")


def answer_text(answer: Answer, now: float) -> str:
    """All of it, for people."""
    return "\n".join(map(tamed, _lines(answer, now)))


def _lines(answer: Answer, now: float) -> Iterator[str]:
    name = answer.gang.removeprefix(_LONE)
    keeps = is_reservation(name)
    alone = name != answer.gang or [pod.pod for pod in answer.pods] == [name]
    what = f"{'Pod' if alone else 'Gang'} {name}"
    if keeps:
        what = f"Reservation {plain_name(name)}"
    queue = f" (queue {answer.queue})" if answer.queue else ""
    match answer.state:
        case "Placed":
            nodes = len({pod.node for pod in answer.pods})
            where = f"{counted(len(answer.pods), 'pod')} on {counted(nodes, 'node')}"
            where = f"room on {counted(nodes, 'node')}" if keeps else where
            yield f"{what}{queue} has its place: {where}{_since(answer, now)}"
        case "Waiting":
            yield f"{what}{queue} waits."
        case "Next":
            yield f"{what}{queue} waits, and gets a place as soon as it is its turn."
        case "NotYet":
            yield f"{what} is not placed as it is."
        case _:
            assert_never(answer.state)
    if answer.not_yet is not None:
        yield f"{answer.not_yet.reason}: {answer.not_yet.message}"
    if answer.explanation is not None:
        yield from _explanation(answer.explanation, now)
    if answer.next is not None:
        yield from _next(answer.next)
    if answer.pods:
        yield ""
        yield from _pods(answer.pods)


def _since(answer: Answer, now: float) -> str:
    if answer.since is None:
        return ""
    return f", since {_moment(answer.since)} ({human_duration(now - answer.since)})"


def _explanation(explanation: Explanation, now: float) -> Iterator[str]:
    yield f"What binds: {explanation.binding.text}."
    for tally in explanation.tallies:
        yield f"Nodes for group {tally.group}: {tally.line}"
    if explanation.changes:
        first, *others = explanation.changes
        yield f"Smallest change: {first.text}."
        for other in others:
            yield f"       or else: {other.text}."
    else:
        yield "No single change was found that would let it in."
    start = explanation.expected_start
    if start is None:
        yield "Expected start: nobody can tell."
    else:
        delayed = any(each.taken_by for each in explanation.changes if each.change.kind == "Wait")
        about = f"{_moment(start)} (in {human_duration(max(0.0, start - now))})"
        yield f"Expected start: {'not before ' * delayed}{about}."


def _next(given: PlacedGang) -> Iterator[str]:
    yield ""
    rows = [(pod.pod, pod.node, pod.devices or "-") for pod in given.pods]
    yield from table(("POD", "NODE", "DEVICES"), rows).split("\n")
    for unit in given.evicted:
        yield f"For it go: {', '.join(unit.pods)} of {unit.gang.removeprefix(_LONE)}."


def _pods(pods: tuple[StandingPod, ...]) -> Iterator[str]:
    rows = [(pod.pod, pod.node, pod.devices or "-", _total(pod.score)) for pod in pods]
    yield from table(("POD", "NODE", "DEVICES", "SCORE"), rows).split("\n")
    for pod in pods:
        if pod.trouble:
            yield f"Trouble of {pod.pod} on {pod.node}: {pod.trouble}"
    scored = next((pod.score for pod in pods if pod.score is not None), None)
    if scored is not None:
        yield ""
        yield f"Score of {scored.chosen.node} for {scored.pod}: {_parts(scored)}"
        if scored.runner_up is not None:
            yield _beside(scored.chosen, scored.runner_up)
        for part in scored.left_out:
            yield f"Part {part} failed and did not count"


def _beside(chosen: NodeScore, other: NodeScore) -> str:
    if round(other.total, 1) <= round(chosen.total, 1):
        return f"The next best would be {other.node} with {other.total:.1f}"
    return (
        f"{other.node} scores more now: {other.total:.1f}. These scores know neither how things "
        "were when the pod was placed nor what the scheduler has learnt of pods that usually come"
    )


def _total(score: PlacementScore | None) -> str:
    return "-" if score is None else f"{score.chosen.total:.1f}"


def _parts(score: PlacementScore) -> str:
    parts = (
        f"{each.part} {each.points:.1f} (weight {each.weight:g})" for each in score.chosen.points
    )
    return f"{score.chosen.total:.1f}, of {', '.join(parts)}"


def _moment(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(at, UTC))
