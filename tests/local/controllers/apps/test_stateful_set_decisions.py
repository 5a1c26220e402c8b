"""The next step of a StatefulSet: rules as tables."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.local.controllers.apps.objects import (
    ClaimRetention,
    Ordinals,
    RollingUpdateStrategy,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
    UpdateStrategy,
)
from kilonova.local.controllers.apps.statefulset.desire import (
    CreatePod,
    DeletePod,
    PodAction,
    RestoreIdentity,
    RevisionNames,
    SyncClaims,
    desire,
)
from kilonova.local.controllers.apps.statefulset.identity import (
    build_claims,
    build_stateful_pod,
    parse_ordinal,
)
from kilonova.local.controllers.apps.statefulset.retention import (
    desired_claim_owners,
    has_other_controller,
    is_claim_stale,
)
from kilonova.local.objects.core import Pod
from tests.local.controllers.apps.builders import NOW, build_pod
from tests.local.controllers.apps.manifests import template

CLAIM = {"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": {"accessModes": []}}
REVISIONS = RevisionNames("db-old", "db-new")


def build_stateful_set(
    replicas: int, *, partition: int = 0, on_delete: bool = False, **spec: Any
) -> StatefulSet:
    strategy = (
        UpdateStrategy("OnDelete")
        if on_delete
        else UpdateStrategy("RollingUpdate", RollingUpdateStrategy(partition=partition))
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


def build_member(ordinal: int, revision: str = "db-new", **facts: Any) -> Pod:
    name = f"db-{ordinal}"
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "controller-revision-hash": revision,
    }
    return build_pod(name, labels=labels, **facts)


def planned_actions(stateful_set: StatefulSet, pods: Sequence[Pod]) -> list[PodAction]:
    return list(desire(stateful_set, pods, REVISIONS, NOW).actions)


UNREADY: dict[str, Any] = {"ready": None}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], [CreatePod(0, True)], id="the first"),
        pytest.param([build_member(0, ready=None)], [], id="it has to be ready"),
        pytest.param([build_member(0)], [CreatePod(1, True)], id="the next"),
        pytest.param([build_member(0), build_member(2)], [CreatePod(1, True)], id="a gap"),
        pytest.param(
            [build_member(0, terminating=True), build_member(1)], [], id="one on its way out"
        ),
        pytest.param(
            [build_member(0, phase="Failed", ready=None)],
            [DeletePod(build_member(0, phase="Failed", ready=None))],
            id="one that failed",
        ),
    ],
)
def test_pods_are_created_in_order(pods: list[Pod], expected: list[PodAction]) -> None:
    assert planned_actions(build_stateful_set(3), pods) == expected


def test_min_ready_seconds_delay_the_next_pod() -> None:
    patient = build_stateful_set(2, min_ready_seconds=60)
    assert planned_actions(patient, [build_member(0, ready=30)]) == []
    assert planned_actions(patient, [build_member(0, ready=60)]) == [CreatePod(1, True)]


def test_parallel_sets_do_not_wait() -> None:
    parallel = build_stateful_set(3, pod_management_policy="Parallel")
    assert planned_actions(parallel, [build_member(0, ready=None)]) == [
        CreatePod(1, True),
        CreatePod(2, True),
    ]
    surplus = [build_member(n, ready=None) for n in range(5)]
    assert planned_actions(parallel, surplus) == [DeletePod(surplus[4]), DeletePod(surplus[3])]


def test_pods_are_deleted_last_first_one_at_a_time() -> None:
    pods = [build_member(n) for n in range(4)]
    assert planned_actions(build_stateful_set(2), pods) == [DeletePod(pods[3])]
    pods[3] = build_member(3, terminating=True)
    assert planned_actions(build_stateful_set(2), pods) == []
    waiting = [build_member(0), build_member(1), build_member(2, ready=None), build_member(3)]
    assert planned_actions(build_stateful_set(2), waiting) == [DeletePod(waiting[3])]
    lone = [build_member(0), build_member(1), build_member(2, ready=None)]
    assert planned_actions(build_stateful_set(2), lone) == [DeletePod(lone[2])]


def test_updates_proceed_from_the_last_pod_to_the_partition() -> None:
    old = [build_member(n, "db-old") for n in range(3)]
    assert planned_actions(build_stateful_set(3), old) == [DeletePod(old[2])]
    assert planned_actions(build_stateful_set(3), [*old[:2], build_member(2, ready=None)]) == []
    assert planned_actions(build_stateful_set(3), [*old[:2], build_member(2)]) == [
        DeletePod(old[1])
    ]
    assert planned_actions(build_stateful_set(3, partition=2), [*old[:2], build_member(2)]) == []
    assert planned_actions(build_stateful_set(3, on_delete=True), old) == []


@pytest.mark.parametrize(("partition", "updated"), [(0, True), (1, False)])
def test_pods_below_the_partition_use_the_old_template(partition: int, updated: bool) -> None:
    assert planned_actions(build_stateful_set(1, partition=partition), []) == [
        CreatePod(0, updated)
    ]


def test_ordinals_may_start_anywhere() -> None:
    assert planned_actions(build_stateful_set(2, ordinals=Ordinals(5)), []) == [CreatePod(5, True)]
    below = build_pod("db-0", labels={"statefulset.kubernetes.io/pod-name": "db-0"})
    moved = [build_member(5), build_member(6), below]
    assert planned_actions(build_stateful_set(2, ordinals=Ordinals(5)), moved) == [DeletePod(below)]


def test_missing_identity_labels_and_claims_are_restored() -> None:
    bare = build_pod("db-0", labels={"controller-revision-hash": "db-new"})
    assert planned_actions(build_stateful_set(1), [bare]) == [RestoreIdentity(bare, 0)]
    with_claims = build_stateful_set(1, volume_claim_templates=(CLAIM,))
    pending = build_member(0, phase="Pending", ready=None)
    assert planned_actions(with_claims, [pending]) == [SyncClaims(pending, 0, True, False)]
    up, over = build_member(0), build_member(1)
    assert planned_actions(with_claims, [up, over]) == [
        SyncClaims(up, 0, False, False),
        SyncClaims(over, 1, False, True),
        DeletePod(over),
    ]


def test_the_status_counts_revisions_and_completes_the_update() -> None:
    mixed = desire(
        build_stateful_set(2), [build_member(0, "db-old"), build_member(1)], REVISIONS, NOW
    ).status
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
    done = desire(build_stateful_set(2), [build_member(0), build_member(1)], REVISIONS, NOW).status
    assert (done.current_revision, done.current_replicas) == ("db-new", 2)


def test_terminating_stateful_set_only_updates_status() -> None:
    terminating = build_stateful_set(2)
    terminating.metadata = msgspec.structs.replace(
        terminating.metadata, deletion_timestamp="2026-05-01"
    )
    plan = desire(terminating, [build_member(0)], REVISIONS, NOW)
    assert (plan.actions, plan.status.replicas) == ((), 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("db-0", 0), ("db-12", 12), ("db", None), ("db-x", None), ("other-1", None), ("db-a-1", None)],
)
def test_membership_is_in_the_name(name: str, expected: int | None) -> None:
    assert parse_ordinal(build_stateful_set(1), name) == expected


def test_a_pod_mounts_its_claims_in_place_of_volumes_of_the_name() -> None:
    stateful_set = build_stateful_set(1, volume_claim_templates=(CLAIM,))
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    made = build_stateful_pod(stateful_set, template("db", volumes=volumes), "db-new", 3)
    assert made["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-3"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    (claim,) = build_claims(stateful_set, 3)
    assert claim["metadata"] == {"name": "data-db-3", "labels": {"tier": "db", "app": "db"}}


def reference(kind: str, name: str, uid: str, *, controller: bool = True) -> OwnerReference:
    version = "apps/v1" if kind == "StatefulSet" else "v1"
    return OwnerReference(version, kind, name, uid, controller, True)


SET, POD = reference("StatefulSet", "db", "s"), reference("Pod", "db-0", "db-0")


@pytest.mark.parametrize(
    ("deleted", "scaled", "condemned", "present", "desired"),
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
def test_claim_owners_follow_the_retention_policy(
    deleted: str,
    scaled: str,
    condemned: bool,
    present: list[OwnerReference],
    desired: list[OwnerReference] | None,
) -> None:
    policy = ClaimRetention(deleted, scaled)
    stateful_set = build_stateful_set(1, persistent_volume_claim_retention_policy=policy)
    claim = Metadata("data-db-0", uid="c", resource_version="1", owner_references=tuple(present))
    found = desired_claim_owners(claim, stateful_set, build_member(0).metadata, condemned=condemned)
    others = [each for each in present if each.kind == "Job"]
    assert found == (None if desired is None else [*others, *desired])
    other = any(each.kind == "Job" and each.controller for each in present)
    foreign = any(each.uid == "earlier" for each in present)
    if deleted == "Delete":
        expected = other or foreign
        assert has_other_controller(claim, stateful_set, build_member(0).metadata) == expected


def test_claim_of_a_previous_pod_is_left_alone() -> None:
    policy = ClaimRetention("Retain", "Delete")
    claim = Metadata("data-db-0", uid="c", resource_version="1", owner_references=(POD,))
    stateful_set = build_stateful_set(1, persistent_volume_claim_retention_policy=policy)
    assert is_claim_stale(claim, stateful_set, "db-0")
    assert not is_claim_stale(claim, build_stateful_set(1), "db-0")


def test_a_status_is_the_same_when_nothing_happened() -> None:
    stateful_set = build_stateful_set(1)
    first = desire(stateful_set, [build_member(0)], REVISIONS, NOW)
    stateful_set.status = first.status
    assert first.status != StatefulSetStatus()
    assert desire(stateful_set, [build_member(0)], REVISIONS, NOW).status == first.status
