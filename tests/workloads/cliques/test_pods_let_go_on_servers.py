"""Gates are lifted and pods released in one write, on both servers."""

import asyncio
import time

from kilonova.api.grove import names
from kilonova.kube import Reflector
from kilonova.kube.batches import Trust
from kilonova.kube.echo import Echo
from kilonova.kube.events import Recorder
from kilonova.workloads.cliques.hands import Hands
from kilonova.workloads.cliques.release import is_released
from kilonova.workloads.pods import is_gated
from kilonova.workloads.resources import PODS
from tests.conftest import Api
from tests.workloads.builders import pod_template


async def test_our_gate_is_lifted_the_users_stays_and_again_changes_nothing(api: Api) -> None:
    gates = [{"name": "first"}, {"name": names.GATE}, {"name": "last"}]
    spec = pod_template(schedulingGates=gates, automountServiceAccountToken=False)
    body = {"metadata": {"name": "waiting"}, "spec": spec}
    async with api.client() as client:
        pods = Reflector(client, PODS, api.namespace)
        watching = asyncio.create_task(pods.run())
        try:
            trust = Trust(time.monotonic)
            hands = Hands(client, Recorder(client, "test"), Echo(pods), trust)
            pod = await client.create(PODS, body, api.namespace)
            for _ in range(2):
                await hands.let_go([pod], [pod])
                after = await client.get(PODS, "waiting", api.namespace)
                assert [gate.name for gate in after.spec.scheduling_gates] == ["first", "last"]
                assert not is_gated(after)
                assert is_released(after)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
