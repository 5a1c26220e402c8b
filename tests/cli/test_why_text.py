"""How `kilonova why` puts the score of a pod's node beside that of the best other one."""

from dataclasses import replace

import pytest

from kilonova.cli.whytext import answer_text
from kilonova.scheduler.answering import answer
from tests.scheduler.pictures import example


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
