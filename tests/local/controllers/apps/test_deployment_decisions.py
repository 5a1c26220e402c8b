"""The next step of a Deployment, and the conditions of its rollout."""

from datetime import timedelta

import msgspec
import pytest

from kilonova.local.controllers.apps.deployment.annotations import (
    build_revision_annotations,
    next_revision,
)
from kilonova.local.controllers.apps.deployment.desire import DeploymentPlan, desire
from kilonova.local.controllers.apps.objects import (
    DeploymentCondition,
    DeploymentStatus,
    ReplicaCondition,
    ReplicaSet,
)
from kilonova.local.controllers.apps.templates import compute_template_hash, is_same_template
from tests.local.controllers.apps.builders import NOW, build_deployment, build_replica_set, time_ago
from tests.local.controllers.apps.manifests import template


def progressing(status: str, reason: str, since: float = 0) -> DeploymentCondition:
    return DeploymentCondition("Progressing", status, time_ago(since), time_ago(since), reason, "")


def progressing_condition(plan: DeploymentPlan) -> dict[str, tuple[str, str, str]]:
    found = plan.status.conditions
    return {each.type: (each.status, each.reason, each.message) for each in found}


def sizes(plan: DeploymentPlan) -> dict[str, int]:
    return {change.replica_set.metadata.name: change.replicas for change in plan.changes}


def test_first_replica_set_is_created_at_full_size() -> None:
    plan = desire(build_deployment(3, progress_deadline_seconds=600), [], False, NOW)
    made = plan.create
    assert made is not None
    hash_ = compute_template_hash(template(), None)
    assert made.metadata.name == f"web-{hash_}"
    assert made.spec.replicas == 3
    assert made.spec.selector == {"matchLabels": {"app": "web", "pod-template-hash": hash_}}
    assert made.metadata.annotations == {
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert plan.revision == "1"
    assert progressing_condition(plan) == {
        "Progressing": (
            "True",
            "NewReplicaSetCreated",
            f'Created new replica set "web-{hash_}"',
        ),
        "Available": (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        ),
    }
    assert plan.requeue_after == 601


def test_new_template_gets_its_own_replica_set() -> None:
    old = build_replica_set("old", 4, revision="7", desired=4, most=5)
    plan = desire(build_deployment(4, image="img:2"), [old], False, NOW)
    assert plan.create is not None
    assert plan.create.spec.replicas == 1
    assert plan.revision == "8"
    assert sizes(plan) == {"old": 3}


def test_reused_replica_set_records_its_revision_history() -> None:
    first = build_replica_set("first", 0, revision="1", history="0")
    assert build_revision_annotations(first, 3) == {
        "deployment.kubernetes.io/revision": "3",
        "deployment.kubernetes.io/revision-history": "0,1",
    }
    assert build_revision_annotations(first, 1) == {}
    assert next_revision([first, build_replica_set("x", 0, revision="no number")]) == 2
    long = build_replica_set("long", 0, revision="9", history=",".join(["1234"] * 400))
    history = build_revision_annotations(long, 10)["deployment.kubernetes.io/revision-history"]
    assert len(history) <= 2000
    assert history.endswith(",9")


def test_scaling_is_not_a_rollout() -> None:
    only = build_replica_set("only", 3, revision="1", desired=3, most=4)
    plan = desire(build_deployment(5), [only], False, NOW)
    assert sizes(plan) == {"only": 5}
    assert plan.changes[0].annotations["deployment.kubernetes.io/desired-replicas"] == "5"
    assert "Progressing" not in progressing_condition(plan)


def test_paused_deployment_creates_no_replica_set() -> None:
    deployment = build_deployment(
        2, image="img:2", paused=True, progress_deadline_seconds=600, revision_history_limit=0
    )
    empty = build_replica_set("empty", 0, image="img:0", revision="1", desired=2)
    old = build_replica_set("old", 2, revision="2", desired=2, most=3)
    plan = desire(deployment, [old, empty], False, NOW)
    assert plan.create is None
    assert sizes(plan) == {}
    assert plan.remove == (empty,)
    assert progressing_condition(plan)["Progressing"] == (
        "Unknown",
        "DeploymentPaused",
        "Deployment is paused",
    )


def test_resuming_restarts_the_progress_deadline() -> None:
    status = DeploymentStatus(conditions=(progressing("Unknown", "DeploymentPaused", 9000),))
    deployment = build_deployment(2, progress_deadline_seconds=60, status=status)
    same = build_replica_set("same", 2, available=0, revision="1", desired=2)
    deployment.status = msgspec.structs.replace(status, replicas=2, updated_replicas=2)
    plan = desire(deployment, [same], False, NOW)
    assert progressing_condition(plan)["Progressing"][:2] == ("Unknown", "DeploymentResumed")
    assert plan.requeue_after == 61


@pytest.mark.parametrize(
    ("since", "reason", "expected"),
    [
        (59, "ReplicaSetUpdated", ("True", "ReplicaSetUpdated")),
        (61, "ReplicaSetUpdated", ("False", "ProgressDeadlineExceeded")),
        (61, "NewReplicaSetAvailable", ("True", "NewReplicaSetAvailable")),
    ],
)
def test_lack_of_progress_is_reported_in_time(
    since: float, reason: str, expected: tuple[str, str]
) -> None:
    status = DeploymentStatus(
        observed_generation=1,
        replicas=3,
        updated_replicas=1,
        ready_replicas=2,
        available_replicas=2,
        conditions=(progressing("True", reason, since),),
    )
    deployment = build_deployment(
        2, image="img:2", progress_deadline_seconds=60, status=status, surge=1, unavailable=0
    )
    old = build_replica_set("old", 2, revision="1", desired=2, most=3)
    new = build_replica_set(
        "new", 1, available=0, image="img:2", revision="2", age=50, desired=2, most=3
    )
    plan = desire(deployment, [old, new], False, NOW)
    assert progressing_condition(plan)["Progressing"][:2] == expected
    assert sizes(plan) == {}


def test_a_rollout_is_done_when_only_new_pods_are_left() -> None:
    gone = [
        build_replica_set(f"old-{n}", 0, image=f"img:{n}", revision=str(n), desired=2, most=3)
        for n in range(3)
    ]
    new = build_replica_set("new", 2, image="img:9", revision="9", age=1, desired=2, most=3)
    before = DeploymentStatus(
        observed_generation=1,
        replicas=2,
        updated_replicas=2,
        ready_replicas=2,
        available_replicas=2,
        conditions=(progressing("True", "ReplicaSetUpdated", 10),),
    )
    deployment = build_deployment(
        2, image="img:9", status=before, progress_deadline_seconds=600, revision_history_limit=1
    )
    plan = desire(deployment, [*gone, new], False, NOW)
    assert progressing_condition(plan)["Progressing"] == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "new" has successfully progressed.',
    )
    assert plan.remove == (gone[0], gone[1])
    assert plan.requeue_after is None
    deployment.status = plan.status
    again = desire(deployment, [gone[2], new], False, NOW + timedelta(hours=1))
    assert (again.status, again.changes, again.remove) == (plan.status, (), ())


