"""The image table: which entry an image has, what its containers run, and errors in files."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.local.processnode.executables import ProgramFinder
from kilonova.local.processnode.images import (
    ImageEntry,
    ImageTable,
    ImageTableError,
    load_image_table,
)
from kilonova.local.processnode.images.table import split_image

ENTRY = ImageEntry(
    image="ghcr.io/acme/server",
    entrypoint=("serve", "--quiet"),
    cmd=("--port", "8000"),
    env={"ACME": "1"},
    path=("/opt/acme/bin",),
    working_dir="/srv",
    programs={"/bin/serve": "serve"},
)


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("python", ("docker.io/library/python", "")),
        ("python:3.13", ("docker.io/library/python", "3.13")),
        ("rayproject/ray:2.9@sha256:00", ("docker.io/rayproject/ray", "2.9")),
        ("nvcr.io/nvidia/tritonserver", ("nvcr.io/nvidia/tritonserver", "")),
        ("localhost/a", ("localhost/a", "")),
        ("host:5000/a:1", ("host:5000/a", "1")),
        ("*/envoy", ("*/envoy", "")),
    ],
)
def test_image_names_are_completed_as_by_container_runtimes(
    image: str, parts: tuple[str, str]
) -> None:
    assert split_image(image) == parts


@pytest.mark.parametrize(
    ("pattern", "image", "expected"),
    [
        ("python", "python:3.13", True),
        ("python", "docker.io/library/python", True),
        ("python", "bitnami/python", False),
        ("python:3.*", "python:3.13", True),
        ("python:3.*", "python:2.7", False),
        ("rayproject/ray", "rayproject/ray-ml", False),
        ("rayproject/ray-*", "rayproject/ray-ml:2.9", True),
        ("*/envoyproxy/envoy", "mirror.example.com/envoyproxy/envoy:v1", True),
        ("nvcr.io/nvidia/tritonserver", "nvcr.io/nvidia/tritonserver:25.01-py3", True),
    ],
)
def test_entries_match_images(pattern: str, image: str, expected: bool) -> None:
    assert ImageEntry(image=pattern).matches(image) == expected


@pytest.mark.parametrize(
    ("command", "args", "line"),
    [
        ([], [], ("serve", "--quiet", "--port", "8000")),
        ([], ["--help"], ("serve", "--quiet", "--help")),
        (["sh"], [], ("sh",)),
        (["sh"], ["-c", "true"], ("sh", "-c", "true")),
        (["/bin/serve"], [], ("serve",)),
    ],
)
def test_command_and_args_replace_entrypoint_and_cmd(
    command: list[str], args: list[str], line: tuple[str, ...]
) -> None:
    resolved = ImageTable([ENTRY]).resolve("ghcr.io/acme/server:2", command, args)
    assert resolved is not None
    assert resolved.line == line
    assert (resolved.env, resolved.working_dir) == ({"ACME": "1"}, "/srv")
    assert resolved.get_search_path("/bin") == "/opt/acme/bin:/bin"


def test_an_image_without_an_entry_runs_its_command_alone() -> None:
    table = ImageTable([ENTRY])
    resolved = table.resolve("nginx", ["sh"], ["-c", "true"])
    assert resolved is not None
    assert (resolved.line, resolved.env, resolved.path) == (("sh", "-c", "true"), {}, ())
    assert table.resolve("nginx", [], ["-c", "true"]) is None


def test_the_first_matching_entry_is_used_and_may_say_nothing() -> None:
    table = ImageTable([ImageEntry(image="ghcr.io/acme/*"), ENTRY])
    assert table.resolve("ghcr.io/acme/server", [], []) is None


def shipped(image: str, *args: str, command: tuple[str, ...] = ()) -> tuple[str, ...]:
    resolved = load_image_table().resolve(image, command, args)
    return () if resolved is None else resolved.line


def test_shipped_table_knows_common_images() -> None:
    triton = "nvcr.io/nvidia/tritonserver:25.01-py3"
    assert shipped(triton) == ()
    assert shipped(triton, "tritonserver", "--model-repository=/models") == (
        "tritonserver",
        "--model-repository=/models",
    )
    command = ("/opt/tritonserver/bin/tritonserver",)
    assert shipped(triton, command=command) == ("tritonserver",)
    resolved = load_image_table().resolve(triton, command, ())
    assert resolved is not None
    cache = Path.home() / ".cache" / "kilonova"
    assert resolved.path == tuple(
        str(cache / folder) for folder in ("triton/current/bin", "tritonclient/current")
    )
    assert shipped("rayproject/ray:2.51.0", "ray", "start", "--head")[:2] == ("ray", "start")
    assert shipped("python:3.13", command=("python", "-V")) == ("python3", "-V")
    assert shipped("busybox") == ("sh",)
    assert shipped("registry.k8s.io/pause:3.10") == ("sleep", "infinity")
    assert shipped("nginx") == ()


def test_envoy_is_the_one_beside_the_interpreter() -> None:
    for image in ("envoyproxy/envoy:v1.40.0", "envoyproxy/envoy-distroless:v1.40.0"):
        assert shipped(image) == ("envoy", "-c", "/etc/envoy/envoy.yaml")
        assert shipped(image, "-c", "/e.yaml") == ("envoy", "-c", "/e.yaml")
        assert shipped(image, command=("/usr/local/bin/envoy",)) == ("envoy",)
        resolved = load_image_table().resolve(image, (), ())
        assert resolved is not None
        found = shutil.which("envoy", path=resolved.get_search_path(""))
        assert found == str(Path(sys.executable).with_name("envoy"))
        assert resolved.explain_missing() == (
            "envoy, which is not found on this machine: pip install 'kilonova[serving]'"
        )


def test_images_of_this_project_run_the_command_beside_the_interpreter() -> None:
    command = str(Path(sys.executable).with_name("kilonova"))
    assert shipped("kilonova:0.1.0", "run", "scheduler") == (command, "run", "scheduler")
    assert shipped("registry.example.com/team/kilonova", "version") == (command, "version")
    for image in ("kilonova/engine", "registry.example.com/kilonova/engine:1"):
        engine = (sys.executable, "-P", "-m", "kilonova.instances.engine")
        assert shipped(image) == engine
        assert shipped(image, "agent") == (*engine, "agent")
        assert shipped(image, command=("kilonova", "version")) == (command, "version")


def container(image: str, **fields: Any) -> Any:
    return {"containers": [{"name": "c", "image": image, **fields}]}


def test_a_pod_can_run_if_the_program_of_its_image_exists(tmp_path: Path) -> None:
    program = tmp_path / "serve"
    entry = ImageEntry(image="acme/server", entrypoint=("serve",), path=(str(tmp_path),))
    finder = ProgramFinder(ImageTable([entry]))
    assert finder.explain_pod(container("acme/server")) == (
        'container "c" runs serve, which is not found on this machine'
    )
    assert finder.explain_pod(container("nginx")) == (
        'container "c" has no command, and the image table does not specify what image nginx runs'
    )
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    # The lookup by name is cached for a moment.
    assert finder.can_run_pod(container("acme/server", command=[str(program)]))


def test_a_file_extends_the_shipped_table(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    entries = [{"image": "acme/server", "entrypoint": ["serve"], "path": ["~/bin"]}]
    file.write_text(yaml.safe_dump({"images": [*entries, {"image": "python"}]}))
    table = load_image_table(file)
    found = table.resolve("acme/server", [], [])
    assert found is not None
    assert found.path == (str(Path.home() / "bin"),)
    assert table.resolve("python", [], []) is None, "it replaces the shipped entry"
    assert table.resolve("busybox", [], []) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "is not YAML: while parsing"),
        ("- a", ": write one field, images, with a list: [{image: "),
        ("images: 3", ": images: is 3: write a list: [{image: "),
        ("images: [python]", ": images[0]: is 'python': write fields: {image: "),
        (
            "images: [{image: a}, {entrypoint: [b]}]",
            ": images[1].image: is missing: write the image without or with a tag",
        ),
        ("images: [{image: a, command: [b]}]", ": images[0].command: no such field: use image, "),
        (
            "images: [{image: a, entrypoint: sh}]",
            ": images[0].entrypoint: is 'sh': write a list of words: [python3, -m, acme.server]",
        ),
        (
            "images: [{image: a, cmd: [8000]}]",
            ": images[0].cmd: is [8000]: write a list of words: [--port, '8000']",
        ),
        (
            "images: [{image: a, env: {PORT: 80}}]",
            ": images[0].env: is {'PORT': 80}: write texts by name: {ACME_HOME: /srv/acme, PORT: ",
        ),
        ("images: [{image: a, env: {A-B: c}}]", ": images[0].env: 'A-B' is no name of a variable"),
        ("images: [{image: a, env: {PATH: c}}]", ".env: PATH is set by the node: list folders in "),
        ("images: [{image: a, path: [bin]}]", ": images[0].path[0]: is 'bin': write an absolute "),
        (
            "images: [{image: a, workingDir: app}]",
            ": images[0].workingDir: is 'app': write an absolute folder: /app",
        ),
        ("images: [{image: a, cmd: ['']}]", ": images[0].cmd[0]: is '': write a list of words"),
    ],
)
def test_errors_name_file_field_value_and_fix(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "images.yaml"
    file.write_text(text)
    with pytest.raises(ImageTableError, match=re.escape(message)) as raised:
        load_image_table(file)
    assert str(raised.value).startswith(str(file))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ImageTableError, match=r"no\.yaml cannot be read: No such file"):
        load_image_table(tmp_path / "no.yaml")
