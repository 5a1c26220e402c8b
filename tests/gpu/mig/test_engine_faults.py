"""Failures of every kind at every call, and crashes between any two effects."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.fault_injection import Fault, FaultyBackend, Operation
from kilonova.gpu.devices.model import MigInstance
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.gpu.mig.engine import MigEngine, RequestRefused
from kilonova.gpu.mig.execution.step_runner import StepFailed
from kilonova.gpu.mig.journal import Entry, Journal
from kilonova.gpu.mig.plan.planner import Target
from kilonova.gpu.mig.reservations import ReservedDevices
from tests.gpu.devices.machines import first_uuid, simulate
from tests.gpu.mig.engines import request, running_engine, slots

CHANGES: list[Operation] = ["set_mig_mode", "create_instance", "destroy_instance", "reset"]
USED = "3g.40gb@4"


def prepared(persona: str = "h100:1") -> tuple[SimulatedBackend, str, MigInstance]:
    """Two unused small instances, and a larger one with a process."""
    backend = simulate(persona)
    device = first_uuid(backend)
    backend.set_mig_mode(device, True)
    backend.create_instance(device, "1g.10gb", 0)
    backend.create_instance(device, "1g.10gb", 1)
    used = backend.create_instance(device, "3g.40gb", 4)
    backend.set_load(used.uuid, ProcessLoad(77, 0.9))
    return backend, device, used


def is_running(backend: SimulatedBackend, instance: MigInstance) -> bool:
    processes = [
        process
        for each in backend.read_telemetry()
        for process in each.processes
        if process.gpu_instance == instance.gpu_instance
    ]
    return [each.pid for each in processes] == [77]


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("kind", list(GpuErrorKind))
@pytest.mark.parametrize("operation", CHANGES)
async def test_failure_is_survived_by_the_next_attempt(
    tmp_path: Path, operation: Operation, kind: GpuErrorKind, after_effect: bool
) -> None:
    """Whatever fails, once and for long: the used instance stays, and `ensure` gets there."""
    if operation in ("set_mig_mode", "reset"):
        backend, used = simulate("a100-80:1"), None
        device = first_uuid(backend)
    else:
        backend, device, used = prepared()
    faulty = FaultyBackend(backend)
    wanted = [request(device, "2g.20gb@0")]
    holders = {"used": ReservedDevices((request(device, USED),))} if used else {}
    async with running_engine(faulty, tmp_path, holders=holders) as engine:
        faulty.inject(Fault(operation, kind, times=6, after_effect=after_effect))
        with contextlib.suppress(StepFailed, RequestRefused):
            await engine.ensure("pod", wanted)
        assert used is None or is_running(backend, used)
        faulty.clear()
        await engine.refresh()
        (instance,) = await engine.ensure("pod", wanted)
        assert instance in backend.read_inventory().devices[0].instances
        assert used is None or is_running(backend, used)
        states = {each.uuid: each.holder for each in engine.instances}
    there = {each.uuid for each in backend.read_inventory().devices[0].instances}
    assert states.keys() == there


@pytest.mark.parametrize("kind", list(GpuErrorKind))
async def test_inventory_that_cannot_be_read_keeps_the_engine_closed(
    tmp_path: Path, kind: GpuErrorKind
) -> None:
    backend, _, _ = prepared()
    faulty = FaultyBackend(backend)
    faulty.inject(Fault("read_inventory", kind))
    with pytest.raises(GpuError):
        await MigEngine(faulty, tmp_path).open()
    async with running_engine(faulty, tmp_path) as engine:  # the lock was given back
        assert len(engine.instances) == 3


@pytest.mark.parametrize("kind", list(GpuErrorKind))
async def test_processes_that_cannot_be_read_are_protected_by_the_driver(
    tmp_path: Path, kind: GpuErrorKind
) -> None:
    backend, device, used = prepared()
    faulty = FaultyBackend(backend)
    async with running_engine(faulty, tmp_path) as engine:
        faulty.inject(Fault("read_telemetry", kind, times=None))
        with pytest.raises(StepFailed, match="InUse"):
            await engine.ensure("pod", [request(device, "2g.20gb@4")])
    assert is_running(backend, used)


async def test_device_lost_in_the_middle_of_a_repack(tmp_path: Path) -> None:
    backend = simulate("h100:2")
    first, second = (each.uuid for each in backend.read_inventory().devices)
    for device in (first, second):
        backend.set_mig_mode(device, True)
        backend.create_instance(device, "1g.10gb", 0)
        backend.create_instance(device, "1g.10gb", 4)

    class LosesFirst(FaultyBackend):
        def destroy_instance(self, device: str, instance: str) -> None:
            super().destroy_instance(device, instance)
            if device == first:
                backend.lose(first)

    held = {"pod": ReservedDevices((request(first, "1g.10gb@4"),))}
    async with running_engine(LosesFirst(backend), tmp_path, holders=held) as engine:
        targets = {each: Target(stock=("2g.20gb",), is_exact=True) for each in (first, second)}
        lost, done = await engine.apply(targets)
        assert "DeviceLost" in lost.failure
        assert lost.planned
        assert not done.failure
        assert slots(backend, second) == ["2g.20gb@4"]
        with pytest.raises(RequestRefused, match="DeviceUnhealthy"):
            await engine.ensure("pod", held["pod"].slots)
        backend.reset(first)
        await engine.refresh()
        # The reservation has survived, and the device goes on.
        await engine.ensure("pod", held["pod"].slots)
        await engine.apply(targets)
        assert sorted(slots(backend, first)) == ["1g.10gb@4", "2g.20gb@0"]


class Crash(BaseException):
    """The process ends here."""


class CrashPoint:
    """Ends the process before the effect with this number."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.passed = 0

    def pass_effect(self) -> None:
        if self.passed == self.at:
            raise Crash
        self.passed += 1


