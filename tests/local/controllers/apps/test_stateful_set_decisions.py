"""What a StatefulSet does next: rules as tables."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.local.controllers.apps.objects import (
    ClaimRetention,
    Ordinals,
    RollingUpdate,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    Strategy,
)
from kilonova.local.controllers.apps.statefulset.desire import (
    Act,
    Make,
    Mend,
    Remove,
    RevisionNames,
    Supply,
    desire,
)
from kilonova.local.controllers.apps.statefulset.identity import (
    claims_of,
    ordinal_of,
    stateful_pod,
)
from kilonova.local.controllers.apps.statefulset.retention import (
    has_other_controller,
    is_left_behind,
    owners_of_claim,
)
from kilonova.local.controllers.objects import Pod
from tests.local.controllers.apps.values import NOW, a_pod
from tests.local.controllers.apps.workloads import template

CLAIM = {"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {"accessModes": []}}
REVISIONS = RevisionNames("db-old", "db-new")


def a_stateful_set(
    replicas: int, *, partition: int = 0, on_delete: bool = False, **spec: Any
) -> StatefulSet:
    strategy = (
        Strategy("OnDelete")
        if on_delete
        else Strategy("RollingUpdate", RollingUpdate(partition=partition))
    )
    return StatefulSet(
        Metadata("db", uid="s", resource_version="1", namespace="default", generation=1),
        StatefulSetSpec(
            replicas=replicas,
            selector={"matchLabels": {"app": "db"}},
            template=template("db"),
            update_strategy=strategy,
            service_name="peers",
            **spec,
        ),
    )


def member(ordinal: int, revision: str = "db-new", **facts: Any) -> Pod:
    name = f"db-{ordinal}"
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "controller-revision-hash": revision,
    }
    return a_pod(name, labels=labels, **facts)


def acts(stateful_set: StatefulSet, pods: Sequence[Pod]) -> list[Act]:
    return list(desire(stateful_set, pods, REVISIONS, NOW).acts)


UNREADY: dict[str, Any] = {"ready": None}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], [Make(0, True)], id="the first"),
        pytest.param([member(0, ready=None)], [], id="it has to be ready"),
        pytest.param([member(0)], [Make(1, True)], id="the next"),
        pytest.param([member(0), member(2)], [Make(1, True)], id="a gap"),
        pytest.param([member(0, going=True), member(1)], [], id="one on its way out"),
        pytest.param(
            [member(0, phase="Failed", ready=None)],
            [Remove(member(0, phase="Failed", ready=None))],
            id="one that failed",
        ),
    ],
)
def test_pods_come_in_order(pods: list[Pod], expected: list[Act]) -> None:
    assert acts(a_stateful_set(3), pods) == expected


def test_min_ready_seconds_hold_the_next_one_back() -> None:
    patient = a_stateful_set(2, min_ready_seconds=60)
    assert acts(patient, [member(0, ready=30)]) == []
    assert acts(patient, [member(0, ready=60)]) == [Make(1, True)]


def test_parallel_sets_do_not_wait() -> None:
    parallel = a_stateful_set(3, pod_management_policy="Parallel")
    assert acts(parallel, [member(0, ready=None)]) == [Make(1, True), Make(2, True)]
    surplus = [member(n, ready=None) for n in range(5)]
    assert acts(parallel, surplus) == [Remove(surplus[4]), Remove(surplus[3])]


def test_the_last_pods_go_first_and_one_at_a_time() -> None:
    pods = [member(n) for n in range(4)]
    assert acts(a_stateful_set(2), pods) == [Remove(pods[3])]
    pods[3] = member(3, going=True)
    assert acts(a_stateful_set(2), pods) == []
    waiting = [member(0), member(1), member(2, ready=None), member(3)]
    assert acts(a_stateful_set(2), waiting) == [Remove(waiting[3])]
    lone = [member(0), member(1), member(2, ready=None)]
    assert acts(a_stateful_set(2), lone) == [Remove(lone[2])]


def test_updates_go_from_the_last_pod_to_the_partition() -> None:
    old = [member(n, "db-old") for n in range(3)]
    assert acts(a_stateful_set(3), old) == [Remove(old[2])]
    assert acts(a_stateful_set(3), [*old[:2], member(2, ready=None)]) == []
    assert acts(a_stateful_set(3), [*old[:2], member(2)]) == [Remove(old[1])]
    assert acts(a_stateful_set(3, partition=2), [*old[:2], member(2)]) == []
    assert acts(a_stateful_set(3, on_delete=True), old) == []


@pytest.mark.parametrize(("partition", "updated"), [(0, True), (1, False)])
def test_pods_below_the_partition_are_made_from_the_old_template(
    partition: int, updated: bool
) -> None:
    assert acts(a_stateful_set(1, partition=partition), []) == [Make(0, updated)]


def test_numbers_may_begin_anywhere() -> None:
    assert acts(a_stateful_set(2, ordinals=Ordinals(5)), []) == [Make(5, True)]
    below = a_pod("db-0", labels={"statefulset.kubernetes.io/pod-name": "db-0"})
    moved = [member(5), member(6), below]
    assert acts(a_stateful_set(2, ordinals=Ordinals(5)), moved) == [Remove(below)]


def test_a_pod_without_its_labels_is_mended_and_claims_are_looked_after() -> None:
    bare = a_pod("db-0", labels={"controller-revision-hash": "db-new"})
    assert acts(a_stateful_set(1), [bare]) == [Mend(bare, 0)]
    with_claims = a_stateful_set(1, volume_claim_templates=(CLAIM,))
    pending = member(0, phase="Pending", ready=None)
    assert acts(with_claims, [pending]) == [Supply(pending, 0, True, False)]
    up, over = member(0), member(1)
    assert acts(with_claims, [up, over]) == [
        Supply(up, 0, False, False),
        Supply(over, 1, False, True),
        Remove(over),
    ]


def test_the_status_counts_revisions_and_completes_the_update() -> None:
    mixed = desire(a_stateful_set(2), [member(0, "db-old"), member(1)], REVISIONS, NOW).status
    assert mixed.as_json() == {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "updatedReplicas": 1,
        "currentRevision": "db-old",
        "updateRevision": "db-new",
        "collisionCount": 0,
    }
    done = desire(a_stateful_set(2), [member(0), member(1)], REVISIONS, NOW).status
    assert (done.current_revision, done.current_replicas) == ("db-new", 2)


def test_a_set_that_is_going_only_counts() -> None:
    going = a_stateful_set(2)
    going.metadata = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-05-01")
    plan = desire(going, [member(0)], REVISIONS, NOW)
    assert (plan.acts, plan.status.replicas) == ((), 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("db-0", 0), ("db-12", 12), ("db", None), ("db-x", None), ("other-1", None), ("db-a-1", None)],
)
def test_membership_is_in_the_name(name: str, expected: int | None) -> None:
    assert ordinal_of(a_stateful_set(1), name) == expected


def test_a_pod_mounts_its_claims_in_place_of_volumes_of_the_name() -> None:
    stateful_set = a_stateful_set(1, volume_claim_templates=(CLAIM,))
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    made = stateful_pod(stateful_set, template("db", volumes=volumes), "db-new", 3)
    assert made["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-3"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    (claim,) = claims_of(stateful_set, 3)
    assert claim["metadata"] == {"name": "data-db-3", "labels": {"tier": "db", "app": "db"}}


def reference(kind: str, name: str, uid: str, *, controller: bool = True) -> OwnerReference:
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    return OwnerReference(version, kind, name, uid, controller, True)


SET, POD = reference("StatefulSet", "db", "s"), reference("Pod", "db-0", "db-0")


@pytest.mark.parametrize(
    ("deleted", "scaled", "condemned", "present", "wanted"),
    [
        ("Retain", "Retain", False, [], None),
        ("Retain", "Retain", False, [SET], []),
        ("Delete", "Retain", False, [], [SET]),
        ("Delete", "Retain", True, [SET], None),
        ("Retain", "Delete", False, [], None),
        ("Retain", "Delete", True, [], [POD]),
        ("Retain", "Delete", False, [POD], []),
        ("Delete", "Delete", False, [], [SET]),
        ("Delete", "Delete", True, [SET], [POD]),
        ("Delete", "Retain", False, [reference("StatefulSet", "db", "earlier")], None),
        ("Delete", "Retain", False, [reference("Job", "j", "j")], None),
        ("Delete", "Retain", False, [reference("Job", "j", "j", controller=False)], [SET]),
    ],
)
def test_claims_belong_to_whom_the_policy_says(
    deleted: str,
    scaled: str,
    condemned: bool,
    present: list[OwnerReference],
    wanted: list[OwnerReference] | None,
) -> None:
    policy = ClaimRetention(deleted, scaled)
    stateful_set = a_stateful_set(1, persistent_volume_claim_retention_policy=policy)
    claim = Metadata("data-db-0", uid="c", resource_version="1", owner_references=tuple(present))
    found = owners_of_claim(claim, stateful_set, member(0).metadata, condemned=condemned)
    others = [each for each in present if each.kind == "Job"]
    assert found == (None if wanted is None else [*others, *wanted])
    other = any(each.kind == "Job" and each.controller for each in present)
    foreign = any(each.uid == "earlier" for each in present)
    if deleted == "Delete":
        expected = other or foreign
        assert has_other_controller(claim, stateful_set, member(0).metadata) == expected


def test_a_claim_of_an_earlier_pod_is_left_alone() -> None:
    policy = ClaimRetention("Retain", "Delete")
    claim = Metadata("data-db-0", uid="c", resource_version="1", owner_references=(POD,))
    stateful_set = a_stateful_set(1, persistent_volume_claim_retention_policy=policy)
    assert is_left_behind(claim, stateful_set, "db-0")
    assert not is_left_behind(claim, a_stateful_set(1), "db-0")


def test_a_status_is_the_same_when_nothing_happened() -> None:
    stateful_set = a_stateful_set(1)
    first = desire(stateful_set, [member(0)], REVISIONS, NOW)
    stateful_set.status = first.status
    assert first.status != StatefulSetStatus()
    assert desire(stateful_set, [member(0)], REVISIONS, NOW).status == first.status
