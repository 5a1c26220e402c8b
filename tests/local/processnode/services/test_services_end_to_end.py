"""Services of an embedded cluster, reached from processes in pods and from this machine."""

import asyncio
import errno
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from kilonova.kube import Client, Manager
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.clock import IdGenerator
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.processnode.network import is_supported
from kilonova.local.processnode.services import build_dns_environment, build_service_components
from kilonova.local.processnode.services.proxy.service_proxy import describe_listen_failure
from kilonova.local.processnode.services.proxy.service_routes import build_routes, plan_listeners
from tests.local.embedded_cluster import EVENTS, SERVICES, run_cluster, wait_for_condition
from tests.local.processnode.network.network_pods import SERVER, NetworkPods, new_address, pods
from tests.local.processnode.services.service_objects import (
    endpoint,
    endpoint_slice,
    service,
    service_object,
    slice_object,
)

SLICES = unstructured_resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
URL = "https://127.0.0.1:1"
_numbers = count(os.getpid() * 64)


def new_cluster_ip() -> str:
    number = 512 + next(_numbers) % 60000
    return f"10.96.{number // 256}.{number % 256}"


@dataclass
class ServiceCluster:
    """A cluster whose routes go to a shim's network."""

    client: Client
    pods: NetworkPods
    published: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    unreachable: bool = False

    async def publish_routes(self, routes: list[dict[str, Any]]) -> None:
        if self.unreachable:
            raise ConnectionError("the shim is not running")
        self.published.append(routes)
        self.pods.network.set_routes(routes)

    def route(self, ip: str, port: int) -> dict[str, Any] | None:
        routes = self.published[-1] if self.published else []
        found = (r for r in routes if (r["address"], r["port"]) == (ip, port))
        return next(found, None)

    async def create(self, name: str, port: int, *addresses: str, **spec: Any) -> Any:
        """A Service with a slice of ready endpoints, at an address that no other test uses."""
        spec = {"clusterIP": new_cluster_ip(), **spec}
        ports = {"port": port}
        if spec.get("type") == "NodePort":
            ports["nodePort"] = 30000 + next(_numbers) % 2768
        await self.client.create(SLICES, slice_object(name, *addresses), "default")
        return await self.client.create(SERVICES, service_object(name, ports, **spec), "default")

    async def wait_routed(self, made: Any, *addresses: str) -> None:
        async def so() -> bool:
            route = self.route(made["spec"]["clusterIP"], made["spec"]["ports"][0]["port"])
            return route is not None and route["backends"] == [[a, 8080] for a in addresses]

        await wait_for_condition(so, within=20)


@asynccontextmanager
async def service_cluster() -> AsyncGenerator[ServiceCluster]:
    async with run_cluster(controllers="event-expiry") as cluster, pods() as made:
        controller_context = ControllerContext(
            cluster.client, cluster.clock, IdGenerator(), "", cluster.kubelets
        )
        at = ServiceCluster(cluster.client("test"), made)
        parts = build_service_components(controller_context, at.publish_routes, URL, upstream=list)
        manager = Manager(grace=2.0)
        manager.add(*controller_context.shared_parts, *parts)
        task = asyncio.create_task(manager.run(signals=False))
        try:
            yield at
        finally:
            manager.stop()
            await task


@pytest.fixture(name="service_cluster")
async def _scene() -> AsyncGenerator[ServiceCluster]:
    async with service_cluster() as made:
        yield made


needs_network = pytest.mark.skipif(not is_supported(), reason="the kernel has no pod network here")
CALL = "print(call(sys.argv[1], int(sys.argv[2])))"


def mirror(made: Any) -> str:
    return "127." + made["spec"]["clusterIP"].partition(".")[2]


