"""A cluster from start to stop, and again; it leaves nothing but data behind."""

import asyncio
import os
import socket
import sqlite3
import stat
from pathlib import Path

import pytest

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import ComponentHealth
from kilonova.kube.client.config.client_config import connect
from kilonova.local.apiserver.server.listener import PortInUse, bind_socket
from kilonova.local.apiserver.storage import StorageError
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.data_directory import DataDirectory, DataDirectoryInUse
from kilonova.local.simnodes import Fleet, small_fleet
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.local.embedded_cluster import CONFIG_MAPS, NAMESPACES, NODES, SERVICES, find


def open_files() -> set[str]:
    """The open files of this process, except transient ones."""
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


async def test_stop_leaves_no_tasks_or_files_open(tmp_path: Path) -> None:
    before = open_files()
    for _ in range(2):
        settings = ClusterSettings(data=tmp_path / "data", fleet=small_fleet())
        cluster = assemble_cluster(("operator", "scheduler"), settings).cluster
        await cluster.start()
        await cluster.wait_nodes_registered()
        async with connect(tmp_path / "data" / "kubeconfig") as client:
            assert len((await client.list(NODES)).items) == 34
            async with client.watch(NODES, resource_version="0"):
                await cluster.stop()
        assert other_tasks() == []
        assert open_files() - before == set()


async def test_stop_is_idempotent(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(ClusterSettings(data=tmp_path))
    await cluster.start()
    await cluster.stop()
    await cluster.stop()
    assert not DataDirectory(tmp_path).is_locked()


async def test_restart_preserves_objects_on_another_port(tmp_path: Path) -> None:
    ports: set[str] = set()
    for number in range(2):
        cluster = EmbeddedCluster(ClusterSettings(data=tmp_path))
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


async def test_port_in_use_is_rejected_and_leaves_nothing(tmp_path: Path) -> None:
    before = open_files()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"port {port} .*Address already in use.*--port N"):
            await EmbeddedCluster(ClusterSettings(data=tmp_path, port=port)).start()
    assert other_tasks() == []
    assert open_files() - before == set()
    assert not DataDirectory(tmp_path).is_locked()
    cluster = EmbeddedCluster(ClusterSettings(data=tmp_path, port=port))
    await cluster.start()
    await cluster.stop()


def test_one_of_two_clusters_on_a_port_is_rejected() -> None:
    with bind_socket("127.0.0.1", 0) as first, pytest.raises(PortInUse):
        bind_socket("127.0.0.1", first.getsockname()[1])


def test_foreign_host_address_is_reported() -> None:
    with pytest.raises(PortInUse, match=r"port 0 of 192\.0\.2\.1 cannot be used.*--host HOST"):
        bind_socket("192.0.2.1", 0)


async def test_second_cluster_on_the_same_data_is_rejected(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(ClusterSettings(data=tmp_path))
    await cluster.start()
    try:
        with pytest.raises(DataDirectoryInUse, match=f"in use by process {os.getpid()}"):
            await EmbeddedCluster(ClusterSettings(data=tmp_path)).start()
        async with connect(tmp_path / "kubeconfig") as client:
            assert await client.list(NODES), "the first goes on"
    finally:
        await cluster.stop()


async def test_corrupted_store_is_rejected_and_leaves_nothing(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(ClusterSettings(data=tmp_path))
    await cluster.start()
    await cluster.stop()
    with sqlite3.connect(tmp_path / "store.db") as database:
        database.execute("UPDATE log SET checksum = checksum + 1 WHERE rv = 3")
    database.close()
    before = open_files()
    with pytest.raises(StorageError, match="row 3"):
        await EmbeddedCluster(ClusterSettings(data=tmp_path)).start()
    assert other_tasks() == []
    assert open_files() - before == set()
    assert not DataDirectory(tmp_path).is_locked()


async def test_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    before = open_files()
    starting = asyncio.create_task(EmbeddedCluster(ClusterSettings(data=tmp_path)).start())
    await asyncio.sleep(0)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert starting.cancelled()
    assert other_tasks() == []
    assert open_files() - before == set()
    assert not DataDirectory(tmp_path).is_locked()


async def test_failing_node_creation_does_not_affect_the_rest(tmp_path: Path) -> None:
    rejected = NodeGroup("n", labels={"not a key": "x"})
    problem: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()

    def report(name: str, health: ComponentHealth) -> None:
        if not problem.done():
            problem.set_result((name, health.problem))

    cluster = EmbeddedCluster(
        ClusterSettings(data=tmp_path, fleet=Fleet(nodes=(rejected,))), report=report
    )
    await cluster.start()
    try:
        name, text = await asyncio.wait_for(problem, 60)
        assert name == "nodes"
        assert "simulated nodes failed" in text
        assert "not a key" in text
        assert cluster.failure is not None
        assert not cluster.failure.done()
        assert (await cluster.client("test").list(NAMESPACES)).items
    finally:
        await cluster.stop()
    assert other_tasks() == []
    assert not DataDirectory(tmp_path).is_locked()


async def test_data_directory_is_readable_by_owner_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    (data / "store.db").touch(0o644)
    cluster = EmbeddedCluster(ClusterSettings(data=data))
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


async def test_other_host_name_gets_a_new_certificate(tmp_path: Path) -> None:
    certificates: list[bytes] = []
    for host in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
        cluster = EmbeddedCluster(ClusterSettings(data=tmp_path, host=host))
        await cluster.start()
        try:
            certificates.append((tmp_path / "pki" / "server.crt").read_bytes())
            async with connect(tmp_path / "kubeconfig") as client:
                assert await find(client, SERVICES, "kubernetes")
        finally:
            await cluster.stop()
    assert certificates[0] == certificates[1] != certificates[2]


async def test_new_ca_reissues_all_certificates(tmp_path: Path) -> None:
    for number in range(2):
        if number:
            (tmp_path / "pki" / "ca.crt").unlink()
        cluster = EmbeddedCluster(ClusterSettings(data=tmp_path))
        await cluster.start()
        try:
            async with connect(tmp_path / "kubeconfig") as client:
                assert await find(client, SERVICES, "kubernetes")
        finally:
            await cluster.stop()


def test_listening_cluster_needs_a_data_directory() -> None:
    with pytest.raises(ValueError, match="needs a data directory"):
        EmbeddedCluster(ClusterSettings())


def test_lock_is_the_last_owned_file(tmp_path: Path) -> None:
    folder = DataDirectory(tmp_path)
    folder.acquire()
    folder.save_console_token(folder.load_console_token())
    (tmp_path / "notes.txt").write_text("mine")
    assert [each.name for each in folder.owned_files()] == ["console-token", "store.db", "lock"]
    folder.release()


def test_shim_directory_of_an_earlier_version_is_renamed_and_stays_reachable(
    tmp_path: Path,
) -> None:
    (tmp_path / "keeper").mkdir()
    (tmp_path / "keeper" / "state").write_text("kept")
    directory = DataDirectory(tmp_path)
    for _ in range(2):  # the second start finds it renamed
        directory.acquire()
        directory.release()
    assert (tmp_path / "shim" / "state").read_text() == "kept"
    assert (tmp_path / "keeper" / "state").read_text() == "kept"
    assert {tmp_path / "keeper", tmp_path / "shim"} <= set(directory.owned_files())
