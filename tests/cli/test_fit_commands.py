"""`kilonova fit` and `kilonova alloc` on snapshot files."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kilonova.artifacts.builds import Build, BuildAccelerator, save_build
from kilonova.component.command.output.terminal_text import display_width
from kilonova.scheduler.library.snapshots.file import save_snapshot_file
from tests.cli.command import CompletedCommand, Kilonova, complete_words
from tests.instances.clusters import NPU, node, pod, rack, snapshot_of

ROOT = Path(__file__).parents[2]
LLAMA = Build(id="llama-v7", model="llama", agents=6)
NPUS = Build(id="npu-v1", model="llama", agents=2, accelerator=BuildAccelerator(resource=NPU))
ON_IT = ("--snapshot", "it.json", "--builds", "builds")


@pytest.fixture
def inputs(kilonova: Kilonova) -> Kilonova:
    """The command, in a directory with a snapshot and builds."""
    nodes = [*rack("zone-a/b0/r0"), *rack("zone-a/b0/r1"), *rack("zone-b/b1/r2")]
    nodes.append(node("npu-0", "zone-b/b1/r3", 0, resources={NPU: 4}))
    snapshot = snapshot_of(*nodes, pods=[pod("web", "r0-n0", range(4), instance="chat")])
    save_snapshot_file(snapshot, kilonova.home / "it.json")
    for build in (LLAMA, NPUS):
        save_build(build, kilonova.home / "builds")
    return kilonova


def succeeded(done: CompletedCommand) -> str:
    assert done.code == 0, done.err
    return done.out


def test_picture_is_printed(inputs: Kilonova):
    lines = succeeded(inputs("fit", "--snapshot", "it.json")).splitlines()
    assert lines[0] == "nvidia.com/gpu: 6 nodes, 20 of 24 free; 1 other node"
    assert "    AAAA r0-n0       ···· r1-n[0-1]" in lines
    assert lines[-1] == "· free"


def test_build_is_marked_and_answered(inputs: Kilonova):
    out = succeeded(inputs("fit", "--build", "llama-v7", *ON_IT))
    assert "    ####" in out
    assert "Copies that fit: 3" in out
    assert "default/iei-llama-3 would be pending: InsufficientCapacity." in out


def test_accelerators_are_those_of_the_build(inputs: Kilonova):
    out = succeeded(inputs("fit", "--build", "npu-v1", *ON_IT))
    assert out.startswith(f"{NPU}: 1 node, 4 of 4 free; 6 other nodes")
    assert "##·· npu-0" in out


def test_only_some_domains(inputs: Kilonova):
    out = succeeded(inputs("fit", "zone-b", "--snapshot", "it.json"))
    assert out.startswith("nvidia.com/gpu: 2 nodes, 8 of 8 free\n")


def test_narrow_picture_with_colours(inputs: Kilonova):
    coloured = inputs("fit", "--snapshot", "it.json", "--color", "always", "--width", "40")
    assert "\x1b[32m····\x1b[0m" in succeeded(coloured)
    assert max(map(display_width, coloured.out.splitlines())) <= 40


def test_picture_as_json(inputs: Kilonova):
    out = succeeded(inputs("fit", "--build", "llama-v7", *ON_IT, "-o", "json"))
    document = json.loads(out)
    first = document["topology"]["nodes"][0]
    assert first["domain"] == ["zone-a", "b0", "r0"]
    holder = {"kind": "InferenceEngineInstance", "name": "default/chat"}
    assert first["accelerators"][0] == {"state": "Used", "holder": holder, "isNext": False}
    assert len(document["allocation"]["copies"]["placed"]) == 3


def test_allocation_is_printed_and_saved(inputs: Kilonova):
    done = inputs("alloc", "--build", "llama-v7", *ON_IT, "--save-build-output-path", "data")
    lines = succeeded(done).splitlines()
    assert lines[0] == "default/iei-llama in zone-a/b0/r1"
    assert lines[2].split() == ["0", "r1-n0", "0", "zone-a/b0/r1"]
    assert len(lines) == 2 + LLAMA.agents + 1
    saved = inputs(
        *("alloc", "--build", "llama-v7", "--builds", "data"),
        *("--snapshot", "data/llama-v7.snapshot.json.gz"),
    )
    assert succeeded(saved) == done.out


def test_allocation_that_does_not_fit_fails_with_the_reason(inputs: Kilonova):
    done = inputs("alloc", "--build", "llama-v7", *ON_IT, "--copies", "5")
    assert done.code == 1
    assert done.out.count("default/iei-llama") == 3
    assert done.err.startswith("kilonova: 3 of 5 instances fit: InsufficientCapacity: group agents")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("fit", "--build", "nope", *ON_IT), 1, "no such build: known are llama-v7, npu-v1"),
        (("fit", "--build", "llama-v7", "--snapshot", "it.json"), 2, "give --builds, or set"),
        (("alloc", "--build", "damaged", *ON_IT), 1, "publish the build again"),
        (("alloc", "--build", "llama-v7", "--builds", "builds", "--data", "none"), 1, "no cluster"),
        (("fit", "--snapshot", "none.json"), 1, "none.json cannot be read"),
        (
            ("fit", "--snapshot", "it.json", "--level", "row"),
            1,
            "use one of node, rack, block, zone",
        ),
        (("fit", "r9", "--snapshot", "it.json"), 1, "no domain 'r9' has nvidia.com/gpu"),
        (("fit", "--snapshot", "it.json", "--resource", "x.com/y"), 1, f"offered are {NPU}"),
        (
            ("alloc", "--build", "llama-v7", *ON_IT, "--strategy", "best"),
            1,
            "use one of packed, spread, tightest",
        ),
    ],
)
def test_errors_are_one_line_and_say_what_to_do(
    inputs: Kilonova, words: tuple[str, ...], code: int, problem: str
):
    save_build(Build(id="damaged", model="x", agents=1), inputs.home / "builds")
    (inputs.home / "builds" / "damaged.json").write_text("{}")
    if "nope" in words:
        (inputs.home / "builds" / "damaged.json").unlink()
    done = inputs(*words)
    assert (done.code, done.out) == (code, "")
    assert problem in done.err
    assert done.err.count("\n") == 1


def test_names_are_completed(inputs: Kilonova):
    builds = complete_words(inputs, ("fit", "--builds", "builds", "--build", "l"))
    assert builds == ["llama-v7"]
    assert complete_words(inputs, ("alloc", "--strategy", "t")) == ["tightest"]
    of_file = ("fit", "--snapshot", "it.json")
    assert complete_words(inputs, (*of_file, "r")) == ["r0", "r1", "r2", "r3"]
    assert complete_words(inputs, (*of_file, "zone-b/b1/r2")) == ["zone-b/b1/r2"]
    assert complete_words(inputs, (*of_file, "--level", "")) == ["node", "rack", "block", "zone"]


def run_program(
    inputs: Kilonova, name: str, *words: str, packages: Path | None = None
) -> CompletedCommand:
    """A script of the package in a process of its own, with more packages."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts[name].partition(":")
    environment = inputs.environment()
    if packages is not None:
        environment["PYTHONPATH"] += f"{os.pathsep}{packages}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"from {module} import {function}; {function}()", *words],
        cwd=inputs.home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return CompletedCommand(done.returncode, done.stdout, done.stderr)


def test_alloc_is_a_program(inputs: Kilonova):
    done = run_program(inputs, "alloc", "--build", "llama-v7", *ON_IT)
    assert succeeded(done).startswith("default/iei-llama in zone-a/b0/r1\n")


def test_plugins_of_installed_packages_are_asked(inputs: Kilonova, tmp_path: Path):
    packages = tmp_path / "packages"
    info = packages / "power-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: power\nVersion: 1.0\n")
    points = "[kilonova.fit]\npower = power:by_rack\nlater = power:missing\n"
    (info / "entry_points.txt").write_text(points)
    (packages / "power.py").write_text("def by_rack(view): return {'zone-b/b1/r2': '38 kW'}\n")
    done = run_program(inputs, "kubectl-fit", "--snapshot", "it.json", packages=packages)
    assert "r2  8/8 free  38 kW" in succeeded(done)
    assert done.err.startswith("kilonova: plug-in later (power:missing) of kilonova.fit failed")
    assert done.err.count("\n") == 1
