"""Texts of `kilonova why` and of scheduling decisions."""

from dataclasses import replace

import pytest

from kilonova.cli.plan.decision_text import format_decisions
from kilonova.cli.why.answer_text import format_answer
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.library.decisions import (
    BackfillReservationReport,
    RejectedGang,
    SchedulingDecisions,
)
from kilonova.scheduler.library.placement_report import report_placement
from tests.scheduler.harness.snapshots import example_snapshot

HOSTILE = "mine\nnot so\x1b]0;title\x07\x9b2J"
PRINTED = "mine not so]0;title2J"


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (50.0, "The next best would be other with 50.0"),
        (99.9, "other scores higher now: 99.9. Scores are computed from the current state"),
    ],
    ids=["less", "more"],
)
def test_node_with_a_higher_score_is_not_called_the_next_best(total: float, text: str):
    found = report_placement(example_snapshot(), "ns", "steady")
    assert found is not None
    [pod] = found.pods
    assert pod.score is not None
    other = replace(pod.score.chosen, node="other", total=total)
    changed = replace(found, pods=(replace(pod, score=replace(pod.score, runner_up=other)),))
    assert text in format_answer(changed, 60.0)


def test_user_text_stays_in_its_line_without_control_characters():
    found = report_placement(example_snapshot(), "ns", "steady")
    assert found is not None
    [pod] = found.pods
    hostile = replace(
        found,
        gang=f"podgroup.scheduling.x-k8s.io/ns/{HOSTILE}",
        not_ready=GangNotReady("PodsNotFound", HOSTILE),
        pods=(replace(pod, devices=HOSTILE, score=None, problem=HOSTILE), pod),
    )
    lines = format_answer(hostile, 60.0).split("\n")
    assert all(line.isprintable() for line in lines), lines
    assert [line.split(maxsplit=1)[0] for line in lines if PRINTED in line] == [
        "Gang",
        "PodsNotFound:",
        "ns/steady",
        "Problem",
    ]
    titles, first, second = lines[3:6]
    assert titles.index("SCORE") == first.rindex("-") == second.rindex("   ") + 3, lines


def test_decisions_contain_no_control_characters():
    rejected = RejectedGang(HOSTILE, HOSTILE, "InsufficientCapacity", HOSTILE)
    decisions = SchedulingDecisions(
        0.0, (), (rejected,), BackfillReservationReport(HOSTILE, 0.0, (HOSTILE,))
    )
    lines = format_decisions(decisions).split("\n")
    assert all(line.isprintable() for line in lines), lines
    assert sum(PRINTED in line for line in lines) == 3, lines
