"""Calls in threads: their results, their limits, and what hangs."""

import asyncio
import threading
from pathlib import Path

import pytest

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import MigInstance
from kilonova.gpu.devices.simulated import SimulatedBackend
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution import step_runner
from kilonova.gpu.mig.execution.device_calls import ThreadCalls
from kilonova.gpu.mig.execution.step_runner import StepFailed
from tests.gpu.devices.machines import first_uuid, simulate
from tests.gpu.mig.engines import Waits, request, slots

PATIENCE = 30.0
"""Seconds to wait for threads, which a busy machine may delay."""


async def test_results_and_failures_come_back() -> None:
    calls = ThreadCalls()
    assert await calls.run("gpu", "read", threading.get_ident, PATIENCE) != threading.get_ident()

    def fail() -> None:
        raise GpuError(GpuErrorKind.IN_USE, "destroy")

    with pytest.raises(GpuError, match="InUse"):
        await calls.run("gpu", "destroy", fail, PATIENCE)


async def test_device_with_a_hanging_call_is_left_alone_until_it_returns() -> None:
    calls = ThreadCalls()
    release = threading.Event()
    with pytest.raises(GpuError, match=r"no answer within 0\.01 s"):
        await calls.run("gpu", "create", lambda: release.wait(60), 0.01)
    with pytest.raises(GpuError, match="has not returned from create"):
        await calls.run("gpu", "destroy", lambda: None, PATIENCE)
    assert await calls.run("other", "read", lambda: 3, PATIENCE) == 3
    release.set()
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                assert await calls.run("gpu", "read", lambda: 4, PATIENCE) == 4
                return
            except GpuError:
                await asyncio.sleep(0.001)


class Hanging(SimulatedBackend):
    """Creates an instance, and returns when it is told to."""

    release = threading.Event()

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        created = super().create_instance(device, profile, start)
        self.release.wait(60)
        return created


async def test_step_that_was_done_after_its_limit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver hangs after the effect: the device is read, and the instance is there."""
    # Within the limit the thread must have started and created the instance.
    monkeypatch.setattr(step_runner, "TIME_LIMITS", {**step_runner.TIME_LIMITS, "create": 0.5})
    machine = simulate().read_inventory()
    backend = Hanging(machine, durations=simulate()._durations)
    device = first_uuid(backend)
    engine = MigEngine(backend, tmp_path, sleep=Waits().sleep)
    await engine.open()
    await engine.reconcile({})
    try:
        (instance,) = await engine.ensure("pod", [request(device, "1g.10gb@0")])
        assert instance.profile == "1g.10gb"
        # The device is busy for the driver still.
        with pytest.raises(StepFailed, match="has not returned from create"):
            await engine.ensure("pod2", [request(device, "1g.10gb@1")])
    finally:
        backend.release.set()
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await engine.ensure("pod2", [request(device, "1g.10gb@1")])
                break
            except StepFailed:
                await asyncio.sleep(0.001)
    engine.close()
    assert slots(backend, device) == ["1g.10gb@0", "1g.10gb@1"]


async def test_effect_that_comes_after_the_limit_is_found_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_runner, "TIME_LIMITS", {**step_runner.TIME_LIMITS, "create": 0.05})
    release, done = threading.Event(), threading.Event()

    class Late(SimulatedBackend):
        def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
            release.wait(60)
            created = super().create_instance(device, profile, start)
            done.set()
            return created

    backend = Late(simulate().read_inventory(), durations=simulate()._durations)
    device = first_uuid(backend)
    engine = MigEngine(backend, tmp_path, sleep=Waits().sleep)
    await engine.open()
    await engine.reconcile({})
    with pytest.raises(StepFailed, match="Timeout"):
        await engine.ensure("pod", [request(device, "1g.10gb@0")])
    release.set()
    await asyncio.to_thread(done.wait, 60)
    (instance,) = await engine.ensure("pod", [request(device, "1g.10gb@0")])
    assert backend.read_inventory().devices[0].instances == (instance,)
    engine.close()


async def test_devices_change_at_the_same_time(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=PATIENCE)

    class Meeting(SimulatedBackend):
        def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
            both.wait()
            return super().create_instance(device, profile, start)

    backend = Meeting(simulate("h100:2").read_inventory(), durations=simulate()._durations)
    one, two = (each.uuid for each in backend.read_inventory().devices)
    engine = MigEngine(backend, tmp_path)
    await engine.open()
    await engine.reconcile({})
    found = await engine.ensure("pod", [request(one, "1g.10gb@0"), request(two, "1g.10gb@0")])
    engine.close()
    assert len(found) == 2
