"""Which pods of a ReplicaSet are deleted first."""

import pytest

from kilonova.local.controllers.apps.replicaset.deletion_order import (
    DELETION_COST,
    select_pods_to_delete,
)
from kilonova.local.objects.core import Pod
from tests.local.controllers.apps.builders import NOW, build_pod


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        pytest.param(
            build_pod("a", node=""), build_pod("b", phase="Pending", ready=None), id="unplaced"
        ),
        pytest.param(build_pod("a", phase="Pending"), build_pod("b", ready=None), id="pending"),
        pytest.param(build_pod("a", ready=None), build_pod("b"), id="unready"),
        pytest.param(
            build_pod("a", annotations={DELETION_COST: "-5"}, ready=500), build_pod("b"), id="cheap"
        ),
        pytest.param(
            build_pod("a", annotations={DELETION_COST: "+9"}, ready=2),
            build_pod("b", annotations={DELETION_COST: "0"}),
            id="an invalid cost is ignored",
        ),
        pytest.param(
            build_pod("a", ready=10), build_pod("b", ready=1000), id="ready for less long"
        ),
        pytest.param(
            build_pod("a", restarts=3), build_pod("b", restarts=1), id="restarted more often"
        ),
        pytest.param(build_pod("a", age=10), build_pod("b", age=1000), id="younger"),
        pytest.param(
            build_pod("a", ready=1000),
            build_pod("b", ready=900),
            id="about equal: by uid, not by time",
        ),
    ],
)
def test_deletion_order_of_two_pods(goes: Pod, stays: Pod) -> None:
    for pods in ([goes, stays], [stays, goes]):
        assert select_pods_to_delete(pods, [], 1, NOW) == [goes]


def test_colocated_pods_are_deleted_first() -> None:
    crowded, lonely = build_pod("a", node="n-0", ready=5000), build_pod("b", node="n-1", ready=10)
    related = [
        crowded,
        lonely,
        build_pod("c", node="n-0"),
        build_pod("d", node="n-1", terminating=True),
    ]
    assert select_pods_to_delete([lonely, crowded], related, 1, NOW) == [crowded]


def test_deletion_of_all_pods_needs_no_order() -> None:
    pods = [build_pod("a"), build_pod("b")]
    assert select_pods_to_delete(pods, [], 2, NOW) == pods