async def call(ip: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(ip, port)
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def reached(ip: str, port: int, expected: str) -> None:
    async def so() -> bool:
        try:
            return (await call(ip, port)).startswith(expected)
        except OSError:
            return False

    await wait_for_condition(so, within=20)


async def refused(ip: str, port: int) -> None:
    async def so() -> bool:
        try:
            await call(ip, port)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False

    await wait_for_condition(so, within=20)


@needs_network
async def test_service_is_reached_from_pods_and_from_this_machine(
    service_cluster: ServiceCluster,
) -> None:
    one = new_address()
    await service_cluster.pods.serve(one, SERVER, "0.0.0.0", 8080, "one")
    made = await service_cluster.create("web", 8000, one)
    await service_cluster.wait_routed(made, one)
    client = new_address()
    answer = await service_cluster.pods.run(client, CALL, made["spec"]["clusterIP"], 8000)
    assert answer == f"one {client}"
    await reached(mirror(made), 8000, "one 127.0.0.1")


@needs_network
async def test_names_lead_to_services_and_to_pods(service_cluster: ServiceCluster) -> None:
    one, two = new_address(), new_address()
    for address in (one, two):
        await service_cluster.pods.serve(address, SERVER, "0.0.0.0", 8080, address)
    made = await service_cluster.create("web", 80, one)
    endpoints = [endpoint(one, hostname="db-0"), endpoint(two, hostname="db-1")]
    headless = slice_object("db", endpoints=endpoints)
    await service_cluster.client.create(SLICES, headless, "default")
    await service_cluster.client.create(
        SERVICES, service_object("db", {"port": 8080}, clusterIP="None"), "default"
    )
    await service_cluster.wait_routed(made, one)
    script = """
def addresses(name):
    return sorted({each[4][0] for each in socket.getaddrinfo(name, 80, socket.AF_INET)})
for name in sys.argv[1:]:
    try:
        print(name, *addresses(name), sep=",")
    except socket.gaierror as error:
        print(name, error.errno == socket.EAI_NONAME, sep=",")
print(call("web", 80).split()[0])
"""
    names = ["web", "web.default.svc.cluster.local", "db", "db-1.db", "kubernetes.default"]
    names.append("nope.default.svc.cluster.local.")
    output = await service_cluster.pods.run(
        new_address(), script, *names, env={**os.environ, **build_dns_environment("default")}
    )
    ip = made["spec"]["clusterIP"]
    assert output.splitlines() == [
        f"web,{ip}",
        f"web.default.svc.cluster.local,{ip}",
        f"db,{','.join(sorted([one, two]))}",
        f"db-1.db,{two}",
        "kubernetes.default,10.96.0.1",
        "nope.default.svc.cluster.local.,True",
        one,
    ]


@needs_network
async def test_grpc_finds_services_by_name(service_cluster: ServiceCluster) -> None:
    one = new_address()
    await service_cluster.pods.serve(one, SERVER, "0.0.0.0", 8080, "one")
    made = await service_cluster.create("web", 80, one)
    await service_cluster.wait_routed(made, one)
    script = """
import grpc
try:
    grpc.insecure_channel("web:80").unary_unary("/a/b")(b"", timeout=20)
except grpc.RpcError as error:
    print(error.code().name, "DNS" in error.details())
"""
    output = await service_cluster.pods.run(
        new_address(), script, env={**os.environ, **build_dns_environment("default")}
    )
    assert output == "UNAVAILABLE False"  # it is reached, and speaks no HTTP/2


async def test_routes_follow_the_endpoints(service_cluster: ServiceCluster) -> None:
    made = await service_cluster.create("web", 80, "127.64.0.1", "10.244.0.1")
    await service_cluster.wait_routed(made, "127.64.0.1")
    patch = {"endpoints": [endpoint("127.64.0.2"), endpoint("127.64.0.3", ready=False)]}
    await service_cluster.client.patch(SLICES, "web-1", patch, "default")
    await service_cluster.wait_routed(made, "127.64.0.2")
    await service_cluster.client.delete(SLICES, "web-1", "default")
    await service_cluster.wait_routed(made)
    await service_cluster.client.delete(SERVICES, "web", "default")

    async def gone() -> bool:
        return service_cluster.route(made["spec"]["clusterIP"], 80) is None

    await wait_for_condition(gone, within=20)


async def test_the_api_is_behind_its_service(service_cluster: ServiceCluster) -> None:
    async def so() -> bool:
        return (
            bool(service_cluster.published) and service_cluster.route("10.96.0.1", 443) is not None
        )

    await wait_for_condition(so, within=20)
    route = service_cluster.route("10.96.0.1", 443)
    assert route is not None
    assert route["backends"] == [["127.0.0.1", 1]]


async def test_unchanged_routes_are_not_published(service_cluster: ServiceCluster) -> None:
    made = await service_cluster.create("web", 80, "127.64.0.1")
    await service_cluster.wait_routed(made, "127.64.0.1")
    before = len(service_cluster.published)
    await service_cluster.client.patch(
        SERVICES, "web", {"metadata": {"labels": {"a": "b"}}}, "default"
    )
    other = await service_cluster.create("other", 80, "127.64.0.9")
    await service_cluster.wait_routed(other, "127.64.0.9")
    assert len(service_cluster.published) == before + 1


async def test_routes_are_published_again_when_the_shim_is_back(
    service_cluster: ServiceCluster,
) -> None:
    first = await service_cluster.create("web", 80, "127.64.0.1")
    await service_cluster.wait_routed(first, "127.64.0.1")
    service_cluster.unreachable = True
    second = await service_cluster.create("other", 80, "127.64.0.2")
    await asyncio.sleep(0.1)
    service_cluster.unreachable = False
    await service_cluster.wait_routed(second, "127.64.0.2")


async def test_dns_routes_are_removed_at_shutdown() -> None:
    async with service_cluster() as at:
        made = await at.create("web", 80, "127.64.0.1")
        await at.wait_routed(made, "127.64.0.1")
        assert any(route["port"] == 53 for route in at.published[-1])
    assert not any(route["port"] == 53 for route in at.published[-1])
    assert at.route(made["spec"]["clusterIP"], 80) is not None


async def serve_here(text: bytes) -> asyncio.Server:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        writer.close()

    return await asyncio.start_server(answer, new_address(), 8080)


async def test_listeners_follow_the_service(service_cluster: ServiceCluster) -> None:
    async with await serve_here(b"here") as server:
        address = server.sockets[0].getsockname()[0]
        made = await service_cluster.create("web", 8000, address, type="NodePort")
        node_port = made["spec"]["ports"][0]["nodePort"]
        await reached(mirror(made), 8000, "here")
        await reached("127.0.0.1", node_port, "here")
        await service_cluster.client.patch(
            SERVICES, "web", {"spec": {"type": "ClusterIP"}}, "default"
        )
        await refused("127.0.0.1", node_port)
        await reached(mirror(made), 8000, "here")
        await service_cluster.client.delete(SERVICES, "web", "default")
        await refused(mirror(made), 8000)


async def test_listeners_close_at_shutdown() -> None:
    async with await serve_here(b"here") as server:
        address = server.sockets[0].getsockname()[0]
        async with service_cluster() as at:
            made = await at.create("web", 8000, address)
            await reached(mirror(made), 8000, "here")
        await refused(mirror(made), 8000)


async def test_load_balancer_gets_its_address_once_it_listens(
    service_cluster: ServiceCluster,
) -> None:
    made = await service_cluster.create("web", 8001, type="LoadBalancer")

    async def so() -> bool:
        found = await service_cluster.client.get(SERVICES, "web", "default")
        return found["status"].get("loadBalancer") == {
            "ingress": [{"ip": mirror(made), "ipMode": "Proxy"}]
        }

    await wait_for_condition(so, within=20)


async def test_address_is_left_to_pods_that_listen_there(service_cluster: ServiceCluster) -> None:
    at = service_cluster
    body = service_object("web", {"port": 8004}, type="LoadBalancer", clusterIP=new_cluster_ip())
    body["metadata"]["annotations"] = {"kilonova.dev/host-listener": "pod"}
    made = await at.client.create(SERVICES, body, "default")
    assert not await balanced(at, "web")
    # It has its address when there is a pod that listens.
    await at.client.create(SLICES, slice_object("web", new_address()), "default")
    await wait_for_condition(lambda: balanced(at, "web"), within=20)
    with pytest.raises(ConnectionRefusedError):
        await call(mirror(made), 8004)


async def test_load_balancer_of_another_class_is_left_alone(
    service_cluster: ServiceCluster,
) -> None:
    theirs = await service_cluster.create(
        "theirs", 8002, type="LoadBalancer", loadBalancerClass="example.com/other"
    )
    ours = await service_cluster.create("ours", 8002, type="LoadBalancer")
    await wait_for_condition(lambda: balanced(service_cluster, "ours"), within=20)
    assert not await balanced(service_cluster, "theirs")
    assert theirs["spec"]["clusterIP"] != ours["spec"]["clusterIP"]


async def balanced(service_cluster: ServiceCluster, name: str) -> bool:
    found = await service_cluster.client.get(SERVICES, name, "default")
    return bool(found["status"]["loadBalancer"])


async def test_event_reports_a_port_in_use(service_cluster: ServiceCluster) -> None:
    async with await serve_here(b"here") as server:
        address = server.sockets[0].getsockname()[0]
        ip = new_cluster_ip()
        mirror = ip.replace("10.", "127.", 1)
        taken = await asyncio.start_server(lambda *_: None, mirror, 8003)
        async with taken:
            await service_cluster.create("web", 8003, address, type="NodePort", clusterIP=ip)

            async def reported() -> bool:
                events = await service_cluster.client.list(EVENTS, "default")
                return any(
                    event["reason"] == "ListenFailed"
                    and event["type"] == "Warning"
                    and event["involvedObject"]["name"] == "web"
                    and "the port is in use by another program" in event["message"]
                    and "connect to 127.0.0.1:3" in event["message"]
                    for event in events.items
                )

            await wait_for_condition(reported, within=20)


def test_listen_failure_suggests_alternatives() -> None:
    web = service("web", {"port": 80}, clusterIP="10.96.0.9", namespace="shop")
    routes = build_routes(web, [endpoint_slice("web", "127.64.0.1", namespace="shop")], None)
    (listener,) = plan_listeners(web, routes)
    assert describe_listen_failure(web, listener, errno.EACCES, ()) == (
        "Cannot listen on 127.96.0.9:80: ports below 1024 require privileges. Only pods with "
        "hostNetwork are affected; from this machine use kubectl port-forward "
        "-n shop service/web 8080:80"
    )
