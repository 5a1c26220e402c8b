"""No two services of a cluster have the same cluster IP or node port."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client, Invalid
from tests.local.embedded_cluster import NAMESPACES, SERVICES, run_cluster, wait_deleted


def service(name: str, **spec: Any) -> Any:
    ports = spec.pop("ports", [{"port": 80}])
    return {"metadata": {"name": name}, "spec": {"ports": ports, **spec}}


async def create(client: Client, name: str, **spec: Any) -> Any:
    return (await client.create(SERVICES, service(name, **spec), "default"))["spec"]


async def test_restarted_server_allocates_no_address_twice(tmp_path: Path) -> None:
    addresses: list[str] = []
    ports: list[int] = []
    for start in range(3):
        async with run_cluster(data=tmp_path, controllers="") as cluster:
            client = cluster.client("test")
            for number in range(3):
                spec = await create(client, f"s{start}-{number}", type="NodePort")
                addresses.append(spec["clusterIP"])
                ports.append(spec["ports"][0]["nodePort"])
            if start:
                with pytest.raises(Invalid, match="provided IP is already allocated"):
                    await create(client, "late", clusterIP=addresses[0])
                taken = [{"port": 80, "nodePort": ports[0]}]
                with pytest.raises(Invalid, match="provided port is already allocated"):
                    await create(client, "late", type="NodePort", ports=taken)
    assert len(set(addresses)) == len(set(ports)) == 9


@pytest.mark.looptime
async def test_deleting_a_service_releases_its_addresses() -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        spec = await create(client, "first", type="NodePort")
        await client.delete(SERVICES, "first", "default")
        wanted = {"clusterIP": spec["clusterIP"], "ports": spec["ports"], "type": "NodePort"}
        again = await create(client, "second", **wanted)
        assert again["clusterIP"] == spec["clusterIP"]


@pytest.mark.looptime
async def test_deleting_a_namespace_releases_addresses() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await client.create(NAMESPACES, {"metadata": {"name": "short"}})
        made = await client.create(SERVICES, service("s"), "short")
        await client.delete(NAMESPACES, "short")
        await wait_deleted(client, NAMESPACES, "short")
        address = made["spec"]["clusterIP"]
        assert (await create(client, "next", clusterIP=address))["clusterIP"] == address


@pytest.mark.looptime
async def test_removed_node_port_is_released() -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        [port] = (await create(client, "first", type="NodePort"))["ports"]
        await client.patch(SERVICES, "first", {"spec": {"type": "ClusterIP"}}, "default")
        wanted = [{"port": 80, "nodePort": port["nodePort"]}]
        assert await create(client, "second", type="NodePort", ports=wanted)


@pytest.mark.looptime
async def test_rejected_or_dry_run_service_holds_nothing() -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        wanted: Any = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}
        with pytest.raises(Invalid):
            await create(client, "bad", sessionAffinity="Sometimes", **wanted)
        await client.create(SERVICES, service("tried", **wanted), "default", dry_run=True)
        assert await create(client, "good", **wanted)
        with pytest.raises(Invalid, match="already allocated"):
            await create(client, "late", **wanted)
