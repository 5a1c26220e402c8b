"""Services from creation to deletion, in virtual time."""

from tests.local.embedded_cluster import virtual_time
from tests.serving.serving_cluster import (
    DEPLOYMENTS,
    PODS,
    SECRETS,
    SERVICES,
    SETS,
    serving_cluster,
)

pytestmark = virtual_time


async def test_service_becomes_ready() -> None:
    async with serving_cluster() as cluster:
        await cluster.create()
        status = await cluster.wait_for_phase("Ready")
        assert status["ready"] == 1
        assert status["gateways"] == 1
        print(status)
        print(await cluster.list_events())
        for each in (SETS, DEPLOYMENTS, SERVICES, SECRETS, PODS):
            print(await cluster.list_names(each))
