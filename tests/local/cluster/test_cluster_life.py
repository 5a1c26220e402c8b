"""A cluster from start to stop, and again; what it leaves behind is data and nothing else."""

import asyncio
import os
import socket
import sqlite3
import stat
from pathlib import Path

import pytest

from kilonova.cli.residents import Residents
from kilonova.kube import ComponentHealth
from kilonova.kube.access import connect
from kilonova.local.cluster import Cluster, Settings
from kilonova.local.folder import Folder, FolderInUse
from kilonova.local.listener import PortInUse, bind
from kilonova.local.nodes import Fleet, small_fleet
from kilonova.local.nodes.fleet import NodeGroup
from kilonova.local.storage import StorageBroken
from tests.local.embedded_cluster import CONFIG_MAPS, NAMESPACES, NODES, SERVICES, find


def open_files() -> set[str]:
    """What this process has open, but for what comes and goes by itself."""
    found: set[str] = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        found.add(target)
    return found


def other_tasks() -> list[str]:
    return [t.get_name() for t in asyncio.all_tasks() if t is not asyncio.current_task()]


async def test_nothing_is_left_running_or_open(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(2):
        settings = Settings(data=tmp_path / "data", fleet=small_fleet())
        cluster = Residents().cluster(settings)
        await cluster.start()
        await cluster.wait_settled()
        async with connect(tmp_path / "data" / "kubeconfig") as client:
            assert len((await client.list(NODES)).items) == 34
            async with client.watch(NODES, resource_version="0"):
                await cluster.stop()
        assert other_tasks() == []
        assert open_files() - before == set()


async def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    cluster = Cluster(Settings(data=tmp_path))
    await cluster.start()
    await cluster.stop()
    await cluster.stop()
    assert not Folder(tmp_path).is_taken()


async def test_a_restart_has_the_same_objects_under_another_address(tmp_path: Path) -> None:
    ports: set[str] = set()
    for number in range(2):
        cluster = Cluster(Settings(data=tmp_path))
        await cluster.start()
        try:
            async with connect(tmp_path / "kubeconfig") as client:
                name = f"c{number}"
                await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
                assert await find(client, CONFIG_MAPS, "c0")
                service = await find(client, SERVICES, "kubernetes")
                port = cluster.url.rpartition(":")[2]
                assert str(service["spec"]["ports"][0]["targetPort"]) == port
                ports.add(port)
        finally:
            await cluster.stop()
    assert len(ports) == 2


async def test_a_taken_port_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    before = open_files()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} .*Address already in use.*--port N"):
            await Cluster(Settings(data=tmp_path, port=port)).start()
    assert other_tasks() == []
    assert open_files() - before == set()
    assert not Folder(tmp_path).is_taken()
    cluster = Cluster(Settings(data=tmp_path, port=port))
    await cluster.start()
    await cluster.stop()


def test_of_two_that_want_a_port_at_once_one_is_told() -> None:
    with bind("127.0.0.1", 0) as first, pytest.raises(PortInUse):
        bind("127.0.0.1", first.getsockname()[1])


def test_a_host_that_is_not_ours_is_named() -> None:
    with pytest.raises(PortInUse, match=r"port 0 of 192\.0\.2\.1 cannot be used.*--host HOST"):
        bind("192.0.2.1", 0)


async def test_a_second_cluster_on_the_same_data_is_refused(tmp_path: Path) -> None:
    cluster = Cluster(Settings(data=tmp_path))
    await cluster.start()
    try:
        with pytest.raises(FolderInUse, match=f"in use by process {os.getpid()}"):
            await Cluster(Settings(data=tmp_path)).start()
        async with connect(tmp_path / "kubeconfig") as client:
            assert await client.list(NODES), "the first goes on"
    finally:
        await cluster.stop()


async def test_a_damaged_store_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = Cluster(Settings(data=tmp_path))
    await cluster.start()
    await cluster.stop()
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("UPDATE log SET checksum = checksum + 1 WHERE rv = 3")
    database.close()
    before = open_files()
    with pytest.raises(StorageBroken, match="row 3"):
        await Cluster(Settings(data=tmp_path)).start()
    assert other_tasks() == []
    assert open_files() - before == set()
    assert not Folder(tmp_path).is_taken()


async def test_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    before = open_files()
    starting = asyncio.create_task(Cluster(Settings(data=tmp_path)).start())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert starting.cancelled()
    assert other_tasks() == []
    assert open_files() - before == set()
    assert not Folder(tmp_path).is_taken()


async def test_nodes_that_cannot_be_made_leave_the_rest_alone(tmp_path: Path) -> None:
    refused = NodeGroup("n", labels={"not a key": "x"})
    problem: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def report(name: str, health: ComponentHealth) -> None:
        if not problem.done():
            problem.set_result((name, health.problem))

    cluster = Cluster(Settings(data=tmp_path, fleet=Fleet(nodes=(refused,))), report=report)
    await cluster.start()
    try:
        name, text = await asyncio.wait_for(problem, 10)
        assert name == "nodes"
        assert "simulated nodes failed" in text
        assert "not a key" in text
        assert cluster.broken is not None
        assert not cluster.broken.done()
        assert (await cluster.client("test").list(NAMESPACES)).items
    finally:
        await cluster.stop()
    assert other_tasks() == []
    assert not Folder(tmp_path).is_taken()


async def test_nobody_else_can_read_what_is_stored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "store.db").touch(0o644)
    cluster = Cluster(Settings(data=data))
    await cluster.start()
    try:
        public = {"ca.crt", "server.crt", "admin.crt"}
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in data.rglob("*")
            if path.is_file()
        }
        assert {"store.db", "store.db-wal", "kubeconfig", "running.json", "sa.key"} <= modes.keys()
        assert {name: oct(mode) for name, mode in modes.items() if name not in public} == {
            name: "0o600" for name in modes if name not in public
        }
        assert stat.S_IMODE((data / "pki").stat().st_mode) == 0o700
    finally:
        await cluster.stop()


async def test_another_host_name_gets_another_certificate(tmp_path: Path) -> None:
    certificates: list[bytes] = []
    for host in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
        cluster = Cluster(Settings(data=tmp_path, host=host))
        await cluster.start()
        try:
            certificates.append((tmp_path / "pki" / "server.crt").read_bytes())
            async with connect(tmp_path / "kubeconfig") as client:
                assert await find(client, SERVICES, "kubernetes")
        finally:
            await cluster.stop()
    assert certificates[0] == certificates[1] != certificates[2]


async def test_a_new_authority_signs_everything_anew(tmp_path: Path) -> None:
    for number in range(2):
        if number:
            (tmp_path / "pki" / "ca.crt").unlink()
        cluster = Cluster(Settings(data=tmp_path))
        await cluster.start()
        try:
            async with connect(tmp_path / "kubeconfig") as client:
                assert await find(client, SERVICES, "kubernetes")
        finally:
            await cluster.stop()


def test_a_cluster_that_listens_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="needs a data folder"):
        Cluster(Settings())


def test_of_what_can_be_forgotten_the_lock_is_the_last(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.acquire()
    folder.keep_console_token(folder.console_token())
    (tmp_path / "notes.txt").write_text("mine")
    assert [each.name for each in folder.belongings()] == ["console-token", "store.db", "lock"]
    folder.release()
