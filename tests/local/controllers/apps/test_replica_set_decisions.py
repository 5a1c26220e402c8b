"""The next step of a ReplicaSet, and its status."""

import msgspec

from kilonova.api.meta import OwnerReference
from kilonova.local.controllers.apps.controller_refs import match_controlled_objects
from kilonova.local.controllers.apps.objects import ReplicaCondition
from kilonova.local.controllers.apps.pod_state import (
    is_available,
    resolve_int_or_percent,
    seconds_to_next_available,
)
from kilonova.local.controllers.apps.replicaset.desire import DesiredPods, compute_status, desire
from kilonova.local.controllers.apps.status_writer import build_status_patch
from kilonova.local.objects.core import Pod
from tests.local.controllers.apps.builders import NOW, build_pod, build_replica_set


def test_missing_pods_are_created_in_bursts() -> None:
    assert desire(build_replica_set("s", 3), [build_pod()], [], NOW) == DesiredPods(create=2)
    assert desire(build_replica_set("s", 900), [], [], NOW) == DesiredPods(create=500)


def test_surplus_pods_are_deleted() -> None:
    ready, unready = build_pod("a"), build_pod("b", ready=None)
    assert desire(build_replica_set("s", 1), [ready, unready], [], NOW) == DesiredPods(
        delete=(unready,)
    )


def test_terminating_replica_set_does_nothing() -> None:
    terminating = build_replica_set("s", 3)
    terminating.metadata = msgspec.structs.replace(
        terminating.metadata, deletion_timestamp="2026-05-01"
    )
    assert desire(terminating, [], [], NOW) == DesiredPods()


def test_counts_ready_available_and_fully_labelled_pods() -> None:
    replica_set = build_replica_set("s", 3)
    replica_set.spec = msgspec.structs.replace(replica_set.spec, min_ready_seconds=60)
    pods = [
        build_pod("a", ready=100, labels={"app": "web", "more": "x"}),
        build_pod("b", ready=30, labels={"app": "web"}),
        build_pod("c", ready=None),
    ]
    status = compute_status(replica_set, pods, 1, None, NOW)
    assert status.as_json() == {
        "replicas": 3,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 1,
    }
    assert seconds_to_next_available(pods, 60, NOW) == 30


def test_a_failure_is_reported_once_and_cleared() -> None:
    replica_set = build_replica_set("s", 2)
    failed = compute_status(replica_set, [build_pod()], 0, "no more", NOW)
    reported = ReplicaCondition(
        "ReplicaFailure", "True", "2026-05-01T12:00:00Z", "FailedCreate", "no more"
    )
    assert failed.conditions == (reported,)
    replica_set.status = failed
    assert compute_status(replica_set, [build_pod()], 0, "still no more", NOW).conditions == (
        reported,
    )
    assert compute_status(replica_set, [build_pod()], 0, None, NOW).conditions == ()
    surplus = compute_status(build_replica_set("s", 0), [build_pod()], 0, "no", NOW)
    assert surplus.conditions[0].reason == "FailedDelete"


def test_only_changed_fields_are_written_and_zeros_removed() -> None:
    before = compute_status(build_replica_set("s", 1), [build_pod()], 0, None, NOW)
    after = compute_status(build_replica_set("s", 1), [build_pod(ready=None)], 0, None, NOW)
    assert build_status_patch(before, after) == {"readyReplicas": None, "availableReplicas": None}
    assert build_status_patch(after, after) == {}
    empty = compute_status(build_replica_set("s", 0), [], None, None, NOW)
    assert empty.as_json() == {"replicas": 0, "observedGeneration": 1}


def owned(name: str, owner: str, app: str = "web", *, terminating: bool = False) -> Pod:
    pod = build_pod(name, labels={"app": app}, terminating=terminating)
    references = (OwnerReference("apps/v1", "ReplicaSet", owner, owner, True),) if owner else ()
    pod.metadata = msgspec.structs.replace(pod.metadata, owner_references=references)
    return pod


def test_workload_keeps_adopts_and_releases_objects() -> None:
    kept, stranger, lost = owned("a", "s"), owned("b", "other"), owned("c", "s", "moved")
    free, deleted, unlike = (
        owned("d", ""),
        owned("e", "", terminating=True),
        owned("f", "", "moved"),
    )
    owner = build_replica_set("s", 3).metadata
    pods = [kept, stranger, lost, free, deleted, unlike]
    found = match_controlled_objects(owner, pods, lambda pod: pod.metadata.labels["app"] == "web")
    assert (found.owned, found.to_adopt, found.to_release) == ([kept], [free], [lost])
    terminating_owner = msgspec.structs.replace(owner, deletion_timestamp="2026-05-01")
    found = match_controlled_objects(
        terminating_owner, pods, lambda pod: pod.metadata.labels["app"] == "web"
    )
    assert (found.owned, found.to_adopt, found.to_release) == ([kept], [], [])


def test_pod_is_available_after_min_ready_seconds() -> None:
    assert is_available(build_pod(ready=60), 60, NOW)
    assert not is_available(build_pod(ready=59), 60, NOW)
    assert is_available(build_pod(ready=0), 0, NOW)
    assert not is_available(build_pod(ready=None), 0, NOW)


def test_percentages_are_rounded() -> None:
    assert resolve_int_or_percent("25%", 10, round_up=True) == 3
    assert resolve_int_or_percent("25%", 10, round_up=False) == 2
    assert resolve_int_or_percent(7, 10, round_up=True) == 7
    assert resolve_int_or_percent("nonsense", 10, round_up=True) == 0
