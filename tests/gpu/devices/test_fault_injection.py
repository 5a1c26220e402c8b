"""A faulty backend fails the calls that it is told to, and no others."""

from collections.abc import Callable
from random import Random

import pytest

from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.devices.errors import RETRIABLE, GpuError, GpuErrorKind
from kilonova.gpu.devices.fault_injection import CHANGES, READINGS, Fault, FaultyBackend, Operation
from tests.gpu.devices.machines import first_uuid, simulate

CALLS: dict[Operation, Callable[[GpuBackend, str], object]] = {
    "read_inventory": lambda backend, _: backend.read_inventory(),
    "read_telemetry": lambda backend, _: backend.read_telemetry(),
    "wait_events": lambda backend, _: backend.wait_events(0),
    "set_mig_mode": lambda backend, uuid: backend.set_mig_mode(uuid, True),
    "create_instance": lambda backend, uuid: backend.create_instance(uuid, "1g.10gb", 0),
    "destroy_instance": lambda backend, uuid: backend.destroy_instance(uuid, "MIG-x"),
    "set_exclusive_process_mode": lambda backend, uuid: backend.set_exclusive_process_mode(
        uuid, False
    ),
    "reset": lambda backend, uuid: backend.reset(uuid),
    "close": lambda backend, _: backend.close(),
}


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("kind", GpuErrorKind)
def test_each_operation_fails_with_each_kind(operation: Operation, kind: GpuErrorKind) -> None:
    inner = simulate()
    uuid = first_uuid(inner)
    backend = FaultyBackend(inner)
    backend.inject(Fault(operation, kind))
    with pytest.raises(GpuError) as error:
        CALLS[operation](backend, uuid)
    assert (error.value.kind, error.value.operation) == (kind, operation)
    assert error.value.is_retriable is (kind in RETRIABLE)
    assert backend.pending == ()
    assert backend.calls == [
        (operation, uuid if operation in CHANGES else ""),
    ]


def test_operations_are_complete() -> None:
    assert set(CALLS) == {*CHANGES, *READINGS, "close"}


def test_fault_ends_after_so_many_calls() -> None:
    backend = FaultyBackend(simulate())
    backend.inject(Fault("read_inventory", GpuErrorKind.UNKNOWN, times=2))
    for _ in range(2):
        with pytest.raises(GpuError):
            backend.read_inventory()
    assert backend.read_inventory().devices


def test_failure_before_the_effect_changes_nothing() -> None:
    backend = FaultyBackend(simulate())
    uuid = backend.read_inventory().devices[0].uuid
    backend.inject(Fault("set_mig_mode", GpuErrorKind.TIMEOUT))
    with pytest.raises(GpuError):
        backend.set_mig_mode(uuid, True)
    assert not backend.read_inventory().devices[0].mig_enabled


def test_failure_after_the_effect_has_made_the_change() -> None:
    backend = FaultyBackend(simulate())
    uuid = backend.read_inventory().devices[0].uuid
    backend.inject(Fault("set_mig_mode", GpuErrorKind.TIMEOUT, after_effect=True))
    with pytest.raises(GpuError):
        backend.set_mig_mode(uuid, True)
    assert backend.read_inventory().devices[0].mig_enabled


def test_fault_of_one_device_spares_the_others() -> None:
    backend = FaultyBackend(simulate("h100:2"))
    first, second = (device.uuid for device in backend.read_inventory().devices)
    backend.inject(Fault("reset", GpuErrorKind.IN_USE, device=second, times=None))
    backend.reset(first)
    for _ in range(3):
        with pytest.raises(GpuError):
            backend.reset(second)
    backend.clear()
    backend.reset(second)


def test_probability_is_determined_by_the_seed() -> None:
    def failures(seed: int) -> list[bool]:
        backend = FaultyBackend(simulate(), Random(seed))
        backend.inject(Fault("close", GpuErrorKind.UNKNOWN, times=None, probability=0.3))
        found: list[bool] = []
        for _ in range(200):
            try:
                backend.close()
                found.append(False)
            except GpuError:
                found.append(True)
        return found

    assert failures(4) == failures(4)
    assert failures(4) != failures(5)
    assert 30 < sum(failures(4)) < 90
