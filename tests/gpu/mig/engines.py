"""MIG engines on simulated devices for tests."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from kilonova.catalog.mig import Slot
from kilonova.gpu.devices.backend import GpuBackend
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution.device_calls import InlineCalls
from kilonova.gpu.mig.reservations import ReservedDevices, SlotRequest
from kilonova.gpu.mig.states import StateChange

NOBODY: Mapping[str, ReservedDevices] = {}


class Waits:
    """Waiting that takes no time, and says how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@asynccontextmanager
async def running_engine(
    backend: GpuBackend,
    folder: Path,
    *,
    holders: Mapping[str, ReservedDevices] | None = NOBODY,
    changes: list[StateChange] | None = None,
    waits: Waits | None = None,
    may_reset: bool = True,
) -> AsyncGenerator[MigEngine]:
    """An open engine that knows the holders; with None, it does not know them yet."""
    report = (lambda change: None) if changes is None else changes.append
    sleep = (waits or Waits()).sleep
    engine = MigEngine(
        backend, folder, calls=InlineCalls(), report=report, sleep=sleep, may_reset=may_reset
    )
    await engine.open()
    try:
        if holders is not None:
            await engine.reconcile(holders)
        yield engine
    finally:
        engine.close()


def request(device: str, text: str) -> SlotRequest:
    """A slot of a device: `1g.10gb@3`."""
    profile, _, start = text.partition("@")
    return SlotRequest(device, Slot(profile, int(start)))


def slots(backend: GpuBackend, device: str) -> list[str]:
    """The instances of a device: `1g.10gb@3`."""
    found = backend.read_inventory().find(device)
    assert found is not None
    return [f"{each.profile}@{each.start}" for each in found.instances if not each.is_partial]
