"""Services of an embedded cluster, real processes in pods, and people on this machine."""

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
from kilonova.kube.resource import plain
from kilonova.local.clock import Identities
from kilonova.local.controllers.workshop import Workshop
from kilonova.local.nodes.process.network import supported
from kilonova.local.nodes.process.services import dns_environment, service_parts
from kilonova.local.nodes.process.services.doors import complaint
from kilonova.local.nodes.process.services.routing import doors_of, routes_of
from tests.local.embedded_cluster import EVENTS, SERVICES, eventually, running
from tests.local.process.network.pods import SERVER, Pods, new_address, pods
from tests.local.process.services.service_objects import (
    endpoint,
    endpoint_slice,
    service,
    service_object,
    slice_object,
)

SLICES = plain("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
URL = "https://127.0.0.1:1"
_numbers = count(os.getpid() * 64)


def new_cluster_ip() -> str:
    number = 512 + next(_numbers) % 60000
    return f"10.96.{number // 256}.{number % 256}"


@dataclass
class Scene:
    """A cluster whose routes go to a keeper's network."""

    client: Client
    pods: Pods
    handed: list[list[dict[str, Any]]] = field(default_factory=list[list[dict[str, Any]]])
    away: bool = False

    async def hand_over(self, routes: list[dict[str, Any]]) -> None:
        if self.away:
            raise ConnectionError("the keeper is away")
        self.handed.append(routes)
        self.pods.network.set_routes(routes)

    def route(self, ip: str, port: int) -> dict[str, Any] | None:
        routes = self.handed[-1] if self.handed else []
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

    async def routed(self, made: Any, *addresses: str) -> None:
        async def so() -> bool:
            route = self.route(made["spec"]["clusterIP"], made["spec"]["ports"][0]["port"])
            return route is not None and route["backends"] == [[a, 8080] for a in addresses]

        await eventually(so, within=20)


@asynccontextmanager
async def scene() -> AsyncGenerator[Scene]:
    async with running(controllers="event-expiry") as cluster, pods() as made:
        workshop = Workshop(cluster.client, cluster.clock, Identities(), "", cluster.kubelets)
        at = Scene(cluster.client("test"), made)
        parts = service_parts(workshop, at.hand_over, URL, upstream=list)
        manager = Manager(grace=2.0)
        manager.add(*workshop.shared, *parts)
        task = asyncio.create_task(manager.run(signals=False))
        try:
            yield at
        finally:
            manager.stop()
            await task


@pytest.fixture(name="scene")
async def _scene() -> AsyncGenerator[Scene]:
    async with scene() as made:
        yield made


needs_network = pytest.mark.skipif(not supported(), reason="the kernel has no pod network here")
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

    await eventually(so, within=20)


async def refused(ip: str, port: int) -> None:
    async def so() -> bool:
        try:
            await call(ip, port)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False

    await eventually(so, within=20)


@needs_network
async def test_service_is_reached_by_pods_and_by_people(scene: Scene) -> None:
    one = new_address()
    await scene.pods.serve(one, SERVER, "0.0.0.0", 8080, "one")
    made = await scene.create("web", 8000, one)
    await scene.routed(made, one)
    client = new_address()
    answer = await scene.pods.run(client, CALL, made["spec"]["clusterIP"], 8000)
    assert answer == f"one {client}"
    await reached(mirror(made), 8000, "one 127.0.0.1")


@needs_network
async def test_names_lead_to_services_and_to_pods(scene: Scene) -> None:
    one, two = new_address(), new_address()
    for address in (one, two):
        await scene.pods.serve(address, SERVER, "0.0.0.0", 8080, address)
    made = await scene.create("web", 80, one)
    endpoints = [endpoint(one, hostname="db-0"), endpoint(two, hostname="db-1")]
    headless = slice_object("db", endpoints=endpoints)
    await scene.client.create(SLICES, headless, "default")
    await scene.client.create(
        SERVICES, service_object("db", {"port": 8080}, clusterIP="None"), "default"
    )
    await scene.routed(made, one)
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
    output = await scene.pods.run(
        new_address(), script, *names, env={**os.environ, **dns_environment("default")}
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


async def test_routes_follow_the_endpoints(scene: Scene) -> None:
    made = await scene.create("web", 80, "127.64.0.1", "10.244.0.1")
    await scene.routed(made, "127.64.0.1")
    patch = {"endpoints": [endpoint("127.64.0.2"), endpoint("127.64.0.3", ready=False)]}
    await scene.client.patch(SLICES, "web-1", patch, "default")
    await scene.routed(made, "127.64.0.2")
    await scene.client.delete(SLICES, "web-1", "default")
    await scene.routed(made)
    await scene.client.delete(SERVICES, "web", "default")

    async def gone() -> bool:
        return scene.route(made["spec"]["clusterIP"], 80) is None

    await eventually(gone, within=20)


async def test_the_api_is_behind_its_service(scene: Scene) -> None:
    async def so() -> bool:
        return bool(scene.handed) and scene.route("10.96.0.1", 443) is not None

    await eventually(so, within=20)
    route = scene.route("10.96.0.1", 443)
    assert route is not None
    assert route["backends"] == [["127.0.0.1", 1]]


async def test_nothing_is_handed_over_at_rest(scene: Scene) -> None:
    made = await scene.create("web", 80, "127.64.0.1")
    await scene.routed(made, "127.64.0.1")
    before = len(scene.handed)
    await scene.client.patch(SERVICES, "web", {"metadata": {"labels": {"a": "b"}}}, "default")
    other = await scene.create("other", 80, "127.64.0.9")
    await scene.routed(other, "127.64.0.9")
    assert len(scene.handed) == before + 1


async def test_routes_are_handed_over_again_when_the_keeper_is_back(scene: Scene) -> None:
    first = await scene.create("web", 80, "127.64.0.1")
    await scene.routed(first, "127.64.0.1")
    scene.away = True
    second = await scene.create("other", 80, "127.64.0.2")
    await asyncio.sleep(0.1)
    scene.away = False
    await scene.routed(second, "127.64.0.2")


async def test_ways_to_the_dns_are_taken_back_at_the_end() -> None:
    async with scene() as at:
        made = await at.create("web", 80, "127.64.0.1")
        await at.routed(made, "127.64.0.1")
        assert any(route["port"] == 53 for route in at.handed[-1])
    assert not any(route["port"] == 53 for route in at.handed[-1])
    assert at.route(made["spec"]["clusterIP"], 80) is not None


async def serve_here(text: bytes) -> asyncio.Server:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        writer.close()

    return await asyncio.start_server(answer, new_address(), 8080)


async def test_doors_come_and_go_with_the_service(scene: Scene) -> None:
    async with await serve_here(b"here") as server:
        address = server.sockets[0].getsockname()[0]
        made = await scene.create("web", 8000, address, type="NodePort")
        node_port = made["spec"]["ports"][0]["nodePort"]
        await reached(mirror(made), 8000, "here")
        await reached("127.0.0.1", node_port, "here")
        await scene.client.patch(SERVICES, "web", {"spec": {"type": "ClusterIP"}}, "default")
        await refused("127.0.0.1", node_port)
        await reached(mirror(made), 8000, "here")
        await scene.client.delete(SERVICES, "web", "default")
        await refused(mirror(made), 8000)


async def test_doors_close_at_the_end() -> None:
    async with await serve_here(b"here") as server:
        address = server.sockets[0].getsockname()[0]
        async with scene() as at:
            made = await at.create("web", 8000, address)
            await reached(mirror(made), 8000, "here")
        await refused(mirror(made), 8000)


async def test_load_balancer_gets_its_address_once_it_listens(scene: Scene) -> None:
    made = await scene.create("web", 8001, type="LoadBalancer")

    async def so() -> bool:
        found = await scene.client.get(SERVICES, "web", "default")
        return found["status"].get("loadBalancer") == {
            "ingress": [{"ip": mirror(made), "ipMode": "Proxy"}]
        }

    await eventually(so, within=20)


async def test_load_balancer_of_another_class_is_left_alone(scene: Scene) -> None:
    theirs = await scene.create(
        "theirs", 8002, type="LoadBalancer", loadBalancerClass="example.com/other"
    )
    ours = await scene.create("ours", 8002, type="LoadBalancer")
    await eventually(lambda: balanced(scene, "ours"), within=20)
    assert not await balanced(scene, "theirs")
    assert theirs["spec"]["clusterIP"] != ours["spec"]["clusterIP"]


async def balanced(scene: Scene, name: str) -> bool:
    found = await scene.client.get(SERVICES, name, "default")
    return bool(found["status"]["loadBalancer"])


async def test_event_tells_of_a_port_that_is_taken(scene: Scene) -> None:
    async with await serve_here(b"here") as server:
        address = server.sockets[0].getsockname()[0]
        ip = new_cluster_ip()
        mirror = ip.replace("10.", "127.", 1)
        taken = await asyncio.start_server(lambda *_: None, mirror, 8003)
        async with taken:
            await scene.create("web", 8003, address, type="NodePort", clusterIP=ip)

            async def told() -> bool:
                events = await scene.client.list(EVENTS, "default")
                return any(
                    event["reason"] == "ListenFailed"
                    and event["type"] == "Warning"
                    and event["involvedObject"]["name"] == "web"
                    and "another program listens there" in event["message"]
                    and "connect to 127.0.0.1:3" in event["message"]
                    for event in events.items
                )

            await eventually(told, within=20)


def test_complaint_says_what_to_do() -> None:
    web = service("web", {"port": 80}, clusterIP="10.96.0.9", namespace="shop")
    routes = routes_of(web, [endpoint_slice("web", "127.64.0.1", namespace="shop")], None)
    (door,) = doors_of(web, routes)
    assert complaint(web, door, errno.EACCES, ()) == (
        "Cannot listen at 127.96.0.9:80: ports below 1024 need privileges. Pods are not affected, "
        "unless they share this machine's network; from here use kubectl port-forward "
        "-n shop service/web 8080:80"
    )
