"""A failing disk: the server stops with a reason, and no data is overwritten."""

import hashlib
import http.client
import resource
from pathlib import Path

import pytest

from tests.harness.access import ServerAccess
from tests.harness.embedded_server import EmbeddedServer, launch_server

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data of a server that has run, written objects, and stopped."""
    folder = tmp_path / "data"
    with EmbeddedServer.start(folder) as server:
        for number in range(50):
            assert _create_config_map(server.access, f"before-{number}") == 201
    return folder


def _corrupt_header(database: Path) -> None:
    content = database.read_bytes()
    database.write_bytes(b"not a database at all" + content[21:])


def _corrupt_middle(database: Path) -> None:
    content = bytearray(database.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 4096] = bytes(4096)
    database.write_bytes(content)


def _truncate(database: Path) -> None:
    content = database.read_bytes()
    database.write_bytes(content[: len(content) // 2 + 100])


@pytest.mark.parametrize("damage", [_corrupt_header, _corrupt_middle, _truncate])
def test_corrupt_database_is_rejected_and_not_modified(data: Path, damage) -> None:
    database = data / "store.db"
    damage(database)
    before = _hash_file(database)
    process = launch_server(data)
    assert process.wait() == 1
    message = process.log.read_text()
    assert "store.db" in message
    assert "Traceback" not in message
    assert _hash_file(database) == before


def test_a_full_disk_stops_the_server_and_loses_nothing_acknowledged(data: Path) -> None:
    limit = (data / "store.db").stat().st_size + 512 * 1024
    with EmbeddedServer.start(data) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, limit))
        acknowledged = _fill_store(server.access)
        assert server.process.wait() == 1
        message = server.process.log.read_text()
    assert "store.db" in message
    assert "Traceback" not in message
    with EmbeddedServer.start(data) as server:
        _status, answer = server.access.request("GET", _CONFIG_MAPS)
        names = {item["metadata"]["name"] for item in answer["items"]}
    assert acknowledged <= names


def _fill_store(access: ServerAccess) -> set[str]:
    """Write until a write is not acknowledged."""
    done: set[str] = set()
    try:
        while _create_config_map(access, f"full-{len(done)}", "x" * 100_000) == 201:
            done.add(f"full-{len(done)}")
            assert len(done) < 1000, "the disk never fills"
    except (OSError, http.client.HTTPException):
        pass
    return done


def _create_config_map(access: ServerAccess, name: str, text: str = "") -> int:
    body = {"metadata": {"name": name}, "data": {"text": text}}
    return access.request("POST", _CONFIG_MAPS, body)[0]


def _hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
