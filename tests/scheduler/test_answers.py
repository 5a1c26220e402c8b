"""Why a pod or a gang has the place that it has, or none; what is in a picture."""

from dataclasses import replace

from kilonova.scheduler.answering import Answer, answer, names_in
from kilonova.scheduler.core.asks import GpuAsk
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.queueview import queues_in
from kilonova.scheduler.summary import summary_of
from tests.scheduler.pictures import example, waits


def ask(picture: Picture, name: str) -> Answer:
    found = answer(picture, "ns", name)
    assert found is not None
    return found


def test_a_gang_without_room_is_told_what_binds_and_what_nodes_say():
    found = ask(replace(example(), queues=()), "far")
    assert found.state == "Waiting"
    assert found.explanation is not None
    assert found.explanation.binding.kind == "NoNode"
    assert found.explanation.tallies[0].nodes == 2


def test_a_gang_over_the_limit_of_its_queue_is_told_the_smallest_change():
    crowded = replace(example(), waiting=tuple(waits(f"w{each}", GpuAsk(1)) for each in range(3)))
    held = replace(crowded, queues=(QueueSpec("default", limit={"nvidia.com/gpu": 2000}),))
    found = next(ask(held, f"w{each}") for each in range(3) if ask(held, f"w{each}").explanation)
    assert found.explanation is not None
    assert found.explanation.binding.kind == "QueueLimit"
    assert "raise the limit" in found.explanation.changes[0].text


def test_a_gang_that_only_waits_for_its_turn_is_told_its_place():
    found = ask(example(), "half")
    assert found.state == "Next"
    assert found.next is not None
    assert [each.pod for each in found.next.pods] == ["ns/half"]
    assert found.explanation is None


def test_a_gang_that_stands_is_told_where_since_when_and_why_there():
    found = ask(example(), "stands")
    assert (found.state, found.since) == ("Placed", 5.0)
    (pod,) = found.pods
    assert pod.devices == "0" or pod.devices == "1"
    assert pod.score is not None
    assert pod.score.chosen.node == pod.node
    assert {each.part for each in pod.score.chosen.points} == {
        "wishes",
        "topology",
        "fit",
        "balance",
    }


def test_a_gang_that_is_not_complete_is_told_what_it_lacks():
    found = ask(example(), "g")
    assert found.state == "NotYet"
    assert found.not_yet is not None
    assert found.not_yet.reason == "PodsNotThere"


def test_nobody_has_heard_of_others():
    assert answer(example(), "ns", "nobody") is None
    assert answer(example(), "other", "half") is None


def test_all_that_could_be_asked_about_is_listed():
    assert set(names_in(example())) == {
        "ns/stands",
        "ns/slice",
        "ns/whole",
        "ns/picky",
        "ns/apart",
        "ns/half",
        "ns/far",
        "ns/g",
    }


def test_a_summary_counts_devices_by_their_state():
    summary = summary_of(example())
    (model,) = summary.gpus
    assert (model.nodes, model.devices) == (2, 4)
    assert model.free + model.part_used + model.used + model.unhealthy == 4
    assert (model.used, model.part_used) == (1, 1)
    assert summary.fragments.fits[1] == model.free
    assert (summary.nodes, summary.pods, summary.standing, summary.not_yet) == (2, 2, 2, 1)
    assert len(summary.waiting) == 5


def test_queues_come_as_a_tree():
    specs = (QueueSpec("b", "top"), QueueSpec("a", "top", limit={"cpu": 1500}), QueueSpec("top"))
    views = queues_in(replace(example(), queues=specs))
    assert [(each.name, each.depth, each.parent) for each in views] == [
        ("default", 0, ""),
        ("top", 0, ""),
        ("a", 1, "top"),
        ("b", 1, "top"),
    ]
    assert views[2].limit == {"cpu": "1500m"}
    assert views[0].pending_gangs == len(views[0].waiting) == 5
