"""Random pods, failures and crashes for a long time: nothing in use is touched, nothing leaks.

A run is determined by its seed (`KILONOVA_SEED`); `make faults` does more of them.
"""

import contextlib
import os
from pathlib import Path
from random import Random

import pytest

from kilonova.catalog.mig import Slot
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.fault_injection import CHANGES, Fault, FaultyBackend
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.gpu.mig.engine import MigEngine, RequestRefused
from kilonova.gpu.mig.execution.device_calls import InlineCalls
from kilonova.gpu.mig.execution.step_runner import StepFailed
from kilonova.gpu.mig.journal import Entry, Journal
from kilonova.gpu.mig.plan.planner import Target
from kilonova.gpu.mig.reservations import ReservedDevices, SlotRequest
from tests.gpu.devices.machines import simulate
from tests.gpu.mig.engines import Waits
from tests.harness.campaigns import IS_FULL, SEED

pytestmark = pytest.mark.campaign

RUNS = int(os.environ.get("KILONOVA_FAULT_RUNS", "200" if IS_FULL else "20"))
EVENTS = 80
EVENT_NAMES = ("add_pod", "add_pod", "end_pod", "change_stock", "meddle", "inject")


class Crash(BaseException):
    """The process of the engine ends."""


class Node:
    """A machine with pods; the engine on it fails and crashes."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.random = Random(seed)
        persona = self.random.choice(["h100:2", "h200:2", "b200:1"])
        self.hardware: SimulatedBackend = simulate(persona)
        self.backend = FaultyBackend(self.hardware, self.random)
        self.folder = folder
        self.pods: dict[str, ReservedDevices] = {}
        self.engine: MigEngine | None = None
        self._count = 0
        self._effects_to_crash = 0
        self._patch(monkeypatch)

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write = Journal._write

        def crashing(journal: Journal, entries: list[Entry]) -> None:
            self._pass_effect()
            write(journal, entries)
            self._pass_effect()

        monkeypatch.setattr(Journal, "_write", crashing)

    def _pass_effect(self) -> None:
        if self._effects_to_crash:
            self._effects_to_crash -= 1
            if not self._effects_to_crash:
                raise Crash

    async def start(self) -> MigEngine:
        """A new engine takes over."""
        self.engine = MigEngine(self.backend, self.folder, calls=InlineCalls(), sleep=Waits().sleep)
        await self.engine.open()
        await self.engine.reconcile(self.pods)
        return self.engine

    def existing(self) -> set[SlotRequest]:
        """The slots that have an instance."""
        return {
            SlotRequest(device.uuid, Slot(instance.profile, instance.start))
            for device in self.hardware.read_inventory().devices
            for instance in device.instances
        }

    def assigned(self) -> set[SlotRequest]:
        """The slots of pods that exist."""
        return {slot for holding in self.pods.values() for slot in holding.slots}

    def running(self) -> dict[int, tuple[int, int]]:
        """The processes by pid: device and GPU instance."""
        return {
            process.pid: (index, -1 if process.gpu_instance is None else process.gpu_instance)
            for index, each in enumerate(self.hardware.read_telemetry())
            for process in each.processes
        }

    async def add_pod(self) -> None:
        """A pod with a random slot: it runs as soon as it has its instance."""
        assert self.engine is not None
        device = self.random.choice(self.hardware.read_inventory().devices)
        assert device.geometry is not None
        profile = self.random.choice(device.geometry.profiles)
        slot = Slot(profile.name, self.random.choice(profile.starts))
        self._count += 1
        name = f"pod-{self._count}"
        wanted = ReservedDevices((SlotRequest(device.uuid, slot),))
        try:
            (instance,) = await self.engine.ensure(name, wanted.slots)
        except RequestRefused:
            await self.engine.release(name)
            return
        except StepFailed:
            self.pods[name] = wanted  # it waits: its instance is made later
            return
        self.pods[name] = wanted
        self.hardware.set_load(instance.uuid, ProcessLoad(1000 + self._count, 0.5))

    async def end_pod(self) -> None:
        if not self.pods:
            return
        assert self.engine is not None
        name = self.random.choice(list(self.pods))
        pid = 1000 + int(name.partition("-")[2])
        wanted = self.pods.pop(name)
        if pid in self.running():
            for each in self.hardware.read_inventory().devices:
                for instance in each.instances:
                    slot = Slot(instance.profile, instance.start)
                    if SlotRequest(each.uuid, slot) in wanted.slots:
                        self.hardware.set_load(instance.uuid)
        await self.engine.release(name)

    async def change_stock(self) -> None:
        assert self.engine is not None
        targets: dict[str, Target] = {}
        for device in self.hardware.read_inventory().devices:
            assert device.geometry is not None
            names = [profile.name for profile in device.geometry.profiles]
            stock = tuple(self.random.choices(names, k=self.random.randrange(4)))
            targets[device.uuid] = Target(stock=stock, is_exact=self.random.random() < 0.5)
        await self.engine.apply(targets)

    async def meddle(self) -> None:
        """Somebody else changes the devices; the engine may hear of it."""
        assert self.engine is not None
        device = self.random.choice(self.hardware.read_inventory().devices)
        assert device.geometry is not None
        profile = self.random.choice(device.geometry.profiles)
        start = self.random.choice(profile.starts)
        unheld = [
            each
            for each in device.instances
            if SlotRequest(device.uuid, Slot(each.profile, each.start)) not in self.assigned()
        ]
        with contextlib.suppress(GpuError):
            if unheld and self.random.random() < 0.5:
                self.hardware.destroy_instance(device.uuid, self.random.choice(unheld).uuid)
            elif self.random.random() < 0.5:
                self.hardware.leave_partial_instance(device.uuid, profile.name, start)
            else:
                self.hardware.create_instance(device.uuid, profile.name, start)
        if self.random.random() < 0.5:
            await self.engine.refresh()

    def inject(self) -> None:
        """One of the next calls fails, before or after its effect."""
        self.backend.clear()
        self.backend.inject(
            Fault(
                self.random.choice(CHANGES),
                self.random.choice(list(GpuErrorKind)),
                times=self.random.randrange(1, 6),
                after_effect=self.random.random() < 0.5,
            )
        )

    async def crash_during(self, event: str) -> None:
        assert self.engine is not None
        self._effects_to_crash = self.random.randrange(1, 12)
        try:
            await getattr(self, event)()
        except Crash:
            pass
        finally:
            self._effects_to_crash = 0
            self.engine.close()
        await self.start()


@pytest.mark.parametrize("run", range(RUNS))
async def test_random_events_touch_nothing_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    node = Node(tmp_path, SEED * 1000 + run, monkeypatch)
    engine = await node.start()
    for _ in range(EVENTS):
        before, made = node.running(), node.existing()
        event = node.random.choice(EVENT_NAMES)
        if event == "inject":
            node.inject()
        elif node.random.random() < 0.15:
            await node.crash_during(event)
            assert node.engine is not None
            engine = node.engine
        else:
            await getattr(node, event)()
        after = node.running()
        lost = [pid for pid in before.keys() - after.keys() if f"pod-{pid - 1000}" in node.pods]
        assert not lost, f"{event} has ended processes {lost} of pods that exist"
        assert made & node.assigned() <= node.existing(), event
    # Without failures all gets to where it should be.
    node.backend.clear()
    await engine.refresh()
    await engine.reconcile(node.pods)
    exact = {each.uuid: Target(is_exact=True) for each in engine.inventory.devices}
    for result in await engine.apply(exact):
        assert not result.failure
    assert node.existing() == node.assigned()
    engine.close()
    last = MigEngine(node.backend, tmp_path, calls=InlineCalls())
    restored = await last.open()
    last.close()
    assert not restored.unfinished
    assert {each.holder for each in restored.adopted} == set(node.pods)
