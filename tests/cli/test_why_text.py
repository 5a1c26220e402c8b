"""How `kilonova why`, and others that tell of places, put what they have found out."""

from dataclasses import replace

import pytest

from kilonova.cli.decisiontext import decisions_text
from kilonova.cli.whytext import answer_text
from kilonova.scheduler.answering import answer
from kilonova.scheduler.decisions import Decisions, KeptRoom, RefusedGang
from kilonova.scheduler.reading.gangs import NotYet
from tests.scheduler.pictures import example

WRITTEN = "mine\nnot so\x1b]0;title\x07\x9b2J"
SHOWN = "mine not so]0;title2J"


@pytest.mark.parametrize(
    ("total", "said"),
    [
        (50.0, "The next best would be other with 50.0"),
        (99.9, "other scores more now: 99.9. These scores know neither how things were"),
    ],
    ids=["less", "more"],
)
def test_a_node_that_scores_more_today_is_not_called_the_next_best(total: float, said: str):
    found = answer(example(), "ns", "stands")
    assert found is not None
    [pod] = found.pods
    assert pod.score is not None
    other = replace(pod.score.chosen, node="other", total=total)
    beside = replace(found, pods=(replace(pod, score=replace(pod.score, runner_up=other)),))
    assert said in answer_text(beside, 60.0)


def test_what_others_wrote_stays_in_its_line_and_commands_no_terminal():
    found = answer(example(), "ns", "stands")
    assert found is not None
    [pod] = found.pods
    written = replace(
        found,
        gang=f"podgroup.scheduling.x-k8s.io/ns/{WRITTEN}",
        not_yet=NotYet("PodsNotThere", WRITTEN),
        pods=(replace(pod, devices=WRITTEN, score=None, trouble=WRITTEN), pod),
    )
    lines = answer_text(written, 60.0).split("\n")
    assert all(line.isprintable() for line in lines), lines
    assert [line.split(maxsplit=1)[0] for line in lines if SHOWN in line] == [
        "Gang",
        "PodsNotThere:",
        "ns/stands",
        "Trouble",
    ]
    titles, first, second = lines[3:6]
    assert titles.index("SCORE") == first.rindex("-") == second.rindex("   ") + 3, lines


def test_what_others_wrote_commands_no_terminal_in_decisions():
    refused = RefusedGang(WRITTEN, WRITTEN, "NoRoom", WRITTEN)
    decided = Decisions(0.0, (), (refused,), KeptRoom(WRITTEN, 0.0, (WRITTEN,)))
    lines = decisions_text(decided).split("\n")
    assert all(line.isprintable() for line in lines), lines
    assert sum(SHOWN in line for line in lines) == 3, lines
