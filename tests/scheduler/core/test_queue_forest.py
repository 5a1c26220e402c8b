"""Queues find their places, and whatever is wrong with them is told."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.queues import DEFAULT, QueueSpec
from tests.scheduler.core.queue_cases import GPU, any_specs, two_departments


def problems(*specs: QueueSpec) -> list[tuple[str, str, str]]:
    return [(each.queue, each.reason, str(each)) for each in forest_of(specs).problems]


def test_a_queue_knows_its_way_up() -> None:
    forest = two_departments()
    assert forest.path("physics") == ("physics", "science")
    assert forest.path("science") == ("science",)
    assert forest.path("gone") == ("gone",)
    assert forest.roots == ("default", "products", "science")
    assert forest.queues["science"].children == ("biology", "physics")
    assert forest.problems == ()


def test_the_default_queue_is_there_unless_somebody_made_it() -> None:
    assert forest_of([]).queues[DEFAULT].limit == {}
    assert forest_of([]).queues[DEFAULT].weight == 1
    made = forest_of([QueueSpec(DEFAULT, limit={GPU: 2})])
    assert made.queues[DEFAULT].limit == {GPU: 2}


def test_a_parent_that_says_nothing_deserves_what_its_children_do() -> None:
    forest = two_departments()
    assert forest.queues["science"].deserved == {GPU: 8}
    assert forest.queues["physics"].deserved == {GPU: 4}


def test_run_times_are_those_of_the_nearest_queue_that_says_one() -> None:
    forest = forest_of(
        [
            QueueSpec("a", preempt_min_runtime=60, reclaim_min_runtime=30),
            QueueSpec("b", parent="a", reclaim_min_runtime=0),
            QueueSpec("c", parent="b"),
        ]
    )
    queue = forest.queues["c"]
    assert (queue.preempt_min_runtime, queue.reclaim_min_runtime) == (60, 0)
    assert forest.queues[DEFAULT].preempt_min_runtime == 0


def test_an_unknown_parent_is_named() -> None:
    assert problems(QueueSpec("a", parent="b")) == [
        (
            "a",
            "UnknownParent",
            'queue "a" has the parent "b", which is not there: create "b", or name another parent',
        )
    ]


def test_every_queue_of_a_cycle_is_told_the_whole_of_it() -> None:
    specs = [QueueSpec("c", parent="a"), QueueSpec("a", parent="b"), QueueSpec("b", parent="c")]
    told = problems(*specs)
    assert [(name, reason) for name, reason, _ in told] == [
        ("a", "ParentCycle"),
        ("b", "ParentCycle"),
        ("c", "ParentCycle"),
    ]
    assert all("a → b → c → a" in message for _, _, message in told)
    assert "a → a" in problems(QueueSpec("a", parent="a"))[0][2]


def test_what_is_below_a_faulty_queue_waits_with_it() -> None:
    forest = forest_of(
        [
            QueueSpec("a", parent="b"),
            QueueSpec("b", parent="a"),
            QueueSpec("under", parent="a"),
            QueueSpec("orphan", parent="nowhere"),
            QueueSpec("child", parent="orphan"),
            QueueSpec("well"),
        ]
    )
    reasons = {name: fault.reason for name in forest.queues if (fault := forest.fault(name))}
    assert reasons == {
        "a": "ParentCycle",
        "b": "ParentCycle",
        "under": "ParentNotReady",
        "orphan": "UnknownParent",
        "child": "ParentNotReady",
    }
    assert 'queue "child" is below "orphan"' in str(forest.fault("child"))
    assert 'create "nowhere"' in str(forest.refusal("child"))
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
def test_amounts_below_nothing_keep_a_queue_closed(spec: QueueSpec, words: str) -> None:
    ((queue, reason, message),) = problems(spec)
    assert (queue, reason) == ("a", "NegativeAmount")
    assert words in message
    refusal = forest_of([spec]).refusal("a")
    assert refusal is not None
    assert refusal.reason == "NegativeAmount"


def test_a_limit_holds_against_what_is_deserved() -> None:
    spec = QueueSpec("a", deserved={GPU: 8}, limit={GPU: 4})
    ((queue, reason, message),) = problems(spec)
    assert (queue, reason) == ("a", "LimitBelowDeserved")
    assert f"deserves 8 {GPU}, above its limit of 4" in message
    assert forest_of([spec]).queues["a"].deserved == {GPU: 4}
    assert forest_of([spec]).refusal("a") is None


def test_children_that_deserve_more_than_their_parent_are_told() -> None:
    children = [QueueSpec(name, parent="a", deserved={GPU: 3}) for name in ("b", "c")]
    ((queue, reason, message),) = problems(QueueSpec("a", deserved={GPU: 5}), *children)
    assert (queue, reason) == ("a", "DeservedAboveParent")
    assert f"deserve 6 {GPU} together" in message
    assert problems(QueueSpec("a", deserved={GPU: 6}), *children) == []


def test_a_gang_is_told_why_its_queue_takes_none() -> None:
    forest = two_departments()
    assert str(forest.refusal("nowhere")) == (
        'there is no queue "nowhere": create it, or name another queue'
    )
    assert str(forest.refusal("science")) == (
        'queue "science" is divided into other queues: name one of them: biology, physics'
    )
    assert forest.refusal("physics") is None


def test_two_queues_of_one_name_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="same name"):
        forest_of([QueueSpec("a"), QueueSpec("a")])


@given(any_specs(), st.randoms())
def test_any_queues_form_the_same_forest_in_any_order(
    specs: list[QueueSpec], random: Random
) -> None:
    forest = forest_of(specs)
    shuffled = list(specs)
    random.shuffle(shuffled)
    assert forest_of(shuffled) == forest
    assert list(forest_of(shuffled).queues) == list(forest.queues)
    for name, queue in forest.queues.items():
        assert queue.path[0] == name
        assert len(set(queue.path)) == len(queue.path)
        assert all(name in forest.queues[each].children for each in queue.path[1:2])
        in_tree = queue.path[-1] in forest.roots
        assert in_tree or forest.fault(name) is not None
