"""The program for real hardware, on the fake driver: it passes, and leaves the GPU as it found it
whatever happens."""

from collections.abc import Callable, Sequence

import pytest

from kilonova.gpu.devices.nvml import NvmlBackend
from tests.catalog.mig_states import part
from tests.gpu.devices.machines import FakeTime
from tests.gpu.devices.nvml.fake_driver import FakeDriver, FakeGpu, Process
from tests.gpu.devices.nvml.machines import one_h100, open_backend, recorded_h200
from tools.hardware.gpu_discovery import choose_placements, run_discovery
from tools.hardware.rig import Load, Rig
from tools.hardware.smi_comparison import FIELDS, values_agree
from tools.hardware.transcript import Transcript

MIB = 1 << 20


class FakeSmi:
    """nvidia-smi of the fake driver, and processes on it."""

    def __init__(self, driver: FakeDriver, backend: NvmlBackend) -> None:
        self.driver, self.gpu, self.backend = driver, driver.gpus[0], backend
        self.commands: list[Sequence[str]] = []

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        self.commands.append(command)
        if "--query-gpu=compute_mode" in command:
            return 0, {0: "Default", 3: "Exclusive_Process"}[self.gpu.compute_mode]
        if command[:2] == ("nvidia-smi", "-L"):
            return 0, "\n".join(self.gpu.mig_uuid(each) for each in self.gpu.instances)
        if any(each.startswith("--query-gpu=") for each in command):
            device = self.backend.read_inventory().devices[0]
            (reading,) = self.backend.read_telemetry()
            values = [field.read(device, reading) for field in FIELDS]
            return 0, ", ".join("[N/A]" if each is None else str(each) for each in values)
        return 0, ""

    def start_load(self, target: str, seconds: float, mebibytes: int) -> Load:
        del seconds
        instances = {self.gpu.mig_uuid(each): each for each in self.gpu.instances}
        process = Process(99, mebibytes * MIB, 97)
        if target in instances:
            process.gpu_instance = instances[target]
        self.gpu.processes.append(process)
        return FakeLoad()

    def stop_loads(self) -> None:
        self.gpu.processes.clear()

    def cause_fault(self, target: str) -> None:
        assert target == self.gpu.uuid
        self.driver.events.append((0, 0x8, 31))


class FakeLoad:
    pid = 99
    is_running = True


def build_rig(driver: FakeDriver) -> tuple[Rig, FakeSmi]:
    backend = open_backend(driver, time=FakeTime())
    smi = FakeSmi(driver, backend)
    return Rig(backend, smi.run, smi.start_load, smi.stop_loads, smi.cause_fault), smi


def run(driver: FakeDriver, sleep: Callable[[float], None] = lambda _: None) -> Transcript:
    rig, _ = build_rig(driver)
    transcript = Transcript(echo=lambda _: None)
    run_discovery(rig, transcript, causes_xid=True, sleep=sleep)
    return transcript


def is_as_found(gpu: FakeGpu) -> bool:
    return gpu.mig == (0, 0) and not gpu.instances and not gpu.processes and not gpu.compute_mode


@pytest.mark.parametrize("build", [lambda: one_h100()[0], recorded_h200])
def test_program_passes_and_restores(build: Callable[[], FakeDriver]) -> None:
    driver = build()
    transcript = run(driver)
    assert transcript.failures == []
    assert is_as_found(driver.gpus[0])
    text = "\n".join(transcript.lines)
    assert "the busy instance still computes" in text
    assert "- ok: XID 31 arrives as an event (Xid 31)" in text
    assert "All checks passed." in text


def test_mixed_profiles_fit_side_by_side() -> None:
    assert choose_placements(part("H200-141GB")) == [
        ("3g.71gb", 4),
        ("2g.35gb", 0),
        ("1g.18gb", 2),
        ("1g.18gb+me", 3),
    ]
    assert choose_placements(part("A30-24GB")) == [
        ("2g.12gb", 0),
        ("1g.6gb", 2),
        ("1g.6gb+me", 3),
    ]


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceSetMigMode",
        "nvmlDeviceCreateGpuInstanceWithPlacement",
        "nvmlGpuInstanceCreateComputeInstance",
        "nvmlGpuInstanceDestroy",
        "nvmlComputeInstanceDestroy",
        "nvmlDeviceSetComputeMode",
        "nvmlDeviceGetUUID",
    ],
)
@pytest.mark.parametrize("skip", [0, 1, 3])
def test_gpu_is_restored_after_an_error(function: str, skip: int) -> None:
    driver, gpu = one_h100()
    driver.fail(function, 999, times=1, skip=skip)
    run(driver)
    assert is_as_found(gpu)


@pytest.mark.parametrize("naps", [0, 2, 4, 5])
def test_gpu_is_restored_after_an_interrupt(naps: int) -> None:
    driver, gpu = one_h100()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > naps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(driver, sleep)
    assert is_as_found(gpu)


def test_nvidia_smi_restores_what_the_product_cannot() -> None:
    driver, _ = one_h100()
    rig, smi = build_rig(driver)
    transcript = Transcript(echo=lambda _: None)
    driver.fail("nvmlGpuInstanceDestroy", 999)
    assert run_discovery(rig, transcript, sleep=lambda _: None) == 1
    assert any("-dgi" in command for command in smi.commands)
    assert "the product's code restores the GPU" in transcript.failures


def test_gpu_in_use_is_only_read() -> None:
    driver, gpu = one_h100(processes=[Process(5)])
    transcript = run(driver)
    assert "No GPU is changed: none is free" in transcript.lines
    assert not driver.calls["nvmlDeviceSetMigMode"]
    assert gpu.processes


def test_machine_without_driver_fails_in_one_line() -> None:
    driver, _ = one_h100()
    driver.fail("nvmlInitWithFlags", 12)
    transcript = run(driver)
    assert transcript.failures == ["the GPUs can be read"]


@pytest.mark.parametrize(
    ("field", "ours", "theirs", "agrees"),
    [
        ("memory.used", 100.0, "130", True),
        ("memory.used", 100.0, "230", False),
        ("temperature.memory", None, "[N/A]", True),
        ("temperature.memory", 50, "[N/A]", False),
        ("pci.bus_id", "0000:18:00.0", "00000000:18:00.0", True),
        ("name", "NVIDIA H200", "NVIDIA H200", True),
        ("name", "NVIDIA H200", "NVIDIA H100", False),
        ("clocks.max.sm", 1980, "1980", True),
        ("clocks.max.sm", 1980, "1970", False),
        ("clocks.max.sm", 1980, "much", False),
    ],
)
def test_readings_agree_within_their_tolerance(
    field: str, ours: object, theirs: str, agrees: bool
) -> None:
    found = next(each for each in FIELDS if each.name == field)
    assert values_agree(found, ours, theirs) is agrees
