"""The cluster decides who may read the topology."""

from tests.gpu.topologyservice.topology_cluster import (
    BINDINGS,
    allow_reading,
    create_token,
    run_topology_service,
)
from tests.local.embedded_cluster import advance_time, virtual_time

pytestmark = virtual_time


async def test_only_authorized_accounts_read_and_only_what_they_may() -> None:
    async with run_topology_service(authorize=True) as service:
        reply = await service.send("/v1/topology")
        assert (reply.status, reply.headers["www-authenticate"]) == (401, "Bearer")
        service.token = "made-up"
        assert (await service.send("/v1/topology")).status == 401
        service.token = await create_token(service, "reader")
        reply = await service.send("/v1/topology")
        assert reply.status == 403
        assert b"system:serviceaccount:default:reader" in reply.body
        await allow_reading(service, "reader", "/v1/topology", "/v1/topology/*")
        await advance_time(1)
        assert (await service.send("/v1/topology")).status == 200
        assert (await service.send("/v1/topology/gpu-0")).status == 200
        assert (await service.send("/v1/best-set", gpus="1")).status == 403


async def test_a_right_that_is_taken_away_ends_within_seconds() -> None:
    async with run_topology_service(authorize=True) as service:
        service.token = await create_token(service, "reader")
        await allow_reading(service, "reader", "/v1/topology")
        await advance_time(1)
        assert (await service.send("/v1/topology")).status == 200
        await service.client.delete(BINDINGS, "reader")
        await advance_time(11)
        assert (await service.send("/v1/topology")).status == 403
