"""Events of the driver, and resets by nvidia-smi."""

from collections.abc import Sequence

import pytest

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import EventKind, GpuEvent
from tests.gpu.devices.machines import FakeTime
from tests.gpu.devices.nvml.fake_driver import UNSUPPORTED
from tests.gpu.devices.nvml.machines import hgx_h100, one_h100, open_backend

XID, DOUBLE_BIT, MIG_CONFIG, CLOCK, UNAVAILABLE = 0x8, 0x2, 0x100, 0x10, 0x4000
LOST, RESET_REQUIRED, UNINITIALIZED, UNKNOWN = 15, 16, 1, 999


def test_waiting_events_come_at_once_and_in_order() -> None:
    driver = hgx_h100(2)
    first, second = (gpu.uuid for gpu in driver.gpus)
    driver.events = [(1, XID, 31), (0, DOUBLE_BIT, 0), (0, CLOCK, 0), (0, MIG_CONFIG, 0)]
    assert open_backend(driver).wait_events(60) == [
        GpuEvent(EventKind.XID, second, 31),
        GpuEvent(EventKind.ECC_UNCORRECTED, first),
        GpuEvent(EventKind.MIG_CHANGED, first),
    ]


def test_last_xid_is_part_of_the_measurements() -> None:
    driver, _ = one_h100()
    backend = open_backend(driver)
    assert backend.read_telemetry()[0].last_xid == 0
    driver.events = [(0, XID, 79), (0, XID, 13)]
    backend.wait_events(0)
    assert backend.read_telemetry()[0].last_xid == 13


def test_waiting_ends_with_its_time() -> None:
    driver, _ = one_h100()
    assert open_backend(driver).wait_events(0) == []
    assert driver.waits == [0]


def test_no_single_wait_is_long() -> None:
    """The driver cannot be closed for a reset while something waits in it."""
    driver, _ = one_h100()
    time = FakeTime()
    original = driver.c_nvmlEventSetWait_v2

    def wait(_set: object, out: object, milliseconds: object) -> int:
        code = original(_set, out, milliseconds)
        time.sleep(driver.waits[-1] / 1000)
        return code

    driver.c_nvmlEventSetWait_v2 = wait
    assert open_backend(driver, time=time).wait_events(1.75) == []
    assert driver.waits == [500, 500, 500, 250]


def test_event_set_is_made_once_for_the_same_devices() -> None:
    driver = hgx_h100(2)
    backend = open_backend(driver)
    for _ in range(3):
        backend.wait_events(0)
    assert driver.calls["nvmlEventSetCreate"] == 1
    driver.gpus.pop()
    backend.wait_events(0)
    assert (driver.calls["nvmlEventSetCreate"], driver.calls["nvmlEventSetFree"]) == (2, 1)


def test_event_set_of_a_closed_driver_is_not_freed() -> None:
    driver, _ = one_h100()
    backend = open_backend(driver)
    backend.wait_events(0)
    backend.close()
    backend.wait_events(0)
    assert driver.calls["nvmlEventSetCreate"] == 2
    assert not driver.calls["nvmlEventSetFree"]


def test_lost_device_is_reported_once() -> None:
    driver = hgx_h100(2)
    backend, time = open_backend(driver), FakeTime()
    backend.wait_events(0)
    backend = open_backend(driver, time=time)
    backend.wait_events(0)
    driver.fail("nvmlEventSetWait_v2", LOST)
    lost = driver.gpus[1]
    driver.fail("nvmlDeviceGetPowerUsage", LOST, times=1, skip=1)
    assert backend.wait_events(0) == [GpuEvent(EventKind.DEVICE_LOST, lost.uuid)]
    lost.is_lost = True
    before = time.now()
    assert backend.wait_events(3) == []
    assert time.now() - before == 3, "it does not spin"


def test_devices_without_events_are_waited_for_all_the_same() -> None:
    driver, _ = one_h100(event_types=UNSUPPORTED)
    time = FakeTime()
    before = time.now()
    assert open_backend(driver, time=time).wait_events(5) == []
    assert time.now() - before == 5


def test_reopened_driver_gets_a_new_event_set() -> None:
    driver, _ = one_h100()
    backend = open_backend(driver)
    backend.wait_events(0)
    driver.fail("nvmlEventSetWait_v2", UNINITIALIZED, times=1)
    with pytest.raises(GpuError):
        backend.wait_events(0)
    driver.events = [(0, XID, 43)]
    assert len(backend.wait_events(0)) == 1
    assert driver.calls["nvmlInitWithFlags"] == 2


def test_failure_of_waiting_is_told_and_passes() -> None:
    driver, _ = one_h100()
    backend = open_backend(driver)
    driver.fail("nvmlEventSetWait_v2", UNKNOWN, times=1)
    with pytest.raises(GpuError) as error:
        backend.wait_events(0)
    assert error.value.kind is GpuErrorKind.UNKNOWN
    assert backend.wait_events(0) == []


def test_reset_closes_the_driver_meanwhile() -> None:
    driver, gpu = one_h100()
    commands: list[tuple[Sequence[str], bool]] = []

    def run(command: Sequence[str], _seconds: float) -> tuple[int, str]:
        commands.append((command, driver.is_open))
        return 0, "GPU 00000000:18:00.0 was successfully reset."

    backend = open_backend(driver, run=run)
    backend.read_inventory()
    backend.reset(gpu.uuid)
    assert commands == [(("nvidia-smi", "--gpu-reset", "-i", gpu.uuid), False)]
    assert backend.read_inventory().devices
    assert driver.is_open


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("GPU 00000000:18:00.0 is currently in use by another process.", GpuErrorKind.IN_USE),
        ("The following GPUs could not be reset:\n  GPU 0: In use", GpuErrorKind.IN_USE),
        ("Unable to reset: Insufficient Permissions", GpuErrorKind.NO_PERMISSION),
        ("Resetting GPU 00000000:18:00.0 is not supported.", GpuErrorKind.NOT_SUPPORTED),
        ("No devices were found", GpuErrorKind.NOT_FOUND),
        ("GPU is lost. Reboot the system to recover this GPU", GpuErrorKind.DEVICE_LOST),
        ("something else", GpuErrorKind.UNKNOWN),
        ("", GpuErrorKind.UNKNOWN),
    ],
)
def test_failed_reset_says_why(output: str, kind: GpuErrorKind) -> None:
    driver, gpu = one_h100()
    backend = open_backend(driver, run=lambda _command, _seconds: (255, output))
    with pytest.raises(GpuError) as error:
        backend.reset(gpu.uuid)
    assert (error.value.kind, error.value.device) == (kind, gpu.uuid)
    assert backend.read_inventory().devices, "the driver is open again"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (TimeoutError(), GpuErrorKind.TIMEOUT),
        (FileNotFoundError(2, "No such file or directory"), GpuErrorKind.DRIVER_NOT_FOUND),
    ],
)
def test_reset_command_that_cannot_run(raised: Exception, kind: GpuErrorKind) -> None:
    def run(_command: Sequence[str], _seconds: float) -> tuple[int, str]:
        raise raised

    driver, gpu = one_h100()
    with pytest.raises(GpuError) as error:
        open_backend(driver, run=run).reset(gpu.uuid)
    assert error.value.kind is kind


def test_unknown_device_is_not_reset() -> None:
    driver, _ = one_h100()
    with pytest.raises(GpuError) as error:
        open_backend(driver).reset("GPU-x")
    assert error.value.kind is GpuErrorKind.NOT_FOUND
