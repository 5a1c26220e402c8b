"""The comparison of the exporter with nvidia-smi, on the fake driver."""

from collections.abc import Sequence

from kilonova.gpu.devices.model import DeviceTelemetry
from kilonova.gpu.devices.nvml import NvmlBackend
from tests.gpu.devices.machines import FakeTime
from tests.gpu.devices.nvml.fake_driver import Process
from tests.gpu.devices.nvml.machines import one_h100, open_backend
from tools.hardware.gpu_exporter import (
    FIELDS,
    compare_exporter,
    compare_instances,
    compare_values,
)
from tools.hardware.rig import Load, Rig
from tools.hardware.transcript import Transcript

MIB = 1 << 20


class FakeLoad:
    pid = 99
    is_running = True


class FakeMachine:
    """nvidia-smi that says what the backend measures, with errors on demand."""

    def __init__(self, **errors: str) -> None:
        driver, _ = one_h100()
        self.gpu = driver.gpus[0]
        self.backend: NvmlBackend = open_backend(driver, time=FakeTime())
        self.errors = errors

    @property
    def rig(self) -> Rig:
        def stop() -> None:
            self.gpu.processes.clear()

        return Rig(self.backend, self.run, self.start_load, stop, lambda target: None)

    def start_load(self, target: str, seconds: float, mebibytes: int) -> Load:
        self.gpu.processes.append(Process(99, mebibytes * MIB, 97))
        return FakeLoad()

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        (query,) = (each for each in command if each.startswith("--query-gpu="))
        (reading,) = self.backend.read_telemetry()
        limit = self.backend.read_inventory().devices[0].power_limit_watts
        values = {**describe(reading), "power.limit": limit} | self.errors
        names = query.removeprefix("--query-gpu=").split(",")
        return 0, ", ".join("[N/A]" if values[x] is None else str(values[x]) for x in names)


def describe(reading: DeviceTelemetry) -> dict[str, object]:
    used, total = reading.memory_used_bytes or 0, reading.memory_total_bytes or 0
    reserved = reading.memory_reserved_bytes or 0
    activity = reading.activity
    return {
        "uuid": reading.uuid,
        "utilization.gpu": None if activity.gpu is None else activity.gpu * 100,
        "utilization.memory": None if activity.memory_copy is None else activity.memory_copy * 100,
        "memory.total": total // MIB,
        "memory.used": used // MIB,
        "memory.free": (total - used - reserved) // MIB,
        "memory.reserved": reserved // MIB,
        "temperature.gpu": reading.temperature_celsius,
        "temperature.memory": reading.temperature_celsius
        if reading.memory_temperature_celsius is None
        else reading.memory_temperature_celsius,
        "power.draw": reading.power_watts,
        "clocks.sm": reading.sm_clock_mhz,
        "clocks.mem": reading.memory_clock_mhz,
        "ecc.errors.corrected.volatile.total": reading.ecc_corrected,
        "ecc.errors.uncorrected.volatile.total": reading.ecc_uncorrected,
        "remapped_rows.uncorrectable": reading.rows_remapped_uncorrected,
    }


def run(machine: FakeMachine) -> Transcript:
    transcript = Transcript(echo=lambda _: None)
    compare_exporter(machine.rig, transcript, sleep=lambda _: None)
    return transcript


def test_figures_of_the_same_readings_agree_while_idle_and_under_load() -> None:
    transcript = run(FakeMachine())
    assert not transcript.failures
    assert sum("agrees with nvidia-smi" in line for line in transcript.lines) == 2


def test_figure_that_differs_fails_the_check_by_its_name() -> None:
    transcript = run(FakeMachine(**{"power.draw": "9999"}))
    assert len(transcript.failures) == 2
    text = "\n".join(transcript.lines)
    assert "DCGM_FI_DEV_POWER_USAGE, kgwe_gpu_power_watts" in text


SMI_OF_INSTANCE = """<mig_device><gpu_instance_id>{}</gpu_instance_id>
<fb_memory_usage><used>{} MiB</used></fb_memory_usage></mig_device>"""


class FakeMigMachine(FakeMachine):
    """nvidia-smi with the memory of MIG instances, wrong by some MiB on demand."""

    def __init__(self, error: int = 0) -> None:
        super().__init__()
        self.error = error

    def start_load(self, target: str, seconds: float, mebibytes: int) -> Load:
        (device,) = self.backend.read_inventory().devices
        (instance,) = (each for each in device.instances if each.uuid == target)
        self.gpu.processes.append(
            Process(99, mebibytes * MIB, 97, gpu_instance=instance.gpu_instance)
        )
        return FakeLoad()

    def run(self, command: Sequence[str]) -> tuple[int, str]:
        numbers = {
            x.uuid: x.gpu_instance for x in self.backend.read_inventory().devices[0].instances
        }
        (reading,) = self.backend.read_telemetry()
        texts = [
            SMI_OF_INSTANCE.format(
                numbers[each.uuid], (each.memory_used_bytes or 0) // MIB + self.error
            )
            for each in reading.instances
        ]
        return 0, f"<log><gpu>{''.join(texts)}</gpu></log>"


def compare_on(machine: FakeMigMachine) -> Transcript:
    transcript = Transcript(echo=lambda _: None)
    (device,) = machine.backend.read_inventory().devices
    compare_instances(machine.rig, transcript, device, sleep=lambda _: None)
    return transcript


def test_instances_have_the_memory_of_nvidia_smi_and_their_pods() -> None:
    transcript = compare_on(FakeMigMachine())
    text = "\n".join(transcript.lines)
    assert text.count("ok: used memory of") == 2, text
    assert "ok: 3g.40gb@4 belongs to trainer" in text
    assert "ok: 2g.20gb@0 belongs to no pod" in text


def test_memory_of_an_instance_that_differs_fails_the_check() -> None:
    transcript = compare_on(FakeMigMachine(error=500))
    assert sum("used memory of" in each for each in transcript.failures) == 2


def test_figure_that_nvidia_smi_does_not_have_must_not_be_exported() -> None:
    theirs = {field.name: "0" for field in FIELDS} | {"temperature.memory": "N/A"}
    ours = {field.metric: 0.0 for field in FIELDS}
    assert compare_values(ours, theirs)[0] == ["DCGM_FI_DEV_MEMORY_TEMP"]
    del ours["DCGM_FI_DEV_MEMORY_TEMP"]
    assert compare_values(ours, theirs)[0] == []
    del ours["DCGM_FI_DEV_GPU_TEMP"]
    assert compare_values(ours, theirs)[0] == ["DCGM_FI_DEV_GPU_TEMP"]
