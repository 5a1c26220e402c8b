"""Simulated machines for tests: time is a number, and operations take none of it."""

from kilonova.catalog import Catalog
from kilonova.gpu.devices.simulated import (
    INSTANT,
    MigDurations,
    SimulatedBackend,
    build_machine,
    find_persona,
)

CATALOG = Catalog()


class FakeTime:
    """Seconds that pass when something sleeps."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def simulate(
    persona: str = "h100:1", *, time: FakeTime | None = None, durations: MigDurations = INSTANT
) -> SimulatedBackend:
    clock = time or FakeTime()
    machine = build_machine(find_persona(persona, CATALOG), CATALOG)
    return SimulatedBackend(machine, now=clock.now, sleep=clock.sleep, durations=durations)


def first_uuid(backend: SimulatedBackend) -> str:
    return backend.read_inventory().devices[0].uuid
