"""Gates are removed and pods released in one write, on both servers."""

import asyncio
import time

from kilonova.api.grove import names
from kilonova.kube import Reflector
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart
from kilonova.kube.events import EventRecorder
from kilonova.workloads.controllers.podclique.gates import is_released
from kilonova.workloads.controllers.podclique.pod_writer import PodWriter
from kilonova.workloads.pods.state import is_gated
from kilonova.workloads.resources import PODS
from tests.conftest import Api
from tests.workloads.api_objects import pod_template


async def test_gang_gate_is_removed_user_gates_stay_and_repeating_is_a_no_op(api: Api) -> None:
    gates = [{"name": "first"}, {"name": names.POD_GANG_GATE}, {"name": "last"}]
    spec = pod_template(schedulingGates=gates, automountServiceAccountToken=False)
    body = {"metadata": {"name": "waiting"}, "spec": spec}
    async with api.client() as client:
        pods = Reflector(client, PODS, api.namespace)
        watching = asyncio.create_task(pods.run())
        try:
            slow_start = SlowStart(time.monotonic)
            writer = PodWriter(
                client, EventRecorder(client, "test"), Expectations(pods), slow_start
            )
            pod = await client.create(PODS, body, api.namespace)
            for _ in range(2):
                await writer.ungate_and_release([pod], [pod])
                after = await client.get(PODS, "waiting", api.namespace)
                assert [gate.name for gate in after.spec.scheduling_gates] == ["first", "last"]
                assert not is_gated(after)
                assert is_released(after)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
