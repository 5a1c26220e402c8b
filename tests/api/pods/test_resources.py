"""Effective requests and limits of pods."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.pods.resources import pod_limits, pod_requests, sum_containers
from kilonova.api.quantity import parse_quantity

Amounts = Mapping[str, int]
InitContainers = list[tuple[Amounts, str | None]]


@pytest.mark.parametrize(
    ("containers", "init_containers", "expected"),
    [
        ([], [], {}),
        ([{"cpu": 1, "gpu": 0}, {"cpu": 2, "memory": 3}], [], {"cpu": 3, "gpu": 0, "memory": 3}),
        ([{"cpu": 3}], [({"cpu": 2}, None), ({"cpu": 1, "gpu": 4}, "")], {"cpu": 3, "gpu": 4}),
        ([{"cpu": 1}], [({"cpu": 2}, "Always"), ({"cpu": 3}, "Always")], {"cpu": 6}),
        ([{"cpu": 1}], [({"cpu": 2}, "Always"), ({"cpu": 4}, None)], {"cpu": 6}),
        ([{"cpu": 1}], [({"cpu": 4}, None), ({"cpu": 2}, "Always")], {"cpu": 4}),
        ([{"cpu": 1}], [({"cpu": 4}, "Never"), ({"cpu": 5}, "OnFailure")], {"cpu": 5}),
    ],
    ids=[
        "nothing",
        "containers run together",
        "init containers run one by one",
        "sidecars run with the containers",
        "an init container runs with the sidecars before it",
        "and not with those after it",
        "only Always makes a sidecar",
    ],
)
def test_containers_count_when_they_run_together(
    containers: list[Amounts], init_containers: InitContainers, expected: Amounts
) -> None:
    assert sum_containers(containers, init_containers) == expected


_amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 9))
_init_containers = st.lists(st.tuples(_amounts, st.sampled_from([None, "", "Always"])), max_size=5)


@given(st.lists(_amounts, max_size=4), _init_containers)
def test_sum_is_the_maximum_over_the_life_of_a_pod(
    containers: list[dict[str, int]], init_containers: list[tuple[dict[str, int], str | None]]
) -> None:
    sidecars: list[dict[str, int]] = []
    phases: list[list[dict[str, int]]] = []
    for amounts, restart_policy in init_containers:
        phases.append([*sidecars, amounts])
        if restart_policy == "Always":
            sidecars.append(amounts)
    phases.append([*sidecars, *containers])
    expected = {
        name: max(sum(each.get(name, 0) for each in phase) for phase in phases)
        for name in {name for phase in phases for each in phase for name in each}
    }
    assert sum_containers(containers, init_containers) == expected


def test_pod_level_requests_replace_those_of_containers() -> None:
    pod_level = {"cpu": 10, "hugepages-2Mi": 4, "nvidia.com/gpu": 9}
    found = pod_requests([{"cpu": 1, "memory": 2, "nvidia.com/gpu": 1}], [], pod_level, {})
    assert found == {"cpu": 10, "memory": 2, "hugepages-2Mi": 4, "nvidia.com/gpu": 1}


def test_overhead_is_added_to_all_requests() -> None:
    overhead = {"cpu": 1, "memory": 5}
    assert pod_requests([{"cpu": 1}], [], {"cpu": 2}, overhead) == {"cpu": 3, "memory": 5}


def test_overhead_is_added_only_to_existing_limits() -> None:
    overhead = {"cpu": 1, "memory": 5, "gpu": 1}
    found = pod_limits([{"cpu": 0, "gpu": 2}], [({"gpu": 3}, None)], {}, overhead)
    assert found == {"cpu": 0, "gpu": 4}


def test_a_sum_of_quantities_has_the_format_of_the_first() -> None:
    first, second = {"memory": parse_quantity("1Gi")}, {"memory": parse_quantity("1G")}
    assert str(sum_containers([first], [(second, "Always")])["memory"]) == "2073741824"
    assert str(sum_containers([second], [({"memory": parse_quantity("2Gi")}, None)])["memory"]) == (
        "2Gi"
    )
