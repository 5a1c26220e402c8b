"""A standby replica of the operator that takes over."""

from kilonova.kube import Controller
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import OperatorSettings
from tests.local.embedded_cluster import LoopClock, virtual_time
from tests.workloads.api_objects import clique, pod_clique_set
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import run_runnables, workload_cluster

pytestmark = virtual_time


async def test_standby_queues_no_work_and_takes_over_when_elected() -> None:
    async with workload_cluster() as cluster:
        clock = LoopClock()
        client = cluster.cluster.client("operator")
        copy = build_operator(client, OperatorSettings(), now=clock.now, monotonic=clock.monotonic)
        async with run_runnables(copy.runnables, ()):
            async with running_operator(cluster.cluster):
                await cluster.apply(pod_clique_set(clique("a"), clique("b")))
                await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 1)
            waiting = [
                len(each.queue) for each in copy.leader_runnables if isinstance(each, Controller)
            ]
            assert waiting == [0] * len(copy.leader_runnables)
            async with run_runnables((), copy.leader_runnables):
                await cluster.apply(pod_clique_set(clique("a"), clique("b"), replicas=2))
                await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 2)
