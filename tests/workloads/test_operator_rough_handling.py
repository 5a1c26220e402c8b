"""What people should not have written or taken away, and what the operator makes of it."""

from typing import Any

import pytest

from kilonova.api.grove import names
from tests.local.embedded_cluster import NODES, eventually, settle
from tests.workloads.builders import clique, pod_clique_set, pod_template
from tests.workloads.ground import CLIQUES, NAMESPACE, PODS, Ground, ground
from tests.workloads.operator_cluster import operating

pytestmark = pytest.mark.looptime

SPEC = pod_template(terminationGracePeriodSeconds=1)


async def up(place: Ground, set_: Any) -> None:
    """Have a set, and wait until it is well."""
    await place.apply(set_)
    await place.until(lambda status: status.get("availableReplicas") == 1)
    await settle(5)


async def test_a_template_does_not_say_how_often_a_clique_was_started_anew() -> None:
    async with ground() as place, operating(place.cluster):
        template = clique("front", pod_spec=SPEC, annotations={names.INCARNATION: "5"})
        await up(place, pod_clique_set(template, termination_delay="10s"))
        for node in (await place.client.list(NODES)).items:
            patch = {"spec": {"unschedulable": True}}
            await place.client.patch(NODES, node["metadata"]["name"], patch)
        (pod,) = await place.names(PODS)
        await place.client.delete(PODS, pod, NAMESPACE)

        async def is_anew() -> bool:
            found = (await place.get(CLIQUES, "sys-0-front"))["metadata"]
            return found.get("annotations") == {names.INCARNATION: "1"}

        await eventually(is_anew)
        version = (await place.get(CLIQUES, "sys-0-front"))["metadata"]["generation"]
        await settle(60)
        assert await is_anew()
        assert (await place.get(CLIQUES, "sys-0-front"))["metadata"]["generation"] == version
