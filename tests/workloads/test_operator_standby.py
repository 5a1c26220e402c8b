"""A copy of an operator that does not lead, and takes over."""

import pytest

from kilonova.kube import Controller
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import Settings
from tests.local.embedded_cluster import LoopClock
from tests.workloads.builders import clique, pod_clique_set
from tests.workloads.ground import ground, parts_running
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime


async def test_copy_that_waits_collects_no_work_and_leads_when_it_is_its_turn() -> None:
    async with ground() as place:
        clock = LoopClock()
        client = place.cluster.client("operator")
        copy = build_operator(client, Settings(), now=clock.now, monotonic=clock.monotonic)
        async with parts_running(copy.parts, ()):
            async with operating(place.cluster):
                await place.apply(pod_clique_set(clique("a"), clique("b")))
                await place.until(lambda status: status.get("availableReplicas") == 1)
            waiting = [len(each.queue) for each in copy.leading if isinstance(each, Controller)]
            assert waiting == [0] * len(copy.leading)
            async with parts_running((), copy.leading):
                await place.apply(pod_clique_set(clique("a"), clique("b"), replicas=2))
                await place.until(lambda status: status.get("availableReplicas") == 2)
