"""`kilonova gpu discover|topology|health`: output, colours, recordings, exit codes."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from kilonova.component.failure import CommandFailed
from kilonova.gpu.commands.app import app
from kilonova.gpu.devices.recorded import Recording
from tests.gpu.devices.machines import first_uuid, simulate


def run(*words: str, variables: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, list(words), env=variables)


def output_of(*words: str, variables: dict[str, str] | None = None) -> str:
    result = run(*words, variables=variables)
    assert result.exit_code == 0, result.output
    return result.output


def failure_of(*words: str) -> str:
    result = run(*words)
    assert isinstance(result.exception, CommandFailed), result.output
    return str(result.exception)


def save(tmp_path: Path, backend_recording: Recording) -> str:
    file = tmp_path / "machine.json"
    file.write_bytes(msgspec.json.encode(backend_recording))
    return f"recorded:{file}"


def test_discover_lists_devices_and_instances(tmp_path: Path) -> None:
    backend = simulate("h200:2")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    instance = backend.create_instance(uuid, "3g.71gb", 4)
    machine = save(tmp_path, Recording(backend.read_inventory()))
    lines = output_of("discover", "--backend", machine).splitlines()
    assert lines[0] == "2 GPUs, driver 580.159.04, CUDA 13.0"
    assert lines[1].split() == [
        *("GPU", "PRODUCT", "ARCH", "MEMORY", "SMS", "NVLINK", "NUMA", "PCI", "MIG"),
        *("HEALTH", "UUID"),
    ]
    assert "on (1)" in lines[2]
    assert "off" in lines[3]
    assert lines[-1].split() == ["0", "3g.71gb", "4", "4", instance.uuid]


def test_discover_shows_a_pending_mode(tmp_path: Path) -> None:
    backend = simulate("a100-80:1")
    with pytest.raises(Exception, match="pending"):
        backend.set_mig_mode(first_uuid(backend), True)
    machine = save(tmp_path, Recording(backend.read_inventory()))
    assert "off, on after a reset" in output_of("discover", "-b", machine)


@pytest.mark.parametrize("persona", ["h100", "mixed", "gb200-nvl72", "t4"])
def test_json_of_discover_is_a_recording(tmp_path: Path, persona: str) -> None:
    text = output_of("discover", "--backend", f"simulated:{persona}", "-o", "json")
    file = tmp_path / "machine.json"
    file.write_text(text)
    again = output_of("discover", "--backend", f"recorded:{file}", "-o", "json")
    first, second = json.loads(text), json.loads(again)
    assert second["inventory"].pop("backend") == "recorded"
    first["inventory"].pop("backend")
    assert first == second
    assert "memoryMib" in first["inventory"]["devices"][0]


def test_topology_is_drawn_as_a_matrix() -> None:
    text = output_of("topology", "--backend", "simulated:a100-40:4")
    assert text.splitlines()[:3] == [
        "      GPU0  GPU1  GPU2  GPU3  NUMA  PCIE SWITCH",
        "GPU0  X     NV4   NV4   NV4   0     sw0",
        "GPU1  NV4   X     NV4   NV4   0     sw0",
    ]
    assert "NV#  NVLinks" in text
    assert "All together: 600 GB/s for each GPU, over direct NVLinks." in text
    assert "\x1b" not in text


def test_topology_has_colours_where_they_are_wanted() -> None:
    plain = output_of("topology", "--backend", "simulated:mixed")
    coloured = output_of(
        "topology", "--backend", "simulated:mixed", variables={"CLICOLOR_FORCE": "1"}
    )
    assert "\x1b[32mNV12\x1b[0m" in coloured
    assert "\x1b[31mSYS\x1b[0m" in coloured
    for code in ("32", "33", "31", "90", "0"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == plain


def test_topology_names_ports_and_domains() -> None:
    text = output_of("topology", "--backend", "simulated:gb200-nvl72")
    assert "All together: 1800 GB/s for each GPU, by its port to the NVSwitches." in text
    assert "NVLink domain: " in text
    document = json.loads(output_of("topology", "-b", "simulated:h100", "-o", "json"))
    assert document["ports"] == [900] * 8
    assert document["matrix"][0]["paths"] == ["X"] + ["NV18"] * 7
    assert document["paths"][0] == {
        "first": 0,
        "second": 1,
        "kind": "NV",
        "nvlinks": 18,
        "bandwidth": 900,
        "isSwitched": True,
    }


def test_health_of_sound_devices_is_success() -> None:
    lines = output_of("health", "--backend", "simulated:h100:2").splitlines()
    assert lines[1].split() == ["0", "Healthy", "33C", "84W", "0/0", "0/0", "-", "-"]


@pytest.mark.parametrize(
    ("error", "strict", "code"),
    [("degraded", False, 0), ("degraded", True, 1), ("lost", False, 1)],
)
def test_health_fails_for_unhealthy_devices(
    tmp_path: Path, error: str, strict: bool, code: int
) -> None:
    backend = simulate("h100:2")
    uuid = first_uuid(backend)
    if error == "lost":
        backend.lose(uuid)
    else:
        backend.add_ecc_errors(uuid, uncorrected=1)
    recording = Recording(backend.read_inventory(), tuple(backend.read_telemetry()))
    words = ["health", "--backend", save(tmp_path, recording), *(["--strict"] if strict else [])]
    result = run(*words)
    assert result.exit_code == code
    expected = {
        "lost": "Unhealthy   -      -       -     -          -                   XID 79",
        "degraded": "a memory row is remapped at the next reset; 1 uncorrected memory error",
    }
    assert expected[error] in result.output
    document = json.loads(run(*words, "-o", "json").output)
    assert document[1]["health"] == {}
    assert document[0]["health"]["state"] in ("Degraded", "Unhealthy")


def test_health_is_coloured_by_state() -> None:
    variables = {"CLICOLOR_FORCE": "1"}
    text = output_of("health", "-b", "simulated:h100:1", variables=variables)
    assert "\x1b[32mHealthy\x1b[0m" in text


@pytest.mark.parametrize("command", ["discover", "topology", "health"])
def test_machine_without_driver_says_what_to_do(command: str) -> None:
    result = run(command)
    if result.exit_code == 0:
        pytest.skip("this machine has an NVIDIA driver")
    message = str(result.exception)
    assert message.startswith("no NVIDIA driver on this machine: ")
    assert "--backend recorded:FILE" in message
    assert "\n" not in message


@pytest.mark.parametrize("command", ["discover", "topology", "health"])
def test_unknown_backend_is_refused(command: str) -> None:
    message = failure_of(command, "--backend", "cuda")
    assert message == "--backend cuda: expected nvml, simulated:PERSONA or recorded:FILE"
    assert "--backend recorded:/x.json" in failure_of(command, "-b", "recorded:/x.json")


@pytest.mark.parametrize("command", ["discover", "topology", "health"])
def test_machine_without_gpus_is_not_an_error(tmp_path: Path, command: str) -> None:
    machine = save(tmp_path, Recording(simulate().read_inventory().__class__()))
    result = run(command, "--backend", machine)
    assert result.exit_code == 0
    assert "no GPUs" in result.output


@pytest.mark.parametrize("command", ["discover", "topology", "health"])
def test_help_has_examples(command: str) -> None:
    assert f"kilonova gpu {command} " in output_of(command, "--help")
