"""MIG through NVML: mode, creation, destruction, and what is undone when one of its steps fails."""

from collections.abc import Callable

import pytest

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.nvml import NvmlBackend
from kilonova.gpu.devices.nvml.session import KINDS
from tests.gpu.devices.nvml.fake_driver import UNSUPPORTED, FakeDriver, FakeGpu, Process
from tests.gpu.devices.nvml.machines import a100_board, one_h100, open_backend, recorded_h200

IN_USE, TIMEOUT = 19, 10


def mig_device() -> tuple[FakeDriver, FakeGpu, NvmlBackend]:
    driver, gpu = one_h100(mig=(1, 1))
    return driver, gpu, open_backend(driver)


def state_of(gpu: FakeGpu) -> list[tuple[str, int, int | None]]:
    return sorted((profile.name, start, ci) for profile, start, ci in gpu.instances.values())


def test_recorded_h200_is_divided_and_restored() -> None:
    driver = recorded_h200()
    (gpu,) = driver.gpus
    backend = open_backend(driver)
    backend.set_mig_mode(gpu.uuid, True)
    created = [
        backend.create_instance(gpu.uuid, profile, start)
        for profile, start in (("3g.71gb", 4), ("2g.35gb", 0), ("1g.18gb+me", 2))
    ]
    listed = backend.read_inventory().devices[0].instances
    assert set(listed) == set(created)
    assert [each.profile for each in listed] == ["2g.35gb", "1g.18gb+me", "3g.71gb"]
    for each in created:
        backend.destroy_instance(gpu.uuid, each.uuid)
    backend.set_mig_mode(gpu.uuid, False)
    assert (gpu.mig, gpu.instances) == ((0, 0), {})


def test_mode_that_is_set_is_not_set_again() -> None:
    driver, gpu = one_h100(mig=(1, 1))
    open_backend(driver).set_mig_mode(gpu.uuid, True)
    assert not driver.calls["nvmlDeviceSetMigMode"]


def test_ampere_mode_waits_for_a_reset() -> None:
    driver = a100_board()
    gpu = driver.gpus[0]
    with pytest.raises(GpuError, match="pending until a reset") as error:
        open_backend(driver).set_mig_mode(gpu.uuid, True)
    assert error.value.kind is GpuErrorKind.RESET_REQUIRED
    assert error.value.device == gpu.uuid
    assert gpu.mig == (0, 1)
    open_backend(driver).set_mig_mode(gpu.uuid, False)
    assert gpu.mig == (0, 0), "a pending mode can be taken back"


def test_used_device_keeps_its_mode() -> None:
    driver, gpu = one_h100(processes=[Process(4711)])
    with pytest.raises(GpuError, match="processes 4711") as error:
        open_backend(driver).set_mig_mode(gpu.uuid, True)
    assert error.value.kind is GpuErrorKind.IN_USE
    assert gpu.mig == (0, 0)


def test_mode_that_cannot_be_activated_is_taken_back() -> None:
    """The process starts between the check and the change."""
    driver, gpu = one_h100(processes=[Process(4711)])
    driver.fail("nvmlDeviceGetComputeRunningProcesses_v3", 3)
    with pytest.raises(GpuError, match="activation failed") as error:
        open_backend(driver).set_mig_mode(gpu.uuid, True)
    assert error.value.kind is GpuErrorKind.IN_USE
    assert gpu.mig == (0, 0)


def test_mode_stays_while_instances_exist() -> None:
    _, gpu, backend = mig_device()
    backend.create_instance(gpu.uuid, "1g.10gb", 0)
    with pytest.raises(GpuError, match="instances exist") as error:
        backend.set_mig_mode(gpu.uuid, False)
    assert error.value.kind is GpuErrorKind.IN_USE


