"""What cannot be done is refused with one line that says what to change."""

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
def test_a_bad_fleet_file_is_refused_by_the_name_of_the_field(
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
    ids=["text", "no YAML", "list", "long", "top"],
)
def test_a_file_that_is_no_fleet_is_not_printed(kilonova: Kilonova, tmp_path: Path, text: str):
    file = tmp_path / "passwd"
    file.write_text(text)
    done = kilonova("up", "--port", "0", "--data", tmp_path / "data", "--nodes", file)
    assert done.code == 1
    assert str(file) in done.err
    assert "secret" not in done.err
    assert len(done.err.splitlines()) == 1


def test_a_missing_fleet_file_is_refused_also_in_the_background(kilonova: Kilonova, tmp_path: Path):
    done = kilonova.detach(tmp_path / "data", "--nodes", tmp_path / "absent.yaml")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        f"kilonova: {tmp_path / 'absent.yaml'} cannot be read: No such file or directory: "
        "write small, large or the path of a fleet file\n"
    )


@pytest.fixture
def taken() -> Generator[str]:
    """A port that somebody has."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield str(door.getsockname()[1])


MODES = pytest.mark.parametrize("mode", [(), ("--detach",)], ids=["foreground", "background"])
REFUSED = {
    "port": ("--no-demo", "--port", "TAKEN"),
    "port of the console": ("--no-demo", "--console-port", "TAKEN"),
    "one port for both": ("--no-demo", "--port", "FREE", "--console-port", "FREE"),
    "host": ("--no-demo", "--host", "192.0.2.1"),
    "fleet": ("--nodes", "absent.yaml"),
}


@MODES
@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_no_folder(
    kilonova: Kilonova, tmp_path: Path, taken: str, mode: tuple[str, ...], words: tuple[str, ...]
):
    data = tmp_path / "new" / "data"
    kilonova.ends_with_the_test(data)
    done = kilonova("up", *mode, *_asked(words, taken, data))
    assert (done.code, done.out) == (1, "")
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "new").exists()


@MODES
@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_a_folder_as_it_was(
    kilonova: Kilonova, tmp_path: Path, taken: str, mode: tuple[str, ...], words: tuple[str, ...]
):
    data = tmp_path / "data"
    data.mkdir()
    (data / "mine").write_text("kept")
    kilonova.ends_with_the_test(data)
    assert kilonova("up", *mode, *_asked(words, taken, data)).code == 1
    assert os.listdir(data) == ["mine"]


@MODES
@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("models", "is a relative path: write HOME/models"),
        ("./models", "is a relative path: write HOME/models"),
        ("/absent/models", "does not exist: make it, or name another"),
        ("~/absent", "does not exist: make it, or name another"),
    ],
)
def test_a_path_that_pods_cannot_be_shown_is_refused(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...], path: str, wrong: str
):
    (tmp_path / "models").mkdir()
    data = tmp_path / "data"
    kilonova.ends_with_the_test(data)
    done = kilonova("up", *mode, "--port", "0", "--data", data, "--allow-host-path", path)
    told = wrong.replace("HOME", str(tmp_path))
    shown = str(Path(path))
    assert (done.code, done.err) == (2, f"kilonova: --allow-host-path {shown} {told}\n")
    assert not data.exists()


@MODES
def test_an_unknown_controller_is_wrong_usage(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...]
):
    data = tmp_path / "new" / "data"
    kilonova.ends_with_the_test(data)
    words = ("--no-demo", "--port", "0", "--controllers", "nonsense", "--data", data)
    done = kilonova("up", *mode, *words)
    assert (done.code, done.out) == (2, "")
    assert "--controllers nonsense" in done.err
    assert not (tmp_path / "new").exists()


def _asked(words: tuple[str, ...], taken: str, data: Path) -> list[str]:
    with socket.create_server(("127.0.0.1", 0)) as door:
        free = str(door.getsockname()[1])
    ports = {"TAKEN": taken, "FREE": free}
    return ["--port", "0", *(ports.get(word, word) for word in words), "--data", str(data)]


@MODES
def test_a_folder_that_cannot_be_made_is_refused(
    kilonova: Kilonova, tmp_path: Path, mode: tuple[str, ...]
):
    (tmp_path / "file").touch()
    data = tmp_path / "file" / "data"
    done = kilonova("up", *mode, "--port", "0", "--data", data)
    mend = "mend that, or choose another folder with --data DIR"
    assert (done.code, done.err) == (1, f"kilonova: {data}: Not a directory: {mend}\n")


def test_a_corrupt_store_is_refused_and_left_as_it_is(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    content = b"this is no database" * 1000
    (data / "store.db").write_bytes(content)
    done = kilonova("up", "--port", "0", "--data", data)
    assert done.code == 1
    assert str(data / "store.db") in done.err
    assert len(done.err.splitlines()) == 1
    assert (data / "store.db").read_bytes() == content


def test_an_unknown_log_level_is_refused(
    kilonova: Kilonova, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    environment = kilonova.environment() | {"KILONOVA_LOG": "loud"}
    monkeypatch.setattr(kilonova, "environment", lambda: environment)
    done = kilonova("up", "--port", "0", "--data", tmp_path / "data")
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
