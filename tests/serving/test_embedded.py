"""Inference services inside of `kilonova up`: ports, and nothing before there is a service."""

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kilonova.kube import Manager, Reflector
from kilonova.serving.embedded import ServingOnDemand, choose_ports
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition
from tests.serving.serving_cluster import CONFIG_MAPS as ALL_CONFIG_MAPS
from tests.serving.serving_cluster import NAMESPACE, ServingCluster, serving_cluster
from tests.workloads.workload_cluster import run_runnables

FILE = "control-plane-ports"
_FIRST = 20000 + os.getpid() % 1000 * 10
PORTS = range(_FIRST, _FIRST + 10)
"""Of this process: clusters of other tests take theirs from the usual range."""


def occupy(port: int) -> socket.socket:
    """A server of another program at a port."""
    server = socket.socket()
    server.bind(("127.0.0.1", port))
    server.listen()
    return server


def test_cluster_keeps_its_ports(tmp_path: Path) -> None:
    first = choose_ports(tmp_path / "serving", PORTS)
    assert first == choose_ports(tmp_path / "serving", PORTS)
    assert len(set(first)) == 2


def test_ports_in_use_are_replaced(tmp_path: Path) -> None:
    before, kept = choose_ports(tmp_path, PORTS)
    with occupy(before):
        after = choose_ports(tmp_path, PORTS)
    assert before not in after
    assert after[0] == kept
    # The gateways are replaced, and the new ports are kept in turn.
    assert choose_ports(tmp_path, PORTS) == after


@pytest.mark.parametrize("content", ["", "no ports", "80 443", "18001"])
def test_unusable_file_of_ports_is_written_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    ports = choose_ports(tmp_path, PORTS)
    assert (tmp_path / FILE).read_text() == f"{ports[0]} {ports[1]}"


def test_cluster_in_memory_keeps_nothing() -> None:
    assert len(set(choose_ports(None))) == 2


class Part:
    """What serves; it shows whether it runs."""

    name = "part"

    def __init__(self) -> None:
        self.is_running = False

    async def run(self) -> None:
        self.is_running = True
        try:
            await asyncio.Event().wait()
        finally:
            self.is_running = False


@asynccontextmanager
async def on_demand(cluster: ServingCluster, part: Part) -> AsyncGenerator[None]:
    """What runs when it is needed, from start to stop."""
    services = Reflector(cluster.client, INFERENCE_SERVICES)
    label = "serving.kilonova.dev/service-config"
    releases = Reflector(cluster.client, CONFIG_MAPS, label_selector=label)

    def build() -> Manager:
        manager = Manager(grace=1.0)
        manager.add(part)
        return manager

    runnables = [services, releases, ServingOnDemand((services, releases), build)]
    async with run_runnables(runnables, []):
        yield
    assert not part.is_running


@virtual_time
async def test_nothing_runs_before_there_is_a_service() -> None:
    part = Part()
    async with serving_cluster(controllers=False) as cluster, on_demand(cluster, part):
        plain = {"metadata": {"name": "plain"}, "data": {"a": "b"}}
        await cluster.client.create(ALL_CONFIG_MAPS, plain, NAMESPACE)
        await advance_time(5)
        assert not part.is_running
        await cluster.create()

        async def runs() -> bool:
            return part.is_running

        await wait_for_condition(runs)


@virtual_time
async def test_release_in_a_config_map_is_a_service_to_come() -> None:
    part = Part()
    async with serving_cluster(controllers=False) as cluster, on_demand(cluster, part):
        labels = {"serving.kilonova.dev/service-config": "true"}
        body = {"metadata": {"name": "release", "labels": labels}, "data": {"values.yaml": "{}"}}
        await cluster.client.create(ALL_CONFIG_MAPS, body, NAMESPACE)

        async def runs() -> bool:
            return part.is_running

        await wait_for_condition(runs)


@virtual_time
async def test_service_that_was_there_before_is_served_after_a_restart() -> None:
    part = Part()
    async with serving_cluster(controllers=False) as cluster:
        await cluster.create()
        async with on_demand(cluster, part):

            async def runs() -> bool:
                return part.is_running

            await wait_for_condition(runs)
