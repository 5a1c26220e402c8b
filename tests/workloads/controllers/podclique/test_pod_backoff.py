"""Backoff before a failed pod is created again."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.local.simnodes import NO_NODES
from kilonova.workloads.controllers.podclique.pod_backoff import PodBackoff
from kilonova.workloads.resources import Pod
from tests.local.embedded_cluster import advance_time
from tests.workloads.api_objects import clique, pod_clique_set, pod_template
from tests.workloads.controllers.podclique.clique_cluster import running_controller
from tests.workloads.controllers.podclique.clique_objects import (
    OLD,
    build_clique,
    build_pod,
    build_pods,
    list_created_indexes,
    plan_pods,
)
from tests.workloads.workload_cluster import NAMESPACE, PODS


class Clock:
    """A time that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(index: int, attempt: int = 0, **options: Any) -> Pod:
    return build_pod(build_clique(), index, attempt, up=False, phase="Failed", **options)


def test_each_failure_doubles_the_wait_of_its_index() -> None:
    clock = Clock()
    retries, found = PodBackoff(clock), list[float]()
    for attempt in range(10):
        found.append(retries.compute_delays(build_clique(), [failed(1, attempt)]).get(1, 0))
        clock.now += found[-1] + 0.5
        assert retries.compute_delays(build_clique(), []) == {}
    assert found == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_failed_pod_counts_once_and_others_do_not_wait() -> None:
    clock, clique = Clock(), build_clique(restart="Never")
    retries = PodBackoff(clock)
    kept = [failed(1), failed(2)]
    assert retries.compute_delays(clique, kept) == {}
    assert retries.compute_delays(clique, kept) == {}
    assert retries.compute_delays(clique, [*kept, failed(1, 1)]) == {1: 1.0}
    clock.now += 0.75
    assert retries.compute_delays(clique, [*kept, failed(1, 1)]) == {1: 0.25}


@pytest.mark.parametrize(
    "pod",
    [
        failed(0, 1, ending=True),
        failed(0, 1, owner="another"),
        failed(0, 1, hash_=OLD),
        failed(0, 1, annotations={names.INCARNATION: "7"}),
        build_pod(build_clique(), 0, 1, up=True),
    ],
    ids=["ending", "another's", "template", "incarnation", "well"],
)
def test_deleted_pod_has_not_failed(pod: Pod) -> None:
    retries = PodBackoff(Clock())
    retries.compute_delays(build_clique(), [failed(0)])
    assert retries.compute_delays(build_clique(), [pod]) == {}


def test_succeeded_pod_counts_as_failed_only_with_restart_policy_always() -> None:
    for restart, delays in (("Always", {0: 1.0}), ("OnFailure", {})):
        owner, retries = build_clique(restart=restart), PodBackoff(Clock())
        for attempt in (0, 1):
            pod = build_pod(owner, 0, attempt, up=False, phase="Succeeded")
            found = retries.compute_delays(owner, [pod])
        assert found == delays


def test_time_new_incarnation_and_deletion_reset_the_backoff() -> None:
    clock = Clock()
    retries = PodBackoff(clock)
    for attempt in range(3):
        retries.compute_delays(build_clique(), [failed(0, attempt)])
    assert retries.compute_delays(build_clique(incarnation=1), []) == {}
    for attempt in range(3):
        retries.compute_delays(build_clique(), [failed(0, attempt)])
    clock.now += 121
    assert retries.compute_delays(build_clique(), [failed(0, 3)]) == {}
    assert retries.compute_delays(build_clique(), [failed(0, 4)]) == {0: 1.0}
    retries.forget(("default", "sys-0-w"))
    assert retries.compute_delays(build_clique(), []) == {}


def test_only_the_index_in_backoff_waits() -> None:
    owner = build_clique(4)
    plan = plan_pods(owner, build_pods(owner, 1), backoff_seconds={0: 3.0, 2: 7.0, 9: 1.0})
    assert (list_created_indexes(plan), plan.requeue_after) == ([3], 3.0)
    assert (
        plan_pods(owner, build_pods(owner, 0, 1, 2, 3), backoff_seconds={0: 3.0}).requeue_after
        is None
    )


@pytest.mark.looptime
@pytest.mark.parametrize("restart", ["Always", "Never"])
async def test_immediately_failing_pods_are_recreated_with_backoff(restart: str) -> None:
    async with running_controller(fleet=NO_NODES) as (cluster, process):
        template = clique("w", 1, pod_spec=pod_template(restartPolicy=restart))
        set_ = await cluster.add_set(pod_clique_set(template, backoff_limit=1000))
        await cluster.add_gang(await cluster.add_clique(set_, "w"))
        for _ in range(600):
            await advance_time(0.5)
            for pod in await cluster.cluster.list_objects(PODS):
                if pod["status"]["phase"] == "Pending":
                    patch = {"status": {"phase": "Failed"}}
                    name = pod["metadata"]["name"]
                    await cluster.cluster.client.patch(
                        PODS, name, patch, NAMESPACE, subresource="status"
                    )
        posts = [each.path for each in process.writes if each.method == "POST"]
        assert 8 <= sum(path.endswith("/pods") for path in posts) <= 14
