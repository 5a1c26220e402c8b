"""A release in the namespaced mode, from its values to a request through a real Envoy, on a cluster
that has none of our kinds. The test starts the servers, where a kubelet would."""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import yaml

from kilonova.kube import Client, Manager
from kilonova.serving.assembly import build_serving
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.settings import ServingSettings
from kilonova.serving.sources import ConfigMapTransport
from tests.harness.server_process import find_free_port
from tests.local.embedded_cluster import run_cluster, wait_for_condition
from tests.serving.controlplane.support.connected_gateway import run_gateway
from tests.serving.controlplane.support.model_servers import ModelServer, Ports, run_model_server
from tests.serving.gateway.support.clients import build_infer, call, open_channel
from tests.serving.serving_cluster import CONFIG_MAPS, DEPLOYMENTS, PODS, SECRETS

NAMESPACE, RELEASE = "default", "sonic"
_PREFIX = "serving.kilonova.dev/"


def build_values(ports: Ports, grpc_port: int) -> Any:
    """A release without a server, which gets one with the first request."""
    servers = [{"name": "http", "port": ports.http}, {"name": "grpc", "port": ports.grpc}]
    gateway = [{"name": "grpc", "port": grpc_port}, {"name": "http", "port": find_free_port()}]
    return {
        "triton": {"service": {"ports": servers}},
        "envoy": {"service": {"ports": gateway}},
        "keda": {"enabled": True, "minReplicaCount": 0},
        "scaleFromZero": {"enabled": True},
    }


@asynccontextmanager
async def run_process(client: Client, settings: ServingSettings) -> AsyncGenerator[None]:
    """What `kilonova run serving --source configmaps` runs."""
    services = client.wrap_transport(lambda below: ConfigMapTransport(below, settings.namespace))
    serving = build_serving(services, settings)
    await serving.prepare()
    manager = Manager()
    manager.add(*serving.runnables)
    manager.add_leader_runnables(*serving.leader_runnables)
    running = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        manager.stop()
        await asyncio.wait({running})


async def read_token(client: Client) -> str:
    """The token of the gateways, once it is there."""
    found: Any = {}

    async def is_there() -> bool:
        nonlocal found
        secrets = await client.list(SECRETS, NAMESPACE)
        found = next(
            (each for each in secrets.items if each["metadata"]["name"] == f"{RELEASE}-gateway"), {}
        )
        return "bootstrap.yaml" in found.get("data", {})

    await wait_for_condition(is_there)
    return base64.b64decode(found["data"]["token"]).decode()


async def add_pod(client: Client, server: ModelServer) -> None:
    """The pod of a server, ready."""
    labels = {"inference-service": RELEASE, "server": "triton", "role": "server", "entry": "true"}
    metadata = {
        "name": server.name,
        "labels": {f"{_PREFIX}{key}": value for key, value in labels.items()},
    }
    spec = {"nodeName": "node", "containers": [{"name": "server", "image": "server"}]}
    await client.create(PODS, {"metadata": metadata, "spec": spec}, NAMESPACE)
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"phase": "Running", "podIP": server.address, "conditions": conditions}
    await client.patch(PODS, server.name, {"status": status}, NAMESPACE, subresource="status")


async def test_the_first_request_starts_the_first_server_and_is_answered_by_it() -> None:
    ports, grpc_port = Ports(), find_free_port()
    settings = ServingSettings(
        namespace=NAMESPACE,
        control_plane_port=find_free_port(),
        control_plane_http_port=find_free_port(),
        scrape_interval=0.2,
    )
    address = ControlPlaneAddress(
        settings.control_plane_host,
        settings.control_plane_port,
        http_port=settings.control_plane_http_port,
    )
    # The pods of Deployments would not run: nothing is there that could start them.
    async with run_cluster(controllers="*,-deployment-controller") as cluster:
        client = cluster.client("serving")
        metadata = {"name": RELEASE, "labels": {f"{_PREFIX}service-config": "true"}}
        data = {"values.yaml": yaml.safe_dump(build_values(ports, grpc_port))}
        await client.create(CONFIG_MAPS, {"metadata": metadata, "data": data}, NAMESPACE)
        async with run_process(client, settings):
            token = await read_token(client)

            async def has_replicas(replicas: int) -> bool:
                found = await client.list(DEPLOYMENTS, NAMESPACE)
                return any(
                    each["metadata"]["name"] == f"{RELEASE}-triton"
                    and each["spec"]["replicas"] == replicas
                    for each in found.items
                )

            await wait_for_condition(lambda: has_replicas(0))
            key = NAMESPACE, RELEASE
            async with (
                run_gateway(key, address, token, pod=f"{RELEASE}-gateway-0"),
                open_channel(grpc_port) as channel,
                run_model_server("server-0", ports) as server,
            ):
                held = asyncio.create_task(call(channel, "ModelInfer", build_infer("add")))
                await wait_for_condition(lambda: has_replicas(1))
                assert not held.done()
                await add_pod(client, server)
                await asyncio.wait_for(held, 30)
                assert server.served == 1
