"""The stream of a gateway whose call is aborted."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

from kilonova.serving.controlplane.ads.connections import GatewayConnections
from kilonova.serving.controlplane.ads.service import DiscoveryService
from kilonova.serving.controlplane.ads.snapshot import ResourceType
from kilonova.serving.controlplane.ads.stream import DiscoveryRequest
from kilonova.serving.controlplane.authentication import Authenticator
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.controlplane.publication import Publications
from kilonova.serving.gateway.model import ServiceKey


class OneToken:
    """A `TokenSource`."""

    def find(self, key: ServiceKey) -> str | None:
        return "secret"


class CallContext:
    """Of a call with that token."""

    def invocation_metadata(self) -> Any:
        return (("authorization", "Bearer secret"),)


async def test_aborted_call_ends_its_stream_and_is_no_error() -> None:
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    async def requests() -> AsyncIterator[DiscoveryRequest | None]:
        yield DiscoveryRequest(ResourceType.CLUSTER, node="gw", service="default/web")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise RuntimeError("Locally aborted.") from None  # so does gRPC

    metrics = ControlPlaneMetrics()
    connections = GatewayConnections(Publications(), metrics, asyncio.get_running_loop().time)
    service = DiscoveryService(connections, Authenticator(OneToken(), metrics))
    context: Any = CallContext()
    stream = service.stream_aggregated_resources(requests(), context)
    next_response = asyncio.ensure_future(anext(stream, None))
    while not connections.list_gateways(("default", "web")):
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    next_response.cancel()
    await asyncio.wait([next_response])
    assert connections.list_gateways(("default", "web")) == []
    await asyncio.sleep(0)
    del stream, next_response
    gc.collect()  # asyncio tells of an error that nobody took when its task is collected
    assert told == []