def test_device_without_mig_says_so() -> None:
    driver, gpu = one_h100(mig=UNSUPPORTED)
    with pytest.raises(GpuError) as error:
        open_backend(driver).set_mig_mode(gpu.uuid, True)
    assert error.value.kind is GpuErrorKind.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("profile", "start", "kind", "message"),
    [
        ("1g.5gb", 0, GpuErrorKind.INVALID_REQUEST, "no profile 1g.5gb, but 1g.10gb, "),
        ("3g.40gb", 2, GpuErrorKind.INVALID_REQUEST, "3g.40gb starts at 0, 4, not 2"),
        ("2g.20gb", 2, GpuErrorKind.INSUFFICIENT_RESOURCES, "nvmlDeviceCreateGpuInstance"),
        ("1g.10gb+me", 6, GpuErrorKind.INSUFFICIENT_RESOURCES, "WithPlacement"),
    ],
)
def test_impossible_instance_is_refused(
    profile: str, start: int, kind: GpuErrorKind, message: str
) -> None:
    _, gpu, backend = mig_device()
    backend.create_instance(gpu.uuid, "1g.10gb+me", 3)
    with pytest.raises(GpuError, match=message) as error:
        backend.create_instance(gpu.uuid, profile, start)
    assert (error.value.kind, error.value.device) == (kind, gpu.uuid)
    assert state_of(gpu) == [("MIG 1g.10gb+me", 3, 0)]


def test_instance_needs_mig_mode() -> None:
    driver, gpu = one_h100()
    with pytest.raises(GpuError, match="MIG mode is disabled") as error:
        open_backend(driver).create_instance(gpu.uuid, "1g.10gb", 0)
    assert error.value.kind is GpuErrorKind.NOT_SUPPORTED


@pytest.mark.parametrize(
    "profile", ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
)
def test_compute_instance_has_all_of_its_gpu_instance(profile: str) -> None:
    _, gpu, backend = mig_device()
    created = backend.create_instance(gpu.uuid, profile, 0)
    assert created.compute_instance == 0
    assert created.uuid == gpu.mig_uuid(created.gpu_instance)


def test_used_instance_is_not_destroyed() -> None:
    _, gpu, backend = mig_device()
    created = backend.create_instance(gpu.uuid, "2g.20gb", 4)
    gpu.processes.append(Process(99, gpu_instance=created.gpu_instance))
    with pytest.raises(GpuError) as error:
        backend.destroy_instance(gpu.uuid, created.uuid)
    assert error.value.kind is GpuErrorKind.IN_USE
    assert state_of(gpu) == [("MIG 2g.20gb", 4, 0)]


def test_destroyed_instance_is_not_found() -> None:
    _, gpu, backend = mig_device()
    with pytest.raises(GpuError, match="no MIG-x") as error:
        backend.destroy_instance(gpu.uuid, "MIG-x")
    assert error.value.kind is GpuErrorKind.NOT_FOUND


def test_partial_instance_is_listed_and_destroyed() -> None:
    _, gpu, backend = mig_device()
    gpu.instances[5] = [gpu.profiles[3], 0, None]
    (partial,) = backend.read_inventory().devices[0].instances
    assert partial.is_partial
    backend.destroy_instance(gpu.uuid, partial.uuid)
    assert gpu.instances == {}


def test_creation_that_cannot_be_undone_is_a_timeout() -> None:
    driver, gpu, backend = mig_device()
    driver.fail("nvmlGpuInstanceCreateComputeInstance", 23)
    driver.fail("nvmlGpuInstanceDestroy", IN_USE)
    with pytest.raises(GpuError, match="undoing it") as error:
        backend.create_instance(gpu.uuid, "1g.10gb", 0)
    assert error.value.kind is GpuErrorKind.TIMEOUT
    driver.stop_failing()
    (left,) = backend.read_inventory().devices[0].instances
    assert left.is_partial


def test_destruction_that_stops_halfway_is_undone() -> None:
    driver, gpu, backend = mig_device()
    created = backend.create_instance(gpu.uuid, "3g.40gb", 4)
    driver.fail("nvmlGpuInstanceDestroy", IN_USE)
    with pytest.raises(GpuError) as error:
        backend.destroy_instance(gpu.uuid, created.uuid)
    assert error.value.kind is GpuErrorKind.IN_USE
    assert backend.read_inventory().devices[0].instances == (created,)


