"""Volcano's PodGroups: made from gangs, as values."""

from typing import Any

from kilonova.api.podgang import PodGang
from kilonova.workloads.backends import VOLCANO
from kilonova.workloads.backends.interface import PodGroupContext
from kilonova.workloads.backends.queues import QUEUE_KEYS
from kilonova.workloads.backends.volcano import VolcanoBackend
from tests.workloads.api_objects import clique, pod_clique_set, without_nulls
from tests.workloads.backends.backend_objects import build_gang, build_queued_set

NEW = frozenset({"minMember", "queue", "priorityClassName", "subGroupPolicy"})


def map_gang(of: PodGang, queue: str = "", fields: frozenset[str] = NEW) -> tuple[Any, str]:
    found = VolcanoBackend().build_pod_group(
        of, PodGroupContext(build_queued_set(VOLCANO, queue), {}, fields)
    )
    return without_nulls(found.body)["spec"], found.problem


def build_sub_group_policy(name: str, size: int) -> Any:
    return {
        "name": name,
        "labelSelector": {"matchLabels": {"grove.io/podclique": name}},
        "matchLabelKeys": ["grove.io/podclique"],
        "subGroupSize": size,
        "minSubGroups": 1,
    }


def test_cliques_are_subgroups_by_the_label_of_their_pods() -> None:
    spec, problem = map_gang(build_gang(("a", 2), ("b", 3), ("empty", 0), priority="high"), "fast")
    assert spec == {
        "minMember": 5,
        "queue": "fast",
        "priorityClassName": "high",
        "subGroupPolicy": [build_sub_group_policy("a", 2), build_sub_group_policy("b", 3)],
    }
    assert problem == ""


def test_old_volcano_gets_only_the_total_number_of_pods() -> None:
    spec, problem = map_gang(build_gang(("a", 2), ("b", 3)), fields=NEW - {"subGroupPolicy"})
    assert spec == {"minMember": 5, "queue": "default"}
    assert problem == (
        "Volcano's PodGroup has no subGroupPolicy, which needs Volcano 1.14: "
        "only the total number of pods is guaranteed, not the number of each clique"
    )


def test_gang_without_pods_has_min_member_one() -> None:
    spec, _ = map_gang(build_gang(("a", 0)))
    assert spec == {"minMember": 1, "queue": "default"}


def test_cliques_in_different_queues_get_no_pod_group() -> None:
    key = QUEUE_KEYS[VOLCANO]
    cliques = [clique("a", annotations={key: "x"}), clique("b", annotations={key: "y"})]
    found = VolcanoBackend().build_pod_group(
        build_gang(("a", 1)), PodGroupContext(pod_clique_set(*cliques), {}, NEW)
    )
    assert found.body is None
    assert "names more than one queue" in found.problem