def test_recreate_waits_for_the_old_pods() -> None:
    deployment = build_deployment(2, image="img:2", recreate=True)
    old = build_replica_set("old", 2, revision="1", desired=2, most=2)
    plan = desire(deployment, [old], True, NOW)
    assert (sizes(plan), plan.create) == ({"old": 0}, None)
    emptied = build_replica_set("old", 0, revision="1")
    assert desire(deployment, [emptied], True, NOW).create is None
    made = desire(deployment, [emptied], False, NOW).create
    assert made is not None
    assert made.spec.replicas == 2


def test_replica_failure_is_propagated_to_the_deployment() -> None:
    failing = build_replica_set("s", 2, available=0, revision="1", desired=2)
    condition = ReplicaCondition("ReplicaFailure", "True", time_ago(5), "FailedCreate", "no")
    failing.status = msgspec.structs.replace(failing.status, conditions=(condition,))
    plan = desire(build_deployment(2), [failing], False, NOW)
    assert progressing_condition(plan)["ReplicaFailure"] == ("True", "FailedCreate", "no")


def test_annotations_and_min_ready_seconds_reach_the_newest_set() -> None:
    deployment = build_deployment(1, min_ready_seconds=5)
    deployment.metadata = msgspec.structs.replace(
        deployment.metadata,
        annotations={"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    same = build_replica_set("s", 1, revision="1", desired=1, most=2)
    (change,) = desire(deployment, [same], False, NOW).changes
    assert (change.annotations, change.min_ready_seconds) == ({"note": "x"}, 5)


def test_templates_are_the_same_whatever_the_label_and_the_empty_fields() -> None:
    one = template()
    other = template()
    other["metadata"]["labels"]["pod-template-hash"] = "abc"
    other["metadata"]["creationTimestamp"] = None
    other["spec"]["volumes"] = []
    other["spec"]["nodeSelector"] = {}
    assert is_same_template(one, other)
    assert (
        compute_template_hash(one, None)
        == compute_template_hash(other, None)
        != compute_template_hash(one, 1)
    )
    other["spec"]["securityContext"] = {}
    assert not is_same_template(one, other)


def test_of_two_sets_with_the_template_the_older_is_the_newest_revision() -> None:
    twins: list[ReplicaSet] = [
        build_replica_set("younger", 1, age=1, revision="1", desired=1),
        build_replica_set("older", 1, age=9, revision="1", desired=1),
    ]
    plan = desire(build_deployment(1), twins, False, NOW)
    assert plan.create is None
    assert plan.revision == "2"
