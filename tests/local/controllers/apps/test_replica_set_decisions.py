"""What a ReplicaSet does, and what it says of itself."""

import msgspec

from kilonova.api.meta import OwnerReference
from kilonova.local.controllers.apps.claims import claim
from kilonova.local.controllers.apps.facts import is_available, next_availability, share_of
from kilonova.local.controllers.apps.objects import ReplicaCondition
from kilonova.local.controllers.apps.replicaset.desire import Desired, desire, status_of
from kilonova.local.controllers.apps.statuses import status_change
from kilonova.local.controllers.objects import Pod
from tests.local.controllers.apps.values import NOW, a_pod, a_set


def test_missing_pods_are_made_in_bursts() -> None:
    assert desire(a_set("s", 3), [a_pod()], [], NOW) == Desired(create=2)
    assert desire(a_set("s", 900), [], [], NOW) == Desired(create=500)


def test_surplus_pods_go() -> None:
    ready, unready = a_pod("a"), a_pod("b", ready=None)
    assert desire(a_set("s", 1), [ready, unready], [], NOW) == Desired(delete=(unready,))


def test_a_set_that_is_going_does_nothing() -> None:
    going = a_set("s", 3)
    going.metadata = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-05-01")
    assert desire(going, [], [], NOW) == Desired()


def test_counts_ready_available_and_fully_labelled_pods() -> None:
    replica_set = a_set("s", 3)
    replica_set.spec = msgspec.structs.replace(replica_set.spec, min_ready_seconds=60)
    pods = [
        a_pod("a", ready=100, labels={"app": "web", "more": "x"}),
        a_pod("b", ready=30, labels={"app": "web"}),
        a_pod("c", ready=None),
    ]
    status = status_of(replica_set, pods, 1, None, NOW)
    assert status.as_json() == {
        "replicas": 3,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 1,
    }
    assert next_availability(pods, 60, NOW) == 30


def test_a_failure_is_told_once_and_taken_back() -> None:
    replica_set = a_set("s", 2)
    failed = status_of(replica_set, [a_pod()], 0, "no more", NOW)
    told = ReplicaCondition(
        "ReplicaFailure", "True", "2026-05-01T12:00:00Z", "FailedCreate", "no more"
    )
    assert failed.conditions == (told,)
    replica_set.status = failed
    assert status_of(replica_set, [a_pod()], 0, "still no more", NOW).conditions == (told,)
    assert status_of(replica_set, [a_pod()], 0, None, NOW).conditions == ()
    surplus = status_of(a_set("s", 0), [a_pod()], 0, "no", NOW)
    assert surplus.conditions[0].reason == "FailedDelete"


def test_only_what_changed_is_written_and_zeros_are_taken_back() -> None:
    before = status_of(a_set("s", 1), [a_pod()], 0, None, NOW)
    after = status_of(a_set("s", 1), [a_pod(ready=None)], 0, None, NOW)
    assert status_change(before, after) == {"readyReplicas": None, "availableReplicas": None}
    assert status_change(after, after) == {}
    empty = status_of(a_set("s", 0), [], None, None, NOW)
    assert empty.as_json() == {"replicas": 0, "observedGeneration": 1}


def owned(name: str, owner: str, app: str = "web", *, going: bool = False) -> Pod:
    pod = a_pod(name, labels={"app": app}, going=going)
    references = (OwnerReference("apps/v1", "ReplicaSet", owner, owner, True),) if owner else ()
    pod.metadata = msgspec.structs.replace(pod.metadata, owner_references=references)
    return pod


def test_a_set_keeps_adopts_and_releases() -> None:
    kept, stranger, lost = owned("a", "s"), owned("b", "other"), owned("c", "s", "moved")
    free, going, unlike = owned("d", ""), owned("e", "", going=True), owned("f", "", "moved")
    owner = a_set("s", 3).metadata
    pods = [kept, stranger, lost, free, going, unlike]
    found = claim(owner, pods, lambda pod: pod.metadata.labels["app"] == "web")
    assert (found.kept, found.adopted, found.released) == ([kept], [free], [lost])
    leaving = msgspec.structs.replace(owner, deletion_timestamp="2026-05-01")
    found = claim(leaving, pods, lambda pod: pod.metadata.labels["app"] == "web")
    assert (found.kept, found.adopted, found.released) == ([kept], [], [])


def test_availability_is_readiness_that_lasts() -> None:
    assert is_available(a_pod(ready=60), 60, NOW)
    assert not is_available(a_pod(ready=59), 60, NOW)
    assert is_available(a_pod(ready=0), 0, NOW)
    assert not is_available(a_pod(ready=None), 0, NOW)


def test_shares_are_rounded() -> None:
    assert share_of("25%", 10, up=True) == 3
    assert share_of("25%", 10, up=False) == 2
    assert share_of(7, 10, up=True) == 7
    assert share_of("nonsense", 10, up=True) == 0
