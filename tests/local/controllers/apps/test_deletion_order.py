"""Which pods of a ReplicaSet go first."""

import pytest

from kilonova.local.controllers.apps.replicaset.order import DELETION_COST, first_to_go
from kilonova.local.controllers.objects import Pod
from tests.local.controllers.apps.values import NOW, a_pod


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        pytest.param(a_pod("a", node=""), a_pod("b", phase="Pending", ready=None), id="unplaced"),
        pytest.param(a_pod("a", phase="Pending"), a_pod("b", ready=None), id="pending"),
        pytest.param(a_pod("a", ready=None), a_pod("b"), id="unready"),
        pytest.param(
            a_pod("a", annotations={DELETION_COST: "-5"}, ready=500), a_pod("b"), id="cheap"
        ),
        pytest.param(
            a_pod("a", annotations={DELETION_COST: "+9"}, ready=2),
            a_pod("b", annotations={DELETION_COST: "0"}),
            id="a cost that is none counts nothing",
        ),
        pytest.param(a_pod("a", ready=10), a_pod("b", ready=1000), id="ready for less long"),
        pytest.param(a_pod("a", restarts=3), a_pod("b", restarts=1), id="restarted more often"),
        pytest.param(a_pod("a", age=10), a_pod("b", age=1000), id="younger"),
        pytest.param(
            a_pod("a", ready=1000), a_pod("b", ready=900), id="about equal: by uid, not by time"
        ),
    ],
)
def test_the_less_missed_goes_first(goes: Pod, stays: Pod) -> None:
    for pods in ([goes, stays], [stays, goes]):
        assert first_to_go(pods, [], 1, NOW) == [goes]


def test_doubled_up_pods_go_before_lonely_ones() -> None:
    crowded, lonely = a_pod("a", node="n-0", ready=5000), a_pod("b", node="n-1", ready=10)
    related = [crowded, lonely, a_pod("c", node="n-0"), a_pod("d", node="n-1", going=True)]
    assert first_to_go([lonely, crowded], related, 1, NOW) == [crowded]


def test_all_of_them_go_in_any_order() -> None:
    pods = [a_pod("a"), a_pod("b")]
    assert first_to_go(pods, [], 2, NOW) == pods
