"""Clusters that members get when they first report."""

from kilonova.fleet.documents import Observed
from kilonova.fleet.manager.hub import FINALIZER, ObjectId
from kilonova.fleet.manager.hub_plan import plan_registrations


def test_member_that_reports_gets_a_cluster_with_region_and_console() -> None:
    report = Observed(cluster="dal1", sequence=1, region="us-south", console="http://c/")
    (write,) = plan_registrations((), {"dal1": report})
    assert write.create == {
        "metadata": {
            "name": "dal1",
            "annotations": {"fleet.kilonova.dev/console": "http://c/"},
            "finalizers": [FINALIZER],
        },
        "spec": {"region": "us-south"},
    }


def test_member_that_says_nothing_of_itself_gets_a_bare_cluster() -> None:
    (write,) = plan_registrations((), {"dal1": Observed(cluster="dal1", sequence=1)})
    assert write.create is not None
    assert write.create["spec"] == {}
    assert write.create["metadata"]["annotations"] == {}


def test_member_with_a_cluster_is_not_registered_again() -> None:
    known = (ObjectId("Cluster", "", "dal1"),)
    assert plan_registrations(known, {"dal1": Observed(cluster="dal1", sequence=1)}) == []
