"""The queue forest, and the problems of queue specs."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import DEFAULT_QUEUE, QueueSpec
from tests.scheduler.core.support.queue_cases import GPU, any_specs, two_departments


def problems(*specs: QueueSpec) -> list[tuple[str, str, str]]:
    return [(each.queue, each.reason, str(each)) for each in build_queue_forest(specs).problems]


def test_queue_has_path_to_root() -> None:
    forest = two_departments()
    assert forest.path("physics") == ("physics", "science")
    assert forest.path("science") == ("science",)
    assert forest.path("gone") == ("gone",)
    assert forest.roots == ("default", "products", "science")
    assert forest.queues["science"].children == ("biology", "physics")
    assert forest.problems == ()


def test_default_queue_exists_unless_declared() -> None:
    assert build_queue_forest([]).queues[DEFAULT_QUEUE].limit == {}
    assert build_queue_forest([]).queues[DEFAULT_QUEUE].weight == 1
    made = build_queue_forest([QueueSpec(DEFAULT_QUEUE, limit={GPU: 2})])
    assert made.queues[DEFAULT_QUEUE].limit == {GPU: 2}


def test_parent_without_deserved_sums_its_children() -> None:
    forest = two_departments()
    assert forest.queues["science"].deserved == {GPU: 8}
    assert forest.queues["physics"].deserved == {GPU: 4}


def test_min_runtimes_are_inherited_from_nearest_queue() -> None:
    forest = build_queue_forest(
        [
            QueueSpec("a", preempt_min_runtime=60, reclaim_min_runtime=30),
            QueueSpec("b", parent="a", reclaim_min_runtime=0),
            QueueSpec("c", parent="b"),
        ]
    )
    queue = forest.queues["c"]
    assert (queue.preempt_min_runtime, queue.reclaim_min_runtime) == (60, 0)
    assert forest.queues[DEFAULT_QUEUE].preempt_min_runtime == 0


def test_an_unknown_parent_is_named() -> None:
    assert problems(QueueSpec("a", parent="b")) == [
        (
            "a",
            "QueueParentNotFound",
            'queue "a" has the parent "b", which does not exist: '
            'create "b", or name another parent',
        )
    ]


def test_every_queue_of_a_cycle_reports_the_cycle() -> None:
    specs = [QueueSpec("c", parent="a"), QueueSpec("a", parent="b"), QueueSpec("b", parent="c")]
    reported = problems(*specs)
    assert [(name, reason) for name, reason, _ in reported] == [
        ("a", "QueueParentCycle"),
        ("b", "QueueParentCycle"),
        ("c", "QueueParentCycle"),
    ]
    assert all("a → b → c → a" in message for _, _, message in reported)
    assert "a → a" in problems(QueueSpec("a", parent="a"))[0][2]


def test_queues_below_a_blocked_queue_are_blocked() -> None:
    forest = build_queue_forest(
        [
            QueueSpec("a", parent="b"),
            QueueSpec("b", parent="a"),
            QueueSpec("under", parent="a"),
            QueueSpec("orphan", parent="nowhere"),
            QueueSpec("child", parent="orphan"),
            QueueSpec("well"),
        ]
    )
    reasons = {
        name: fault.reason for name in forest.queues if (fault := forest.blocking_problem(name))
    }
    assert reasons == {
        "a": "QueueParentCycle",
        "b": "QueueParentCycle",
        "under": "QueueParentNotReady",
        "orphan": "QueueParentNotFound",
        "child": "QueueParentNotReady",
    }
    assert 'queue "child" is below "orphan"' in str(forest.blocking_problem("child"))
    assert 'create "nowhere"' in str(forest.admission_problem("child"))
    assert forest.roots == ("default", "well")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (QueueSpec("a", deserved={GPU: -1}), f"deserved[{GPU}] -1, below 0: raise it to 0"),
        (QueueSpec("a", limit={GPU: -1}), f"limit[{GPU}] -1, below 0: leave it out for no limit"),
        (QueueSpec("a", weight=-2), "weight -2, below 0"),
        (QueueSpec("a", preempt_min_runtime=-1.0), "preemptMinRuntime -1.0, below 0"),
        (QueueSpec("a", reclaim_min_runtime=-1.0), "reclaimMinRuntime -1.0, below 0"),
    ],
)
def test_negative_amounts_block_a_queue(spec: QueueSpec, words: str) -> None:
    ((queue, reason, message),) = problems(spec)
    assert (queue, reason) == ("a", "QueueNegativeAmount")
    assert words in message
    unschedulable = build_queue_forest([spec]).admission_problem("a")
    assert unschedulable is not None
    assert unschedulable.reason == "QueueNegativeAmount"


def test_limit_caps_deserved() -> None:
    spec = QueueSpec("a", deserved={GPU: 8}, limit={GPU: 4})
    ((queue, reason, message),) = problems(spec)
    assert (queue, reason) == ("a", "LimitBelowDeserved")
    assert f"deserves 8 {GPU}, above its limit of 4" in message
    assert build_queue_forest([spec]).queues["a"].deserved == {GPU: 4}
    assert build_queue_forest([spec]).admission_problem("a") is None


def test_children_deserving_more_than_parent_are_reported() -> None:
    children = [QueueSpec(name, parent="a", deserved={GPU: 3}) for name in ("b", "c")]
    ((queue, reason, message),) = problems(QueueSpec("a", deserved={GPU: 5}), *children)
    assert (queue, reason) == ("a", "DeservedAboveParent")
    assert f"deserve 6 {GPU} together" in message
    assert problems(QueueSpec("a", deserved={GPU: 6}), *children) == []


def test_admission_problem_of_a_gang() -> None:
    forest = two_departments()
    assert str(forest.admission_problem("nowhere")) == (
        'there is no queue "nowhere": create it, or name another queue'
    )
    assert str(forest.admission_problem("science")) == (
        'queue "science" has child queues: name one of them: biology, physics'
    )
    assert forest.admission_problem("physics") is None


def test_duplicate_queue_names_are_rejected() -> None:
    with pytest.raises(ValueError, match="same name"):
        build_queue_forest([QueueSpec("a"), QueueSpec("a")])


@given(any_specs(), st.randoms())
def test_forest_is_independent_of_order(specs: list[QueueSpec], random: Random) -> None:
    forest = build_queue_forest(specs)
    shuffled = list(specs)
    random.shuffle(shuffled)
    assert build_queue_forest(shuffled) == forest
    assert list(build_queue_forest(shuffled).queues) == list(forest.queues)
    for name, queue in forest.queues.items():
        assert queue.path[0] == name
        assert len(set(queue.path)) == len(queue.path)
        assert all(name in forest.queues[each].children for each in queue.path[1:2])
        in_tree = queue.path[-1] in forest.roots
        assert in_tree or forest.blocking_problem(name) is not None
