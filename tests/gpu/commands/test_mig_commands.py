"""`kilonova gpu mig`: files in and out, what is done, and what is refused."""

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from kilonova.component.failure import CommandFailed
from kilonova.gpu.commands.app import app
from kilonova.gpu.devices.recorded import Recording
from kilonova.gpu.mig.node_lock import NodeLock
from tests.gpu.devices.machines import first_uuid, simulate

SIMULATED = ("--backend", "simulated:h100:1")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["mig", *words])


def output_of(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def failure_of(*words: str) -> str:
    result = run(*words)
    assert isinstance(result.exception, CommandFailed), result.output
    return str(result.exception)


@pytest.fixture
def defaults(tmp_path: Path) -> str:
    """A file with NVIDIA's configs."""
    file = tmp_path / "configs.yaml"
    file.write_text(output_of("defaults", *SIMULATED))
    return str(file)


def test_dry_run_prints_the_steps(defaults: str, tmp_path: Path) -> None:
    words = ("apply", defaults, "-c", "all-balanced", *SIMULATED, "--state-dir", str(tmp_path))
    assert output_of(*words, "--dry-run").splitlines() == [
        "would enable MIG mode on GPU 0",
        "would create 3g.40gb@4 on GPU 0",
        "would create 2g.20gb@0 on GPU 0",
        "would create 1g.10gb@2 on GPU 0",
        "would create 1g.10gb@3 on GPU 0",
    ]


def test_apply_prints_what_was_done(tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_text(
        "version: v1\n"
        "mig-configs: {whole: [{devices: all, mig-enabled: true, mig-devices: {7g.80gb: 1}}]}\n"
    )
    lines = output_of("apply", str(file), *SIMULATED, "--state-dir", str(tmp_path)).splitlines()
    assert lines == [
        "done: enable MIG mode on GPU 0",
        "done: create 7g.80gb@0 on GPU 0",
        "whole is in force",
    ]


def test_export_of_a_machine_is_in_force_on_it(tmp_path: Path) -> None:
    backend = simulate("h100:2")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    backend.create_instance(uuid, "3g.40gb", 4)
    machine = tmp_path / "machine.json"
    machine.write_bytes(msgspec.json.encode(Recording(backend.read_inventory())))
    recorded = ("--backend", f"recorded:{machine}")
    file = tmp_path / "current.yaml"
    file.write_text(output_of("export", *recorded))
    assert output_of("assert", str(file), *recorded) == "current is in force\n"
    assert failure_of("assert", str(file), "--backend", "simulated:h100:2").splitlines() == [
        "current is not in force:",
        "device 0: MIG mode is disabled",
        "device 0: has no instance instead of 1×3g.40gb",
    ]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ((), "has several configs: choose one by --config NAME: all-disabled"),
        (("-c", "none"), "there is no config 'none'"),
    ],
)
def test_config_has_to_be_chosen(defaults: str, config: tuple[str, ...], problem: str) -> None:
    assert problem in failure_of("assert", defaults, *config, *SIMULATED)


def test_bad_file_names_the_field(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("version: v3\n")
    assert "version: 'v3' is not supported" in failure_of("assert", str(file), *SIMULATED)
    assert "No such file" in failure_of("assert", str(tmp_path / "none.yaml"), *SIMULATED)


def test_agent_of_the_node_keeps_the_command_out(defaults: str, tmp_path: Path) -> None:
    lock = NodeLock(tmp_path / "mig.lock")
    words = ("apply", defaults, "-c", "all-enabled", *SIMULATED, "--state-dir", str(tmp_path))
    failure = failure_of(*words)
    lock.release()
    assert "another MIG engine" in failure
    assert "label it nvidia.com/mig.config=NAME" in failure


def test_machine_without_mig_is_told() -> None:
    for verb in ("export", "defaults"):
        assert failure_of(verb, "--backend", "simulated:l4") == (
            "no GPU of this machine supports MIG"
        )
