"""Commands that cannot run fail with one line that names the fix."""

import os
import socket
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova

FLEETS = {
    "unknown field": ("nodes: [{name: a, cout: 2}]", "cout"),
    "wrong type": ("nodes: [{name: a, count: many}]", "nodes[0].count"),
    "wrong value": ("nodes: [{name: a, gpu: {model: L4, count: 0}}]", "nodes[0].gpu.count"),
    "bad duration": ("nodes: [{name: a, start: soon}]", "nodes[0].start"),
    "not YAML": ("nodes: [", "is not YAML"),
}


@pytest.mark.parametrize(("text", "named"), FLEETS.values(), ids=FLEETS)
def test_invalid_fleet_file_is_rejected_with_the_field_name(
    kilonova: Kilonova, tmp_path: Path, text: str, named: str
):
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(text)
    data = tmp_path / "data"
    done = kilonova("up", "--port", "0", "--data", data, "--nodes", fleet)
    assert done.code == 1
    assert str(fleet) in done.err
    assert named in done.err
    assert len(done.err.splitlines()) == 1
    assert not data.exists()


@pytest.mark.parametrize(
    "text",
    [
        "root:x:0:0:secret:/root:/bin/sh\nbin:x:2:2:secret:/bin:/bin/sh\n",
        "nodes:\n- name: [secret\nsecret: a: b\n",
        "nodes: [{name: a, labels: [secret, secret]}]",
        "nodes: [{name: a, count: " + "secret " * 40 + "}]",
        "- secret\n- other",
    ],
    ids=["text", "invalid YAML", "list", "long", "top"],
)
def test_content_of_an_invalid_fleet_file_is_not_printed(
    kilonova: Kilonova, tmp_path: Path, text: str
):
    file = tmp_path / "passwd"
    file.write_text(text)
    done = kilonova("up", "--port", "0", "--data", tmp_path / "data", "--nodes", file)
    assert done.code == 1
    assert str(file) in done.err
    assert "secret" not in done.err
    assert len(done.err.splitlines()) == 1


def test_missing_fleet_file_is_rejected_also_in_the_background(kilonova: Kilonova, tmp_path: Path):
    done = kilonova.detach(tmp_path / "data", "--nodes", tmp_path / "absent.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"kilonova: {tmp_path / 'absent.yaml'} cannot be read: No such file or directory: "
        "write small, large or the path of a fleet file\n"
    )


@pytest.fixture
def occupied_port() -> Generator[str]:
    """A port that is in use."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


MODES = pytest.mark.parametrize("mode", [(), ("--detach",)], ids=["foreground", "background"])
REJECTED_COMMANDS = {
    "port": ("--no-demo", "--port", "OCCUPIED"),
    "port of the console": ("--no-demo", "--console-port", "OCCUPIED"),
    "one port for both": ("--no-demo", "--port", "FREE", "--console-port", "FREE"),
    "host": ("--no-demo", "--host", "192.0.2.1"),
    "fleet": ("--nodes", "absent.yaml"),
}


@MODES
@pytest.mark.parametrize("words", REJECTED_COMMANDS.values(), ids=REJECTED_COMMANDS)
def test_rejected_start_leaves_no_directory(
    kilonova: Kilonova,
    tmp_path: Path,
    occupied_port: str,
    mode: tuple[str, ...],
    words: tuple[str, ...],
):
    data = tmp_path / "new" / "data"
    kilonova.stop_after_test(data)
    done = kilonova("up", *mode, *_build_command(words, occupied_port, data))
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "new").exists()


@MODES
@pytest.mark.parametrize("words", REJECTED_COMMANDS.values(), ids=REJECTED_COMMANDS)
def test_rejected_start_leaves_an_existing_directory_unchanged(
    kilonova: Kilonova,
    tmp_path: Path,
    occupied_port: str,
    mode: tuple[str, ...],
    words: tuple[str, ...],
):
    data = tmp_path / "data"
    data.mkdir()
    (data / "mine").write_text("kept")
    kilonova.stop_after_test(data)
    assert kilonova("up", *mode, *_build_command(words, occupied_port, data)).code == 1
    assert os.listdir(data) == ["mine"]


@MODES
@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("models", "is a relative path: write HOME/models"),
        ("./models", "is a relative path: write HOME/models"),
        ("/absent/models", "does not exist: create it, or use another"),
        ("~/absent", "does not exist: create it, or use another"),
    ],
)
def test_unusable_host_path_is_rejected(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...], path: str, problem: str
):
    (tmp_path / "models").mkdir()
    data = tmp_path / "data"
    kilonova.stop_after_test(data)
    done = kilonova("up", *mode, "--port", "0", "--data", data, "--allow-host-path", path)
    problem = problem.replace("HOME", str(tmp_path))
    assert (done.code, done.err) == (2, f"kilonova: --allow-host-path {Path(path)} {problem}\n")
    assert not data.exists()


@MODES
def test_invalid_image_table_is_rejected(kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...]):
    file, data = tmp_path / "images.yaml", tmp_path / "data"
    file.write_text("images: [{image: a, entrypoint: sh}]")
    kilonova.stop_after_test(data)
    done = kilonova("up", *mode, "--port", "0", "--data", data, "--images", file)
    fix = "write a list of words: [python3, -m, acme.server]"
    problem = f"--images {file}: images[0].entrypoint: is 'sh': {fix}"
    assert (done.code, done.err) == (2, f"kilonova: {problem}\n")
    assert not data.exists()


@MODES
def test_an_unknown_controller_is_wrong_usage(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...]
):
    data = tmp_path / "new" / "data"
    kilonova.stop_after_test(data)
    words = ("--no-demo", "--port", "0", "--controllers", "nonsense", "--data", data)
    done = kilonova("up", *mode, *words)
    assert (done.code, done.out) == (2, "")
    assert "--controllers nonsense" in done.err
    assert not (tmp_path / "new").exists()


def _build_command(words: tuple[str, ...], occupied_port: str, data: Path) -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = str(listener.getsockname()[1])
    ports = {"OCCUPIED": occupied_port, "FREE": free}
    return ["--port", "0", *(ports.get(word, word) for word in words), "--data", str(data)]


@MODES
def test_directory_that_cannot_be_created_is_rejected(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...]
):
    (tmp_path / "file").touch()
    data = tmp_path / "file" / "data"
    done = kilonova("up", *mode, "--port", "0", "--data", data)
    fix = "fix that, or choose another directory with --data DIR"
    assert (done.code, done.err) == (1, f"kilonova: {data}: Not a directory: {fix}\n")


def test_corrupt_store_is_rejected_and_left_unchanged(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    content = b"this is not a database" * 1000
    (data / "store.db").write_bytes(content)
    done = kilonova("up", "--port", "0", "--data", data)
    assert done.code == 1
    assert str(data / "store.db") in done.err
    assert len(done.err.splitlines()) == 1
    assert (data / "store.db").read_bytes() == content


def test_unknown_log_level_is_rejected(kilonova: Kilonova, tmp_path: Path):
    words = ("up", "--port", "0", "--data", tmp_path / "data")
    done = kilonova(*words, variables={"KILONOVA_LOG": "loud"})
    assert done.code == 1
    assert "KILONOVA_LOG" in done.err
    assert len(done.err.splitlines()) == 1


USAGE = [
    ("up", "--port", "70000"),
    ("up", "--durability", "none"),
    ("status", "-o", "xml"),
    ("sideways",),
]


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_wrong_usage_exits_with_2(kilonova: Kilonova, words: tuple[str, ...]):
    done = kilonova(*words)
    assert done.code == 2
    assert done.err.startswith("Usage: kilonova")
