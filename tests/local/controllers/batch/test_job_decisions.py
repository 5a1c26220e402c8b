"""What a job does about its pods: values in, decisions out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import rfc3339
from kilonova.local.controllers.batch.failures import Backoff, inherited_failures, meaning
from kilonova.local.controllers.batch.intervals import Indexes
from kilonova.local.controllers.batch.objects import (
    INDEX,
    TRACKING,
    ConditionPattern,
    ExitCodes,
    FailurePolicy,
    FailureRule,
    Job,
    JobSpec,
    JobStatus,
    SuccessPolicy,
    SuccessRule,
    Uncounted,
)
from kilonova.local.controllers.batch.pods import changes
from kilonova.local.controllers.batch.tally import tally
from kilonova.local.controllers.batch.tracking import concluded, counted, track
from kilonova.local.controllers.batch.verdict import completion, verdict
from kilonova.local.controllers.objects import (
    ContainerState,
    ContainerStatus,
    Pod,
    PodStatus,
    Terminated,
)

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def job(*, status: JobStatus | None = None, policy: str = "Never", **spec: Any) -> Job:
    template = {"spec": {"restartPolicy": policy, "containers": [{"name": "main"}]}}
    spec.setdefault("completions", 1)
    return Job(
        Metadata("j", "job-uid", "1", "default"),
        JobSpec(template=template, **spec),
        status or JobStatus(start_time=rfc3339(NOW)),
    )


def pod(
    name: str,
    phase: str = "Running",
    *,
    index: int | None = None,
    code: int = 1,
    ago: float = 0,
    tracked: bool = True,
    going: bool = False,
    conditions: tuple[Condition, ...] = (),
    failures: int | None = None,
    restarts: int = 0,
) -> Pod:
    notes = {} if index is None else {INDEX: str(index)}
    if failures is not None:
        notes["batch.kubernetes.io/job-index-failure-count"] = str(failures)
    end = rfc3339(NOW - timedelta(seconds=ago))
    ended = Terminated(code if phase == "Failed" else 0, finished_at=end)
    over = phase in ("Failed", "Succeeded")
    status = ContainerStatus("main", False, restarts, ContainerState(ended if over else None))
    metadata = Metadata(
        name,
        f"uid-{name}",
        "1",
        "default",
        annotations=notes,
        finalizers=(TRACKING,) if tracked else (),
        creation_timestamp=end,
        deletion_timestamp=end if going else None,
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
    found = Indexes.parse(text, below)
    assert (str(found), len(found)) == (written, size)


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_indexes_are_sets(some: set[int], others: set[int]) -> None:
    both = Indexes.of(some) | Indexes.of(others)
    assert {number for number in range(50) if number in both} == some | others
    assert len(both) == len(some | others)
    assert Indexes.parse(str(both), 50) == both
    assert set(both.missing(50)) == set(range(50)) - some - others
    assert Indexes.of(some).common(Indexes.of(others)) == len(some & others)


RULES = FailurePolicy(
    (
        FailureRule("Ignore", on_pod_conditions=(ConditionPattern("DisruptionTarget"),)),
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
def test_what_a_failure_means(failed: Pod, action: str, text: str) -> None:
    told = meaning(RULES, failed)
    assert (told.action, told.job_failure) == (action, text)


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
def test_failures_in_a_row_make_the_next_pod_wait(
    succeeded: list[float], failed: list[float], failures: int, remaining: float
) -> None:
    after = Backoff().after(
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
        # One on its way out is replaced at once, unless only failed ones are.
        ({"completions": 2, "parallelism": 2}, [pod("a", going=True)], None, [], 2, 0),
        (
            {"completions": 2, "parallelism": 2, "pod_replacement_policy": "Failed"},
            [pod("a", going=True)],
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
    found = changes(tally(job(status=status, **spec), pods), Backoff(), NOW)
    assert (names(found.delete), len(found.create), found.wait) == (deleted, created, wait)


def indexed(**spec: Any) -> Job:
    return job(completion_mode="Indexed", **spec)


@pytest.mark.parametrize(
    ("wanted", "pods", "deleted", "created"),
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
    wanted: Job, pods: list[Pod], deleted: list[str], created: list[int]
) -> None:
    found = changes(tally(wanted, pods), Backoff(), NOW)
    assert names(found.delete) == deleted
    assert [int(each["metadata"]["annotations"][INDEX]) for each in found.create] == created


def test_a_replacement_knows_how_often_its_index_failed() -> None:
    limited = indexed(completions=2, backoff_limit_per_index=3, pod_failure_policy=RULES)
    annotation = "batch.kubernetes.io/job-index-failure-count"
    assert inherited_failures(limited, None) == {annotation: "0"}
    counted_one = pod("a", "Failed", index=0, failures=1)
    assert inherited_failures(limited, counted_one) == {annotation: "2"}
    ignored = pod("a", "Failed", conditions=(Condition("DisruptionTarget", "True"),), failures=1)
    assert inherited_failures(limited, ignored) == {
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
    ("wanted", "pods", "type_", "reason"),
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
                status=JobStatus(start_time=rfc3339(NOW - timedelta(seconds=60))),
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
def test_when_a_job_ends(wanted: Job, pods: list[Pod], type_: Any, reason: Any) -> None:
    found = verdict(tally(wanted, pods), NOW)
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
    found = tally(
        job(completions=completions), [pod(str(n), phase) for n, phase in enumerate(pods)]
    )
    assert (completion(found, active, NOW) is not None) is complete


def test_a_pod_is_counted_in_three_steps_and_once() -> None:
    ended = [pod("a", "Succeeded"), pod("b", "Failed"), pod("c")]
    wanted = job(completions=5, parallelism=3)
    first = track(tally(wanted, ended), wanted.status, None)
    assert first.status.uncounted_terminated_pods == Uncounted(("uid-a",), ("uid-b",))
    assert names(first.release) == ["a", "b"]
    assert (first.status.succeeded, first.status.failed) == (0, 0)
    # Cut off after the first write: the same pods, the same status.
    again = job(completions=5, parallelism=3, status=first.status)
    assert track(tally(again, ended), again.status, None).status == first.status
    # Cut off after the finalizers: the uids become numbers, whether the pods are there or not.
    free = [pod("a", "Succeeded", tracked=False), pod("c")]
    last = track(tally(again, free), again.status, None)
    assert (last.status.succeeded, last.status.failed) == (1, 1)
    assert last.status.uncounted_terminated_pods == Uncounted()
    assert last.release == ()
    assert counted(first.status, {"uid-c"}) == last.status


def test_a_job_is_over_only_when_nothing_is_left_to_count_or_to_wait_for() -> None:
    done = [pod("a", "Succeeded")]
    wanted = job()
    found = tally(wanted, done)
    tracked = track(found, wanted.status, completion(found, 0, NOW))
    assert [each.type for each in tracked.status.conditions] == ["SuccessCriteriaMet"]
    assert tracked.finish is not None
    assert tracked.finish.type == "Complete"
    assert concluded(tracked.status, tracked.finish, 0) is None
    numbered = counted(tracked.status, set())
    assert concluded(numbered, tracked.finish, 1) is None
    over = concluded(numbered, tracked.finish, 0)
    assert over is not None
    assert (over.succeeded, over.completion_time) == (1, rfc3339(NOW))
    assert [each.type for each in over.conditions] == ["SuccessCriteriaMet", "Complete"]
