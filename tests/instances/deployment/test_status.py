"""What a deployment reports: counts, conditions, history, events."""

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from kilonova.api.inference_engine import (
    EngineSpec,
    InferenceEngineDeployment,
    InferenceEngineDeploymentStatus,
    InferenceEngineInstance,
    Revision,
    UpdateStrategy,
)
from kilonova.api.times import format_rfc3339
from kilonova.instances.controllers.deployment.desire import DeploymentPlan, desire
from kilonova.instances.controllers.deployment.observed import CapacityEstimate
from tests.instances.deployment.deployments import (
    START,
    condition_of,
    deployment,
    instance,
    instances,
    message_of,
    observed,
    revision,
    template,
)

R1, R2, R3 = revision("r1", 1), revision("r2", 2), revision("r3", 3)


def later(of: InferenceEngineDeployment, plan: DeploymentPlan) -> InferenceEngineDeployment:
    """The deployment after its plan was written."""
    return InferenceEngineDeployment(of.metadata, of.spec, plan.status)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_counts() -> None:
    present = instances("r1 ready", "r2 starting", "r2 unallocatable", "r1 ready terminating")
    status = desire(observed(deployment("r2"), present, [R1, R2]), START).status
    assert status.observed_generation == 1
    assert (status.replicas, status.ready_replicas) == (3, 1)
    assert (status.updated_replicas, status.unallocatable) == (2, 1)
    assert status.selector == "supernova.groq.io/deployment=llama"


@pytest.mark.parametrize(
    ("present", "replicas", "expected"),
    [
        (["r1 ready"] * 3, 3, "True"),
        (["r1 ready", "r1 ready", "r1 starting"], 3, "True"),
        (["r1 ready", "r1 starting", "r1 starting"], 3, "False"),
        (["r1 starting"], 1, "False"),
        ([], 0, "True"),
    ],
)
def test_available(present: list[str], replicas: int, expected: str) -> None:
    seen = observed(deployment("r1", replicas), instances(*present), [R1])
    assert condition_of(desire(seen, START).status, "Available")[0] == expected


def test_update_progresses_and_completes_with_an_event() -> None:
    of = deployment("r2")
    during = desire(observed(of, instances("r1 ready", "r1 ready", "r2 starting"), [R1, R2]), START)
    assert condition_of(during.status, "Progressing") == ("True", "RevisionUpdated")
    assert message_of(during.status, "Progressing") == (
        "1 of 3 instances updated to release r2, 0 available; 2 outdated"
    )
    end = desire(observed(later(of, during), instances(*["r2 ready"] * 3), [R1, R2]), at(60))
    assert condition_of(end.status, "Progressing") == ("True", "NewRevisionAvailable")
    assert [(each.reason, each.message) for each in end.events] == [
        ("RolloutComplete", "3 instances of release r2")
    ]
    again = desire(observed(later(of, end), instances(*["r2 ready"] * 3), [R1, R2]), at(61))
    assert (again.events, again.status, again.requeue_after) == ((), end.status, None)


def test_completed_update_stays_complete_when_an_instance_fails() -> None:
    of = deployment("r1")
    done = desire(observed(of, instances(*["r1 ready"] * 3), [R1]), START)
    failed = instances("r1 ready", "r1 starting", "r1 starting")
    status = desire(observed(later(of, done), failed, [R1]), at(9999)).status
    assert condition_of(status, "Progressing") == ("True", "NewRevisionAvailable")
    assert condition_of(status, "Available") == ("False", "MinimumReplicasUnavailable")


