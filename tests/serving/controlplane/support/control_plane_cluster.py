"""An embedded cluster with the objects of one service, and the control plane. In real time.

No controller runs: the test writes the objects that the control plane reads.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.api.crds import load_definitions
from kilonova.kube import Client, Manager, unstructured_resource
from kilonova.kube.serving.certificate_sources import CertificateSource
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.serving.caches import build_caches
from kilonova.serving.controlplane import ControlPlane, Timing, build_control_plane
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.settings import ServingSettings
from tests.harness.server_process import find_free_port
from tests.local.embedded_cluster import ACCOUNTS, run_cluster, wait_for_condition
from tests.serving.controlplane.support.connected_gateway import ConnectedGateway, run_gateway
from tests.serving.controlplane.support.model_servers import ModelServer, Ports, run_model_server

SERVICES = unstructured_resource(
    "serving.kilonova.dev", "v1alpha1", "inferenceservices", "InferenceService", True
)
SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
SECRETS = unstructured_resource("", "v1", "secrets", "Secret", True)

KEY = ("default", "web")
TOKEN = "token-of-the-service"
_LABELS = {"serving.kilonova.dev/inference-service": "web"}
_TIMING = Timing(secret_poll=0.1, drain_delay=0.1, trace_write=0.1)
_KINDS = ("inferenceservices.serving.kilonova.dev", "podcliquesets.grove.io")


@dataclass
class ControlPlaneCluster:
    """A cluster, and what happens in it."""

    client: Client
    """Of a user, and of the control plane."""
    settings: ServingSettings
    stack: AsyncExitStack
    http_port: int = field(default_factory=find_free_port)
    """Of the gateways."""
    grpc_port: int = field(default_factory=find_free_port)
    certificates: CertificateSource | None = None
    control_plane: ControlPlane | None = None
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    @property
    def address(self) -> ControlPlaneAddress:
        """Of the control plane that runs, or ran last."""
        assert self.control_plane is not None
        return self.control_plane.address

    async def create_service(self, *groups: Any, token: str = TOKEN, **spec: Any) -> None:
        """Create the service as its controller does, without servers."""
        gateway = {
            "httpPort": self.http_port,
            "grpcPort": self.grpc_port,
            # Servers are stopped as if they crashed: readiness is to tell, not these.
            "healthCheck": {"disabled": True},
            **spec.pop("gateway", {}),
        }
        body = {
            "metadata": {"name": "web"},
            "spec": {"servers": list(groups), "gateway": gateway, **spec},
        }
        await self.client.create(SERVICES, body, "default")
        for group in groups:
            await self._create_set(group)
        await self.create_secret("web-gateway", {"token": token}, managed=True)

    async def create_secret(
        self, name: str, data: dict[str, str], *, managed: bool = False
    ) -> None:
        """Create a Secret."""
        labels = {**_LABELS, "app.kubernetes.io/managed-by": "kilonova-serving"} if managed else {}
        body = {"metadata": {"name": name, "labels": labels}, "data": encode_data(data)}
        await self.client.create(SECRETS, body, "default")

    async def annotate_service(self, value: str) -> None:
        """Change what concerns nobody."""
        patch = {"metadata": {"annotations": {"note": value}}}
        await self.client.patch(SERVICES, KEY[1], patch, KEY[0])

    async def patch_service(self, spec: Any) -> None:
        """Merge fields into the spec."""
        await self.client.patch(SERVICES, "web", {"spec": spec}, "default")

    async def scale(self, replicas: int, group: str = "main") -> None:
        """Set the number of servers that a group is to have."""
        await self.client.patch(SETS, f"web-{group}", {"spec": {"replicas": replicas}}, "default")

    async def start_server(
        self, name: str, ports: Ports, *models: str, group: str = "main", **fields: Any
    ) -> ModelServer:
        """Start a server and let its pod become ready."""
        server = await self.stack.enter_async_context(
            run_model_server(name, ports, *models, **fields)
        )
        await self.add_pod(server, group=group)
        return server

    async def add_pod(
        self,
        server: ModelServer,
        *,
        group: str = "main",
        ready: bool = True,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Create the pod of a server."""
        prefix = "serving.kilonova.dev/"
        labels = {prefix + "server": group, prefix + "role": "server", prefix + "entry": "true"}
        await self._create_pod(server.name, labels, annotations or {})
        await self.set_pod_status(server.name, ready=ready, ip=server.address)

    async def add_gateway_pod(self, name: str) -> None:
        """Create the pod of a gateway, ready."""
        await self._create_pod(name, {"serving.kilonova.dev/role": "gateway"}, {})
        await self.set_pod_status(name, ready=True, ip="127.0.0.1")

    async def set_pod_status(self, name: str, *, ready: bool, ip: str) -> None:
        """Set the readiness of a pod."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        status = {"phase": "Running", "podIP": ip, "conditions": [condition]}
        await self.client.patch(PODS, name, {"status": status}, "default", subresource="status")

    async def annotate_pod(self, name: str, annotations: dict[str, str]) -> None:
        """Set annotations of a pod."""
        await self.client.patch(PODS, name, {"metadata": {"annotations": annotations}}, "default")

    async def delete_pod(self, name: str, *, grace: int = 30) -> None:
        """Delete a pod; with grace it is terminating from now on."""
        await self.client.delete(PODS, name, "default", grace_period_seconds=grace)

    async def start_gateway(
        self, pod: str = "web-gateway-0", *, token: str = TOKEN, ready: bool = True
    ) -> ConnectedGateway:
        """Start a gateway; it stops with the test."""
        running = run_gateway(KEY, self.address, token, pod=pod, ready=ready)
        return await self.stack.enter_async_context(running)

    @asynccontextmanager
    async def run_control_plane(self, *, killed: bool = False) -> AsyncGenerator[ControlPlane]:
        """The control plane from start to stop, or until it is killed."""
        caches = build_caches(self.client)
        self.registry = CollectorRegistry()
        built = build_control_plane(
            self.client,
            caches,
            self.settings,
            certificates=self.certificates,
            registry=self.registry,
            timing=_TIMING,
        )
        await built.prepare()
        self.control_plane = built
        manager = Manager()
        manager.add(*caches.runnables, *built.runnables)
        running = asyncio.create_task(manager.run(signals=False))
        try:
            yield built
        finally:
            if killed:
                running.cancel()
            else:
                manager.stop()
            await asyncio.wait({running})

    async def wait_until_connected(self, gateways: int = 1) -> None:
        """Wait until so many gateways are connected and have their endpoints."""

        async def connected() -> bool:
            assert self.control_plane is not None
            found = self.control_plane.configurations
            return found.count_connected(KEY) == gateways

        await wait_for_condition(connected, within=10, every=0.01)

    def read_metric(self, name: str, **labels: str) -> float:
        """A metric of the control plane; 0 if there is none."""
        return self.registry.get_sample_value(name, labels) or 0.0

    async def _create_set(self, group: Any) -> None:
        labels = {**_LABELS, "serving.kilonova.dev/server": group["name"]}
        spec: Any = {
            "replicas": group.get("replicas", 1),
            "template": {"cliques": [_CLIQUE]},
        }
        body = {"metadata": {"name": f"web-{group['name']}", "labels": labels}, "spec": spec}
        await self.client.create(SETS, body, "default")

    async def _create_pod(
        self, name: str, labels: dict[str, str], annotations: dict[str, str]
    ) -> None:
        metadata = {"name": name, "labels": {**_LABELS, **labels}, "annotations": annotations}
        # On a node, so that it is terminating when it is deleted.
        spec = {"nodeName": "node", "containers": [{"name": "server", "image": "server"}]}
        await self.client.create(PODS, {"metadata": metadata, "spec": spec}, "default")


_CLIQUE = {
    "name": "server",
    "spec": {
        "roleName": "server",
        "replicas": 1,
        "podSpec": {"containers": [{"name": "server", "image": "server"}]},
    },
}


def group_of(ports: Ports, name: str = "main", **fields: Any) -> Any:
    """A group of servers with these ports."""
    return {"name": name, "ports": {"http": ports.http, "grpc": ports.grpc}, **fields}


def scaled_from_zero(ports: Ports, name: str = "main", **scale_to_zero: Any) -> Any:
    """A group that has no server, and gets one with a request."""
    autoscaling = {"minReplicas": 0, "maxReplicas": 4, "scaleToZero": scale_to_zero}
    return group_of(ports, name, replicas=0, autoscaling=autoscaling)


def encode_data(data: dict[str, str]) -> dict[str, str]:
    """The data of a Secret."""
    return {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}


@asynccontextmanager
async def control_plane_cluster(
    *, running: bool = True, certificates: CertificateSource | None = None
) -> AsyncGenerator[ControlPlaneCluster]:
    """A cluster, with the control plane unless told otherwise."""
    settings = ServingSettings(
        control_plane_port=find_free_port(),
        control_plane_http_port=find_free_port(),
        on_this_machine=True,
    )
    async with run_cluster(controllers="") as cluster, AsyncExitStack() as stack:
        client = cluster.client("user")
        definitions = [each for each in load_definitions() if each["metadata"]["name"] in _KINDS]
        await install_crds(client, definitions)
        # Pods have an account, which a controller would create.
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        found = ControlPlaneCluster(client, settings, stack, certificates=certificates)
        await wait_for_condition(lambda: _are_served(client), every=0.01)
        if running:
            await stack.enter_async_context(found.run_control_plane())
        yield found


async def _are_served(client: Client) -> bool:
    for resource in (SERVICES, SETS):
        reply = await asyncio.gather(client.list(resource, "default"), return_exceptions=True)
        if isinstance(reply[0], Exception):
            return False
    return True
