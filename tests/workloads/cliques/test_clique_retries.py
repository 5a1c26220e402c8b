"""How long a clique waits before it makes a pod again that has failed."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.local.nodes import NO_NODES
from kilonova.workloads.cliques.retries import Retries
from kilonova.workloads.resources import Pod
from tests.local.embedded_cluster import settle
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.cliques.clique_stage import playing
from tests.workloads.cliques.clique_values import OLD, a_clique, a_pod, decided, made, pods
from tests.workloads.ground import NAMESPACE, PODS


class Clock:
    """A time that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def failed(index: int, attempt: int = 0, **how: Any) -> Pod:
    return a_pod(a_clique(), index, attempt, up=False, phase="Failed", **how)


def test_each_failure_doubles_the_wait_of_its_index() -> None:
    clock = Clock()
    retries, found = Retries(clock), list[float]()
    for attempt in range(10):
        found.append(retries.waits(a_clique(), [failed(1, attempt)]).get(1, 0))
        clock.now += found[-1] + 0.5
        assert retries.waits(a_clique(), []) == {}
    assert found == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_failed_pod_counts_once_and_others_do_not_wait() -> None:
    clock, clique = Clock(), a_clique(restart="Never")
    retries = Retries(clock)
    kept = [failed(1), failed(2)]
    assert retries.waits(clique, kept) == {}
    assert retries.waits(clique, kept) == {}
    assert retries.waits(clique, [*kept, failed(1, 1)]) == {1: 1.0}
    clock.now += 0.75
    assert retries.waits(clique, [*kept, failed(1, 1)]) == {1: 0.25}


@pytest.mark.parametrize(
    "pod",
    [
        failed(0, 1, ending=True),
        failed(0, 1, owner="another"),
        failed(0, 1, hash_=OLD),
        failed(0, 1, annotations={names.INCARNATION: "7"}),
        a_pod(a_clique(), 0, 1, up=True),
    ],
    ids=["ending", "another's", "template", "incarnation", "well"],
)
def test_what_was_told_to_go_has_not_failed(pod: Pod) -> None:
    retries = Retries(Clock())
    retries.waits(a_clique(), [failed(0)])
    assert retries.waits(a_clique(), [pod]) == {}


def test_what_succeeded_has_failed_only_where_it_should_go_on() -> None:
    for restart, waits in (("Always", {0: 1.0}), ("OnFailure", {})):
        owner, retries = a_clique(restart=restart), Retries(Clock())
        for attempt in (0, 1):
            pod = a_pod(owner, 0, attempt, up=False, phase="Succeeded")
            found = retries.waits(owner, [pod])
        assert found == waits


def test_time_a_new_incarnation_and_going_are_forgiveness() -> None:
    clock = Clock()
    retries = Retries(clock)
    for attempt in range(3):
        retries.waits(a_clique(), [failed(0, attempt)])
    assert retries.waits(a_clique(incarnation=1), []) == {}
    for attempt in range(3):
        retries.waits(a_clique(), [failed(0, attempt)])
    clock.now += 121
    assert retries.waits(a_clique(), [failed(0, 3)]) == {}
    assert retries.waits(a_clique(), [failed(0, 4)]) == {0: 1.0}
    retries.forget(("default", "sys-0-w"))
    assert retries.waits(a_clique(), []) == {}


def test_only_the_held_back_index_waits() -> None:
    owner = a_clique(4)
    plan = decided(owner, pods(owner, 1), held_back={0: 3.0, 2: 7.0, 9: 1.0})
    assert (made(plan), plan.after) == ([3], 3.0)
    assert decided(owner, pods(owner, 0, 1, 2, 3), held_back={0: 3.0}).after is None


@pytest.mark.looptime
@pytest.mark.parametrize("restart", ["Always", "Never"])
async def test_pods_that_fail_at_once_are_made_less_and_less_often(restart: str) -> None:
    async with playing(fleet=NO_NODES) as (scene, process):
        template = clique("w", 1, pod_spec=pod_template(restartPolicy=restart))
        set_ = await scene.add_set(pod_clique_set(template, backoff_limit=1000))
        await scene.add_gang(await scene.add_clique(set_, "w"))
        for _ in range(600):
            await settle(0.5)
            for pod in await scene.place.all(PODS):
                if pod["status"]["phase"] == "Pending":
                    patch = {"status": {"phase": "Failed"}}
                    name = pod["metadata"]["name"]
                    await scene.place.client.patch(
                        PODS, name, patch, NAMESPACE, subresource="status"
                    )
        posts = [each.path for each in process.written if each.method == "POST"]
        assert 8 <= sum(path.endswith("/pods") for path in posts) <= 14