def test_update_without_progress_exceeds_its_deadline() -> None:
    of = deployment("r2", strategy=UpdateStrategy(progress_deadline="10m"))
    present = [*instances("r1 ready", "r1 ready"), instance("new", "r2", "starting")]
    first = desire(observed(of, present, [R1, R2]), START)
    assert first.requeue_after == 601
    of = later(of, first)
    waiting = desire(observed(of, present, [R1, R2]), at(599))
    assert condition_of(waiting.status, "Progressing") == ("True", "RevisionUpdated")
    late = desire(observed(of, present, [R1, R2]), at(600))
    assert condition_of(late.status, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert message_of(late.status, "Progressing").endswith("no progress for 10m")
    assert [each.reason for each in late.events] == ["ProgressDeadlineExceeded"]
    assert late.requeue_after is None


def test_ready_instance_is_progress_after_the_deadline() -> None:
    of = deployment("r2", strategy=UpdateStrategy(progress_deadline="10m"))
    present = [*instances("r1 ready", "r1 ready"), instance("new", "r2", "starting")]
    of = later(of, desire(observed(of, present, [R1, R2]), START))
    of = later(of, desire(observed(of, present, [R1, R2]), at(700)))
    ready = instance("new", "r2", "ready", ready_since=at(800))
    found = desire(observed(of, [*present[:2], ready], [R1, R2]), at(800))
    assert condition_of(found.status, "Progressing") == ("True", "RevisionUpdated")


def test_time_in_pause_is_not_lack_of_progress() -> None:
    strategy = UpdateStrategy(progress_deadline="10m")
    paused, resumed = (
        deployment("r2", strategy=strategy, paused=paused) for paused in (True, False)
    )
    present = [*instances("r1 ready", "r1 ready"), instance("new", "r2", "starting")]
    status = desire(observed(resumed, present, [R1, R2]), START).status
    status = desire(observed(replace_status(paused, status), present, [R1, R2]), at(10)).status
    found = desire(observed(replace_status(resumed, status), present, [R1, R2]), at(5000))
    assert condition_of(found.status, "Progressing") == ("True", "RevisionUpdated")
    assert found.requeue_after == 601


def replace_status(
    of: InferenceEngineDeployment, status: InferenceEngineDeploymentStatus
) -> InferenceEngineDeployment:
    return InferenceEngineDeployment(of.metadata, of.spec, status)


def test_blocked_allocation_is_reported_once() -> None:
    of = deployment("r2")
    present = instances("r1 ready", "r1 ready", "r2 unallocatable")
    found = desire(observed(of, present, [R1, R2]), START)
    assert condition_of(found.status, "AllocationBlocked") == ("True", "AllocationFailed")
    assert message_of(found.status, "AllocationBlocked") == (
        "1 of 3 instances cannot be placed, 2 outdated kept; r2-2: 0/2 nodes have 4 free GPUs"
    )
    assert [(each.reason, each.is_warning) for each in found.events] == [("AllocationFailed", True)]
    assert desire(observed(later(of, found), present, [R1, R2]), START).events == ()


def test_history_has_the_newest_revisions_and_when_they_were_rolled_out() -> None:
    of = deployment("r2", revision_history_limit=1)
    first = desire(observed(of, (), [R1]), START).status
    assert first.current_revision == 2
    assert first.history == (
        Revision(2, "r2", R2.hash, format_rfc3339(START)),
        Revision(1, "r1", R1.hash, format_rfc3339(START)),
    )
    newer = replace_status(deployment("r3", revision_history_limit=1), first)
    status = desire(observed(newer, (), [R1, R2]), at(60)).status
    assert [(each.release, each.since) for each in status.history] == [
        ("r3", format_rfc3339(at(60))),
        ("r2", format_rfc3339(START)),
    ]


def test_rollback_makes_an_old_revision_the_newest() -> None:
    found = desire(observed(deployment("r1"), instances(*["r2 ready"] * 3), [R1, R2]), START)
    assert found.record is not None
    assert (found.record.name, found.record.hash, found.record.number) == (R1.name, R1.hash, 3)
    assert [(each.revision, each.release) for each in found.status.history] == [
        (3, "r1"),
        (2, "r2"),
    ]
    assert [each.message for each in found.events] == [
        "Rolled back to revision 1, which is revision 3 now (release r1)"
    ]
    assert len(found.delete) == 1


def test_revisions_beyond_the_limit_are_deleted_unless_instances_are_made_of_them() -> None:
    of = deployment("r3", revision_history_limit=0)
    found = desire(observed(of, instances("r1 ready"), [R1, R2, R3]), START)
    assert [each.release for each in found.forget] == ["r2"]


def test_template_in_other_words_is_the_same_revision() -> None:
    """A field that is set to its default, or a hash function of another version."""
    recorded = dataclasses.replace(R1, hash="0123456789")
    of = deployment("r1", template=template("r1", queue=""))
    found = desire(observed(of, (), [recorded]), START)
    assert (found.record, found.revision) == (None, recorded)


def test_estimate_is_reported_and_its_time_refreshed_every_minute() -> None:
    def seen_at(of: InferenceEngineDeployment, seconds: float, additional: int) -> DeploymentPlan:
        def estimate(
            template: EngineSpec, without: Sequence[InferenceEngineInstance]
        ) -> CapacityEstimate:
            return CapacityEstimate(additional, "no free GPUs", at(seconds))

        seen = observed(of, (), [R1], estimate=estimate)
        return desire(seen, at(seconds))

    of = deployment("r1", 0)
    first = seen_at(of, 0, 2)
    assert (first.status.additional_replicas, first.status.observed_time) == (
        2,
        format_rfc3339(START),
    )
    assert first.status.additional_replicas_message == "no free GPUs"
    of = later(of, first)
    assert seen_at(of, 30, 2).status == first.status
    assert seen_at(of, 60, 2).status.observed_time == format_rfc3339(at(60))
    assert seen_at(of, 30, 1).status.additional_replicas == 1
