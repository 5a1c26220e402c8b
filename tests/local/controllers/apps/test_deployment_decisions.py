"""What a Deployment does next, and what it says of its rollout."""

from datetime import timedelta

import msgspec
import pytest

from kilonova.local.controllers.apps.deployment.annotations import (
    next_revision,
    revision_notes,
)
from kilonova.local.controllers.apps.deployment.desire import Plan, desire
from kilonova.local.controllers.apps.objects import (
    DeploymentCondition,
    DeploymentStatus,
    ReplicaCondition,
    ReplicaSet,
)
from kilonova.local.controllers.apps.templates import same_template, template_hash
from tests.local.controllers.apps.values import NOW, a_deployment, a_set, ago
from tests.local.controllers.apps.workloads import template


def progressing(status: str, reason: str, since: float = 0) -> DeploymentCondition:
    return DeploymentCondition("Progressing", status, ago(since), ago(since), reason, "")


def told(plan: Plan) -> dict[str, tuple[str, str, str]]:
    found = plan.status.conditions
    return {each.type: (each.status, each.reason, each.message) for each in found}


def sizes(plan: Plan) -> dict[str, int]:
    return {change.replica_set.metadata.name: change.replicas for change in plan.changes}


def test_the_first_set_is_made_whole() -> None:
    plan = desire(a_deployment(3, progress_deadline_seconds=600), [], False, NOW)
    made = plan.create
    assert made is not None
    hash_ = template_hash(template(), None)
    assert made.metadata.name == f"web-{hash_}"
    assert made.spec.replicas == 3
    assert made.spec.selector == {"matchLabels": {"app": "web", "pod-template-hash": hash_}}
    assert made.metadata.annotations == {
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert plan.revision == "1"
    assert told(plan) == {
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
    assert plan.after == 601


def test_a_new_template_gets_a_set_beside_the_old_one() -> None:
    old = a_set("old", 4, revision="7", desired=4, most=5)
    plan = desire(a_deployment(4, image="img:2"), [old], False, NOW)
    assert plan.create is not None
    assert plan.create.spec.replicas == 1
    assert plan.revision == "8"
    assert sizes(plan) == {"old": 3}


def test_a_set_that_is_the_newest_again_notes_its_past() -> None:
    first = a_set("first", 0, revision="1", history="0")
    assert revision_notes(first, 3) == {
        "deployment.kubernetes.io/revision": "3",
        "deployment.kubernetes.io/revision-history": "0,1",
    }
    assert revision_notes(first, 1) == {}
    assert next_revision([first, a_set("x", 0, revision="no number")]) == 2
    long = a_set("long", 0, revision="9", history=",".join(["1234"] * 400))
    history = revision_notes(long, 10)["deployment.kubernetes.io/revision-history"]
    assert len(history) <= 2000
    assert history.endswith(",9")


def test_a_change_of_the_number_is_no_rollout() -> None:
    only = a_set("only", 3, revision="1", desired=3, most=4)
    plan = desire(a_deployment(5), [only], False, NOW)
    assert sizes(plan) == {"only": 5}
    assert plan.changes[0].annotations["deployment.kubernetes.io/desired-replicas"] == "5"
    assert "Progressing" not in told(plan)


def test_a_paused_deployment_makes_no_set() -> None:
    deployment = a_deployment(
        2, image="img:2", paused=True, progress_deadline_seconds=600, revision_history_limit=0
    )
    empty = a_set("empty", 0, image="img:0", revision="1", desired=2)
    old = a_set("old", 2, revision="2", desired=2, most=3)
    plan = desire(deployment, [old, empty], False, NOW)
    assert plan.create is None
    assert sizes(plan) == {}
    assert plan.remove == (empty,)
    assert told(plan)["Progressing"] == ("Unknown", "DeploymentPaused", "Deployment is paused")


def test_resuming_begins_the_time_anew() -> None:
    status = DeploymentStatus(conditions=(progressing("Unknown", "DeploymentPaused", 9000),))
    deployment = a_deployment(2, progress_deadline_seconds=60, status=status)
    same = a_set("same", 2, available=0, revision="1", desired=2)
    deployment.status = msgspec.structs.replace(status, replicas=2, updated_replicas=2)
    plan = desire(deployment, [same], False, NOW)
    assert told(plan)["Progressing"][:2] == ("Unknown", "DeploymentResumed")
    assert plan.after == 61


@pytest.mark.parametrize(
    ("since", "reason", "expected"),
    [
        (59, "ReplicaSetUpdated", ("True", "ReplicaSetUpdated")),
        (61, "ReplicaSetUpdated", ("False", "ProgressDeadlineExceeded")),
        (61, "NewReplicaSetAvailable", ("True", "NewReplicaSetAvailable")),
    ],
)
def test_lack_of_progress_is_told_in_time(
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
    deployment = a_deployment(
        2, image="img:2", progress_deadline_seconds=60, status=status, surge=1, unavailable=0
    )
    old = a_set("old", 2, revision="1", desired=2, most=3)
    new = a_set("new", 1, available=0, image="img:2", revision="2", age=50, desired=2, most=3)
    plan = desire(deployment, [old, new], False, NOW)
    assert told(plan)["Progressing"][:2] == expected
    assert sizes(plan) == {}


def test_a_rollout_is_done_when_only_new_pods_are_left() -> None:
    gone = [
        a_set(f"old-{n}", 0, image=f"img:{n}", revision=str(n), desired=2, most=3) for n in range(3)
    ]
    new = a_set("new", 2, image="img:9", revision="9", age=1, desired=2, most=3)
    before = DeploymentStatus(
        observed_generation=1,
        replicas=2,
        updated_replicas=2,
        ready_replicas=2,
        available_replicas=2,
        conditions=(progressing("True", "ReplicaSetUpdated", 10),),
    )
    deployment = a_deployment(
        2, image="img:9", status=before, progress_deadline_seconds=600, revision_history_limit=1
    )
    plan = desire(deployment, [*gone, new], False, NOW)
    assert told(plan)["Progressing"] == (
        "True",
        "NewReplicaSetAvailable",
        'ReplicaSet "new" has successfully progressed.',
    )
    assert plan.remove == (gone[0], gone[1])
    assert plan.after is None
    deployment.status = plan.status
    again = desire(deployment, [gone[2], new], False, NOW + timedelta(hours=1))
    assert (again.status, again.changes, again.remove) == (plan.status, (), ())


def test_recreate_waits_for_the_old_pods() -> None:
    deployment = a_deployment(2, image="img:2", recreate=True)
    old = a_set("old", 2, revision="1", desired=2, most=2)
    plan = desire(deployment, [old], True, NOW)
    assert (sizes(plan), plan.create) == ({"old": 0}, None)
    emptied = a_set("old", 0, revision="1")
    assert desire(deployment, [emptied], True, NOW).create is None
    made = desire(deployment, [emptied], False, NOW).create
    assert made is not None
    assert made.spec.replicas == 2


def test_a_failure_of_a_set_is_the_deployments() -> None:
    failing = a_set("s", 2, available=0, revision="1", desired=2)
    condition = ReplicaCondition("ReplicaFailure", "True", ago(5), "FailedCreate", "no")
    failing.status = msgspec.structs.replace(failing.status, conditions=(condition,))
    plan = desire(a_deployment(2), [failing], False, NOW)
    assert told(plan)["ReplicaFailure"] == ("True", "FailedCreate", "no")


def test_annotations_and_min_ready_seconds_reach_the_newest_set() -> None:
    deployment = a_deployment(1, min_ready_seconds=5)
    deployment.metadata = msgspec.structs.replace(
        deployment.metadata,
        annotations={"note": "x", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    same = a_set("s", 1, revision="1", desired=1, most=2)
    (change,) = desire(deployment, [same], False, NOW).changes
    assert (change.annotations, change.min_ready_seconds) == ({"note": "x"}, 5)


def test_templates_are_the_same_whatever_the_label_and_the_empty_fields() -> None:
    one = template()
    other = template()
    other["metadata"]["labels"]["pod-template-hash"] = "abc"
    other["metadata"]["creationTimestamp"] = None
    other["spec"]["volumes"] = []
    other["spec"]["nodeSelector"] = {}
    assert same_template(one, other)
    assert template_hash(one, None) == template_hash(other, None) != template_hash(one, 1)
    other["spec"]["securityContext"] = {}
    assert not same_template(one, other)


def test_of_two_sets_with_the_template_the_older_is_the_newest_revision() -> None:
    twins: list[ReplicaSet] = [
        a_set("younger", 1, age=1, revision="1", desired=1),
        a_set("older", 1, age=9, revision="1", desired=1),
    ]
    plan = desire(a_deployment(1), twins, False, NOW)
    assert plan.create is None
    assert plan.revision == "2"
