"""What a Job does about its pods: values in, decisions out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import format_rfc3339
from kilonova.local.controllers.batch.job.finish import decide_completion, decide_finish
from kilonova.local.controllers.batch.job.index_set import IndexSet
from kilonova.local.controllers.batch.job.pods.counts import count_pods
from kilonova.local.controllers.batch.job.pods.failures import (
    JobBackoff,
    build_failure_annotations,
    match_failure_policy,
)
from kilonova.local.controllers.batch.job.pods.plan import plan_pod_changes
from kilonova.local.controllers.batch.job.pods.tracking import (
    count_released,
    finish_status,
    record_finished_pods,
)
from kilonova.local.controllers.batch.objects import (
    COMPLETION_INDEX,
    TRACKING_FINALIZER,
    ExitCodes,
    FailurePolicy,
    FailureRule,
    Job,
    JobSpec,
    JobStatus,
    PodConditionPattern,
    SuccessPolicy,
    SuccessRule,
    UncountedPods,
)
from kilonova.local.objects.core import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Pod,
    PodStatus,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def job(*, status: JobStatus | None = None, policy: str = "Never", **spec: Any) -> Job:
    template = {"spec": {"restartPolicy": policy, "containers": [{"name": "main"}]}}
    spec.setdefault("completions", 1)
    return Job(
        Metadata("j", "job-uid", "1", "default"),
        JobSpec(template=template, **spec),
        status or JobStatus(start_time=format_rfc3339(NOW)),
    )


def pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    code: int = 1,
    ago: float = 0,
    tracked: bool = True,
    terminating: bool = False,
    conditions: tuple[Condition, ...] = (),
    failures: int | None = None,
    restarts: int = 0,
) -> Pod:
    notes = {} if index is None else {COMPLETION_INDEX: str(index)}
    if failures is not None:
        notes["batch.kubernetes.io/job-index-failure-count"] = str(failures)
    end = format_rfc3339(NOW - timedelta(seconds=ago))
    ended = ContainerStateTerminated(code if phase == "Failed" else 0, finished_at=end)
    over = phase in ("Failed", "Succeeded")
    status = ContainerStatus("main", False, restarts, ContainerState(ended if over else None))
    metadata = Metadata(
        name,
        f"uid-{name}",
        "1",
        "default",
        annotations=notes,
        finalizers=(TRACKING_FINALIZER,) if tracked else (),
        creation_timestamp=end,
        deletion_timestamp=end if terminating else None,
    )
    return Pod(
        metadata, status=PodStatus(phase, conditions=conditions, container_statuses=(status,))
    )


def names(pods: Any) -> list[str]:
    return [each.metadata.name for each in pods]


@pytest.mark.parametrize(
    ("text", "below", "written", "size"),
    [
        ("", 5, "", 0),
        ("0-2,4", 5, "0-2,4", 4),
        ("0,1,2", 5, "0-2", 3),
        ("3,4", 9, "3,4", 2),
        ("0-9", 4, "0-3", 4),
        ("7,8", 4, "", 0),
        ("x,1", 4, "1", 1),
    ],
)
def test_indexes_are_read_and_written(text: str, below: int, written: str, size: int) -> None:
    found = IndexSet.parse(text, below)
    assert (str(found), len(found)) == (written, size)


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_indexes_are_sets(some: set[int], others: set[int]) -> None:
    both = IndexSet.from_numbers(some) | IndexSet.from_numbers(others)
    assert {number for number in range(50) if number in both} == some | others
    assert len(both) == len(some | others)
    assert IndexSet.parse(str(both), 50) == both
    assert set(both.iter_missing(50)) == set(range(50)) - some - others
    assert IndexSet.from_numbers(some).count_common(IndexSet.from_numbers(others)) == len(
        some & others
    )


RULES = FailurePolicy(
    (
        FailureRule("Ignore", on_pod_conditions=(PodConditionPattern("DisruptionTarget"),)),
        FailureRule("FailJob", ExitCodes("In", (42,), "main")),
        FailureRule("FailIndex", ExitCodes("In", (5,))),
        FailureRule("Count", ExitCodes("NotIn", (7,))),
    )
)


@pytest.mark.parametrize(
    ("failed", "action", "text"),
    [
        (pod("p", "Failed", code=1), "Count", ""),
        (pod("p", "Failed", code=7), "", ""),
        (pod("p", "Failed", code=5), "FailIndex", ""),
        (
            pod("p", "Failed", code=42),
            "FailJob",
            "Container main for pod default/p failed with exit code 42 matching FailJob rule "
            "at index 1",
        ),
        (
            pod("p", "Failed", code=42, conditions=(Condition("DisruptionTarget", "True"),)),
            "Ignore",
            "",
        ),
    ],
)
def test_failure_policy(failed: Pod, action: str, text: str) -> None:
    reported = match_failure_policy(RULES, failed)
    assert (reported.action, reported.job_failure) == (action, text)


@pytest.mark.parametrize(
    ("succeeded", "failed", "failures", "remaining"),
    [
        ([], [], 0, 0),
        ([], [2], 1, 8),
        ([], [5, 2], 2, 18),
        ([], [2] * 30, 30, 598),
        ([3], [5, 2], 1, 8),
        ([1], [5, 2], 0, 0),
        ([], [11], 1, 0),
    ],
)
def test_consecutive_failures_delay_the_next_pod(
    succeeded: list[float], failed: list[float], failures: int, remaining: float
) -> None:
    after = JobBackoff().record_finished(
        [pod("s", "Succeeded", ago=ago) for ago in succeeded],
        [pod("f", "Failed", ago=ago) for ago in failed],
    )
    assert (after.failures, after.remaining(NOW)) == (failures, remaining)


@pytest.mark.parametrize(
    ("spec", "pods", "status", "deleted", "created", "wait"),
    [
        ({"completions": 3, "parallelism": 2}, [], None, [], 2, 0),
        ({"completions": 3, "parallelism": 2}, [pod("a")], None, [], 1, 0),
        (
            {"completions": 3, "parallelism": 2},
            [pod("a", "Succeeded"), pod("b", "Succeeded")],
            None,
            [],
            1,
            0,
        ),
        ({"completions": 3, "parallelism": 1}, [pod("a"), pod("b", "Pending")], None, ["b"], 0, 0),
        ({"completions": None, "parallelism": 3}, [], None, [], 3, 0),
        ({"completions": None, "parallelism": 3}, [pod("a", "Succeeded")], None, [], 0, 0),
        ({"suspend": True, "parallelism": 2}, [pod("a"), pod("b")], None, ["a", "b"], 0, 0),
        # A terminating pod is replaced at once, unless podReplacementPolicy is Failed.
        ({"completions": 2, "parallelism": 2}, [pod("a", terminating=True)], None, [], 2, 0),
        (
            {"completions": 2, "parallelism": 2, "pod_replacement_policy": "Failed"},
            [pod("a", terminating=True)],
            None,
            [],
            1,
            0,
        ),
    ],
)
def test_how_many_pods_there_should_be(
    spec: Any, pods: list[Pod], status: Any, deleted: list[str], created: int, wait: float
) -> None:
    found = plan_pod_changes(count_pods(job(status=status, **spec), pods), JobBackoff(), NOW)
    assert (names(found.delete), len(found.create), found.requeue_after) == (deleted, created, wait)


def indexed(**spec: Any) -> Job:
    return job(completion_mode="Indexed", **spec)


@pytest.mark.parametrize(
    ("expected", "pods", "deleted", "created"),
    [
        (indexed(completions=4, parallelism=2), [], [], [0, 1]),
        (indexed(completions=4, parallelism=2), [pod("a", index=1)], [], [0]),
        (
            indexed(completions=4, parallelism=4),
            [pod("a", "Succeeded", index=0), pod("b", index=2)],
            [],
            [1, 3],
        ),
        (
            indexed(completions=4, parallelism=4),
            [pod("a", index=0), pod("b", "Pending", index=0), pod("c")],
            ["c", "b"],
            [],
        ),
        (
            indexed(completions=2, parallelism=4, status=JobStatus(completed_indexes="0")),
            [pod("a", index=7)],
            ["a"],
            [],
        ),
        (
            indexed(completions=3, parallelism=3, backoff_limit_per_index=1),
            [pod("a", "Failed", index=1, ago=60, failures=0)],
            [],
            [0, 1, 2],
        ),
        (
            indexed(completions=3, parallelism=3, backoff_limit_per_index=1),
            [pod("a", "Failed", index=1, failures=1)],
            [],
            [0, 2],
        ),
        (
            indexed(completions=3, parallelism=3, backoff_limit_per_index=5),
            [pod("a", "Failed", index=1, ago=1, failures=0)],
            [],
            [0, 2],
        ),
    ],
)
def test_every_index_has_one_pod(
    expected: Job, pods: list[Pod], deleted: list[str], created: list[int]
) -> None:
    found = plan_pod_changes(count_pods(expected, pods), JobBackoff(), NOW)
    assert names(found.delete) == deleted
    assert [
        int(each["metadata"]["annotations"][COMPLETION_INDEX]) for each in found.create
    ] == created


def test_replacement_inherits_the_failure_count_of_its_index() -> None:
    limited = indexed(completions=2, backoff_limit_per_index=3, pod_failure_policy=RULES)
    annotation = "batch.kubernetes.io/job-index-failure-count"
    assert build_failure_annotations(limited, None) == {annotation: "0"}
    counted_one = pod("a", "Failed", index=0, failures=1)
    assert build_failure_annotations(limited, counted_one) == {annotation: "2"}
    ignored = pod("a", "Failed", conditions=(Condition("DisruptionTarget", "True"),), failures=1)
    assert build_failure_annotations(limited, ignored) == {
        annotation: "1",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }


def succeeded_indexes(text: str, **rule: Any) -> Job:
    policy = SuccessPolicy((SuccessRule(**rule),))
    return indexed(
        completions=5,
        parallelism=5,
        success_policy=policy,
        status=JobStatus(completed_indexes=text),
    )


@pytest.mark.parametrize(
    ("expected", "pods", "type_", "reason"),
    [
        (job(), [pod("a")], None, None),
        (job(backoff_limit=1), [pod("a", "Failed")], None, None),
        (
            job(backoff_limit=1),
            [pod("a", "Failed"), pod("b", "Failed")],
            "FailureTarget",
            "BackoffLimitExceeded",
        ),
        (
            job(backoff_limit=0, pod_failure_policy=RULES),
            [pod("a", "Failed", conditions=(Condition("DisruptionTarget", "True"),))],
            None,
            None,
        ),
        (
            job(pod_failure_policy=RULES),
            [pod("a", "Failed", code=42)],
            "FailureTarget",
            "PodFailurePolicy",
        ),
        (
            job(policy="OnFailure", backoff_limit=3),
            [pod("a", restarts=3)],
            "FailureTarget",
            "BackoffLimitExceeded",
        ),
        (job(policy="OnFailure", backoff_limit=3), [pod("a", restarts=2)], None, None),
        (
            job(
                active_deadline_seconds=60,
                status=JobStatus(start_time=format_rfc3339(NOW - timedelta(seconds=60))),
            ),
            [pod("a")],
            "FailureTarget",
            "DeadlineExceeded",
        ),
        (
            indexed(completions=4, parallelism=4, backoff_limit_per_index=0, max_failed_indexes=1),
            [pod("a", "Failed", index=0), pod("b", "Failed", index=1)],
            "FailureTarget",
            "MaxFailedIndexesExceeded",
        ),
        (
            indexed(completions=2, parallelism=2, backoff_limit_per_index=0, backoff_limit=99),
            [pod("a", "Failed", index=0), pod("b", "Succeeded", index=1)],
            "FailureTarget",
            "FailedIndexes",
        ),
        (
            succeeded_indexes("0-2", succeeded_indexes="0-1"),
            [],
            "SuccessCriteriaMet",
            "SuccessPolicy",
        ),
        (
            succeeded_indexes("2-4", succeeded_indexes="0-2", succeeded_count=1),
            [],
            "SuccessCriteriaMet",
            "SuccessPolicy",
        ),
        (succeeded_indexes("3", succeeded_indexes="0-2"), [], None, None),
        (succeeded_indexes("3,4", succeeded_count=3), [], None, None),
    ],
)
def test_when_a_job_ends(expected: Job, pods: list[Pod], type_: Any, reason: Any) -> None:
    found = decide_finish(count_pods(expected, pods), NOW)
    assert (found and found.type, found and found.reason) == (type_, reason)


@pytest.mark.parametrize(
    ("completions", "pods", "active", "complete"),
    [
        (2, ["Succeeded", "Succeeded"], 0, True),
        (2, ["Succeeded"], 0, False),
        (2, ["Succeeded", "Succeeded"], 1, False),
        (None, ["Succeeded", "Failed"], 0, True),
        (None, ["Failed"], 0, False),
    ],
)
def test_when_a_job_is_complete(
    completions: int | None, pods: list[str], active: int, complete: bool
) -> None:
    found = count_pods(
        job(completions=completions), [pod(str(n), phase) for n, phase in enumerate(pods)]
    )
    assert (decide_completion(found, active, NOW) is not None) is complete


def test_a_pod_is_counted_in_three_steps_and_once() -> None:
    ended = [pod("a", "Succeeded"), pod("b", "Failed"), pod("c")]
    expected = job(completions=5, parallelism=3)
    first = record_finished_pods(count_pods(expected, ended), expected.status, None)
    assert first.status.uncounted_terminated_pods == UncountedPods(("uid-a",), ("uid-b",))
    assert names(first.release) == ["a", "b"]
    assert (first.status.succeeded, first.status.failed) == (0, 0)
    # Interrupted after the first write: the same pods, the same status.
    again = job(completions=5, parallelism=3, status=first.status)
    assert record_finished_pods(count_pods(again, ended), again.status, None).status == first.status
    # Interrupted after the finalizers: uids become counts, whether the pods exist or not.
    free = [pod("a", "Succeeded", tracked=False), pod("c")]
    last = record_finished_pods(count_pods(again, free), again.status, None)
    assert (last.status.succeeded, last.status.failed) == (1, 1)
    assert last.status.uncounted_terminated_pods == UncountedPods()
    assert last.release == ()
    assert count_released(first.status, {"uid-c"}) == last.status


def test_job_finishes_only_when_all_pods_are_counted() -> None:
    done = [pod("a", "Succeeded")]
    expected = job()
    found = count_pods(expected, done)
    tracked = record_finished_pods(found, expected.status, decide_completion(found, 0, NOW))
    assert [each.type for each in tracked.status.conditions] == ["SuccessCriteriaMet"]
    assert tracked.finish is not None
    assert tracked.finish.type == "Complete"
    assert finish_status(tracked.status, tracked.finish, 0) is None
    numbered = count_released(tracked.status, set())
    assert finish_status(numbered, tracked.finish, 1) is None
    over = finish_status(numbered, tracked.finish, 0)
    assert over is not None
    assert (over.succeeded, over.completion_time) == (1, format_rfc3339(NOW))
    assert [each.type for each in over.conditions] == ["SuccessCriteriaMet", "Complete"]