class CrashingBackend(FaultyBackend):
    """Each change of a device is an effect."""

    def __init__(self, backend: SimulatedBackend, point: CrashPoint) -> None:
        super().__init__(backend)
        self._point = point

    def _call(self, operation, device, run):  # pyright: ignore  # as declared there
        if operation in CHANGES:
            self._point.pass_effect()
        return super()._call(operation, device, run)


def crash_while_writing(monkeypatch: pytest.MonkeyPatch, point: CrashPoint) -> None:
    write: Callable[[Journal, list[Entry]], None] = Journal._write

    def crashing(journal: Journal, entries: list[Entry]) -> None:
        point.pass_effect()
        write(journal, entries)

    monkeypatch.setattr(Journal, "_write", crashing)


EFFECTS = 13


@pytest.mark.parametrize("is_pod_there", [True, False])
@pytest.mark.parametrize("at", range(EFFECTS))
async def test_crash_between_any_two_effects_leaks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, is_pod_there: bool
) -> None:
    backend, device, used = prepared()
    wanted = (request(device, "2g.20gb@0"), request(device, "1g.10gb@2"))
    holders = {"used": ReservedDevices((request(device, USED),))}
    async with running_engine(backend, tmp_path, holders=holders):
        pass
    point = CrashPoint(at)
    with monkeypatch.context() as patch:
        crash_while_writing(patch, point)
        try:
            crashing = CrashingBackend(backend, point)
            async with running_engine(crashing, tmp_path, holders=holders) as engine:
                await engine.ensure("pod", wanted)
        except Crash:
            pass
        else:
            pytest.fail(f"the scenario has only {point.passed} effects")
    assert is_running(backend, used)
    now = dict(holders)
    if is_pod_there:
        now["pod"] = ReservedDevices(wanted)
    async with running_engine(backend, tmp_path, holders=now) as engine:
        if is_pod_there:
            assert len(await engine.ensure("pod", wanted)) == 2
        await engine.apply({device: Target(is_exact=True)})
    assert is_running(backend, used)
    expected = [USED, *(["2g.20gb@0", "1g.10gb@2"] if is_pod_there else [])]
    assert sorted(slots(backend, device)) == sorted(expected)
    engine = MigEngine(backend, tmp_path)
    restored = await engine.open()
    engine.close()
    assert not restored.unfinished
    assert not restored.missing
    assert {each.holder for each in restored.adopted} == set(now)


async def test_crash_scenario_has_that_many_effects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the crashes above are all that there are."""
    backend, device, _ = prepared()
    holders = {"used": ReservedDevices((request(device, USED),))}
    async with running_engine(backend, tmp_path, holders=holders):
        pass
    point = CrashPoint(-1)
    crash_while_writing(monkeypatch, point)
    crashing = CrashingBackend(backend, point)
    async with running_engine(crashing, tmp_path, holders=holders) as engine:
        await engine.ensure("pod", (request(device, "2g.20gb@0"), request(device, "1g.10gb@2")))
    assert point.passed == EFFECTS
