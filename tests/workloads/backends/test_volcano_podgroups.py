"""Volcano's PodGroups: made from gangs, as values."""

from typing import Any

from kilonova.api.podgang import PodGang
from kilonova.workloads.backends import VOLCANO
from kilonova.workloads.backends.mapping import Surroundings
from kilonova.workloads.backends.queues import QUEUE_KEYS
from kilonova.workloads.backends.volcano import Volcano
from tests.workloads.backends.backend_values import gang, set_in
from tests.workloads.builders import clique, pod_clique_set, without_nulls

NEW = frozenset({"minMember", "queue", "priorityClassName", "subGroupPolicy"})


def mapped(of: PodGang, queue: str = "", fields: frozenset[str] = NEW) -> tuple[Any, str]:
    found = Volcano().pod_group(of, Surroundings(set_in(VOLCANO, queue), {}, fields))
    return without_nulls(found.body)["spec"], found.problem


def policy(name: str, size: int) -> Any:
    return {
        "name": name,
        "labelSelector": {"matchLabels": {"grove.io/podclique": name}},
        "matchLabelKeys": ["grove.io/podclique"],
        "subGroupSize": size,
        "minSubGroups": 1,
    }


def test_cliques_are_subgroups_by_the_label_of_their_pods() -> None:
    spec, problem = mapped(gang(("a", 2), ("b", 3), ("empty", 0), priority="high"), "fast")
    assert spec == {
        "minMember": 5,
        "queue": "fast",
        "priorityClassName": "high",
        "subGroupPolicy": [policy("a", 2), policy("b", 3)],
    }
    assert problem == ""


def test_an_old_volcano_knows_only_the_pods_in_all() -> None:
    spec, problem = mapped(gang(("a", 2), ("b", 3)), fields=NEW - {"subGroupPolicy"})
    assert spec == {"minMember": 5, "queue": "default"}
    assert problem == (
        "Volcano's PodGroup has no subGroupPolicy, which came with Volcano 1.14: "
        "only the number of pods in all is kept, not that of each clique"
    )


def test_gang_without_pods_still_wants_one() -> None:
    spec, _ = mapped(gang(("a", 0)))
    assert spec == {"minMember": 1, "queue": "default"}


def test_cliques_in_different_queues_get_no_pod_group() -> None:
    key = QUEUE_KEYS[VOLCANO]
    cliques = [clique("a", annotations={key: "x"}), clique("b", annotations={key: "y"})]
    found = Volcano().pod_group(gang(("a", 1)), Surroundings(pod_clique_set(*cliques), {}, NEW))
    assert found.body is None
    assert "names more than one queue" in found.problem
