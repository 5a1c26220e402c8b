"""Each error of NVML at each call: a `GpuError` of the right kind, or a device that is described
as far as it can be."""

import threading
from collections.abc import Callable

import pynvml
import pytest

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import HealthState
from kilonova.gpu.devices.nvml import NvmlBackend
from kilonova.gpu.devices.nvml.library import load_library
from kilonova.gpu.devices.nvml.session import ABSENT, KINDS
from tests.gpu.devices.nvml.fake_driver import FakeDriver, Process
from tests.gpu.devices.nvml.machines import hgx_h100, open_backend
from tests.harness.campaigns import select_cases

DRIVER = [code for code, kind in KINDS.items() if kind is GpuErrorKind.DRIVER_NOT_FOUND]
ALL_CODES = [code for code in KINDS if code]
ALWAYS = [3, 15, 16, 18, 999]
"""Not supported, lost, in need of a reset, another driver, unknown."""
CODES = [*ALWAYS, *select_cases([code for code in ALL_CODES if code not in ALWAYS], 6)]


def busy_machine() -> FakeDriver:
    driver = hgx_h100(2)
    driver.gpus[0].gpm = {2: 50.0}
    driver.gpus[0].processes = [Process(7, 1 << 20, 20)]
    driver.gpus[1].mig = (1, 1)
    driver.gpus[1].instances = {2: [driver.gpus[1].profiles[4], 0, 0]}
    return driver


def _calls_of(read: Callable[[NvmlBackend], object]) -> list[str]:
    driver = busy_machine()
    read(open_backend(driver))
    return [name for name in driver.calls if name != "nvmlErrorString"]


def _inventory(backend: NvmlBackend) -> object:
    return backend.read_inventory()


def _telemetry(backend: NvmlBackend) -> object:
    return backend.read_telemetry()


def _events(backend: NvmlBackend) -> object:
    return backend.wait_events(0)


def failure_of(read: Callable[[NvmlBackend], object], backend: NvmlBackend) -> GpuError | None:
    try:
        read(backend)
    except GpuError as error:
        return error
    return None


def test_all_errors_of_the_library_are_known() -> None:
    names = {name for name in vars(pynvml) if name.startswith("NVML_ERROR_")}
    assert {getattr(pynvml, name) for name in names} | {0} == set(KINDS)


@pytest.mark.campaign
@pytest.mark.parametrize("function", _calls_of(_inventory))
def test_inventory_lists_all_devices_whatever_fails(function: str) -> None:
    for code in CODES:
        driver = busy_machine()
        backend = open_backend(driver)
        before = backend.read_inventory()
        backend.close()
        driver.fail(function, code)
        error = failure_of(_inventory, backend)
        if error is None:
            after = backend.read_inventory()
            assert [each.uuid for each in after.devices] == [each.uuid for each in before.devices]
            usable = [each.health.state is HealthState.HEALTHY for each in after.devices]
            assert all(usable) or code not in ABSENT or function in _REQUIRED, (function, code)
        else:
            assert error.kind is KINDS[code]
            assert code in DRIVER or function in _OF_THE_DRIVER, (function, code, str(error))
        driver.stop_failing()
        assert backend.read_inventory() == before, f"after {function} {code}"


_OF_THE_DRIVER = {
    "nvmlInitWithFlags",
    "nvmlDeviceGetCount_v2",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
}
_REQUIRED = {
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlGpuInstanceGetInfo",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetComputeInstanceId",
}


@pytest.mark.campaign
@pytest.mark.parametrize("read", [_telemetry, _events])
def test_other_readings_raise_their_own_errors_alone(read: Callable[[NvmlBackend], object]) -> None:
    for function in _calls_of(read):
        for code in CODES:
            driver = busy_machine()
            backend = open_backend(driver)
            driver.fail(function, code, times=1)
            error = failure_of(read, backend)
            assert error is None or error.kind is KINDS[code], (function, code)
            driver.stop_failing()
            assert failure_of(read, backend) is None, f"after {function} {code}"


@pytest.mark.parametrize(
    ("code", "hint"),
    [(9, "load the NVIDIA driver"), (12, "install the NVIDIA driver"), (18, "was updated")],
)
def test_missing_driver_says_what_to_do(code: int, hint: str) -> None:
    driver = busy_machine()
    driver.fail("nvmlInitWithFlags", code)
    error = failure_of(_inventory, open_backend(driver))
    assert error is not None
    assert error.kind is GpuErrorKind.DRIVER_NOT_FOUND
    assert hint in str(error)


def test_machine_without_driver_has_no_library() -> None:
    error = failure_of(_inventory, NvmlBackend(library=load_library()))
    if error is None:
        pytest.skip("this machine has an NVIDIA driver")
    assert error.kind is GpuErrorKind.DRIVER_NOT_FOUND


def test_other_calls_wait_for_a_reset() -> None:
    driver = hgx_h100(2)
    in_reset, end_reset, done = threading.Event(), threading.Event(), threading.Event()

    def run(_command: object, _seconds: float) -> tuple[int, str]:
        in_reset.set()
        assert end_reset.wait(10)
        assert not driver.is_open
        return 0, ""

    backend = open_backend(driver, run=run)
    backend.read_inventory()

    def read() -> None:
        backend.read_telemetry()
        done.set()

    threads = [
        threading.Thread(target=backend.reset, args=(driver.gpus[0].uuid,)),
        threading.Thread(target=read),
    ]
    threads[0].start()
    assert in_reset.wait(60)
    threads[1].start()
    assert not done.wait(0.05)
    end_reset.set()
    for thread in threads:
        thread.join(60)
    assert done.is_set()