def test_destruction_that_cannot_be_undone_is_a_timeout() -> None:
    driver, gpu, backend = mig_device()
    created = backend.create_instance(gpu.uuid, "3g.40gb", 4)
    driver.fail("nvmlGpuInstanceDestroy", IN_USE)
    driver.fail("nvmlGpuInstanceCreateComputeInstance", 999)
    with pytest.raises(GpuError) as error:
        backend.destroy_instance(gpu.uuid, created.uuid)
    assert error.value.kind is GpuErrorKind.TIMEOUT


Change = Callable[[NvmlBackend, str], object]


def _calls_of(change: Change, existing: str = "") -> list[str]:
    driver, gpu, backend = mig_device()
    if existing:
        backend.create_instance(gpu.uuid, existing, 0)
    driver.calls.clear()
    change(backend, gpu.uuid)
    return [name for name in driver.calls if name.startswith("nvml")]


def _create(backend: NvmlBackend, uuid: str) -> object:
    return backend.create_instance(uuid, "2g.20gb", 2)


def _destroy(backend: NvmlBackend, uuid: str) -> object:
    instance = FakeGpu(uuid).mig_uuid(1)
    return backend.destroy_instance(uuid, instance)


def _disable(backend: NvmlBackend, uuid: str) -> object:
    return backend.set_mig_mode(uuid, False)


CODES = [code for code in KINDS if code]


def failure_of(change: Change, backend: NvmlBackend, uuid: str) -> GpuError | None:
    """The error with which a change failed; any other exception is a failure of the test."""
    try:
        change(backend, uuid)
    except GpuError as error:
        return error
    return None


@pytest.mark.parametrize("function", _calls_of(_create))
def test_creation_fails_wholly_at_each_call_with_each_error(function: str) -> None:
    for code in CODES:
        for skip in (0, 1):
            driver, gpu, backend = mig_device()
            driver.fail(function, code, times=1, skip=skip)
            error = failure_of(_create, backend, gpu.uuid)
            expected = [("MIG 2g.20gb", 2, 0)] if error is None else []
            assert state_of(gpu) == expected, f"{function} {code}: {error}"
            assert error is None or error.device == gpu.uuid


@pytest.mark.parametrize("function", _calls_of(_destroy, "1g.10gb"))
def test_destruction_fails_wholly_at_each_call_with_each_error(function: str) -> None:
    for code in CODES:
        driver, gpu, backend = mig_device()
        backend.create_instance(gpu.uuid, "1g.10gb", 0)
        driver.fail(function, code, times=1)
        error = failure_of(_destroy, backend, gpu.uuid)
        expected = [] if error is None else [("MIG 1g.10gb", 0, 0)]
        assert state_of(gpu) == expected, f"{function} {code}: {error}"


@pytest.mark.parametrize("function", _calls_of(_disable))
def test_mode_fails_wholly_at_each_call_with_each_error(function: str) -> None:
    for code in CODES:
        driver, gpu, backend = mig_device()
        driver.fail(function, code, times=1)
        error = failure_of(_disable, backend, gpu.uuid)
        assert gpu.mig == ((0, 0) if error is None else (1, 1)), f"{function} {code}"
        assert error is None or error.kind is KINDS[code]


@pytest.mark.parametrize("enabled", [True, False])
def test_compute_mode_is_set_once(enabled: bool) -> None:
    driver, gpu = one_h100(compute_mode=0 if enabled else 3)
    backend = open_backend(driver)
    for _ in range(2):
        backend.set_exclusive_process_mode(gpu.uuid, enabled)
    assert gpu.compute_mode == (3 if enabled else 0)
    assert driver.calls["nvmlDeviceSetComputeMode"] == 1
