"""A component that fails is built and started again. Virtual time."""

import asyncio
from collections.abc import Sequence

import pytest

from kilonova.kube import Backoff, ComponentHealth, Manager, Part, Supervisor

pytestmark = pytest.mark.looptime

BACKOFF = Backoff(1.0, 8.0, jitter=lambda: 0.0)


def _now() -> float:
    return round(asyncio.get_running_loop().time(), 2)


class Mortal:
    """A part that fails after some seconds, or never."""

    def __init__(self, name: str, life: float | None) -> None:
        self.name = name
        self._life = life

    async def run(self) -> None:
        await (asyncio.sleep(self._life) if self._life is not None else asyncio.Event().wait())
        raise RuntimeError("boom")


class Record:
    """How often a component was built, and what was reported of it, with the time."""

    def __init__(self, *lives: float | None) -> None:
        self._lives = lives
        self.built: list[float] = []
        self.reports: list[tuple[float, ComponentHealth]] = []
        self.raises: Exception | None = None

    def build(self) -> Sequence[Part]:
        self.built.append(_now())
        if self.raises is not None:
            raise self.raises
        life = self._lives[min(len(self.built), len(self._lives)) - 1]
        return [Mortal("steady", None), Mortal("scheduler", life)]

    def report(self, name: str, health: ComponentHealth) -> None:
        assert name == "component"
        self.reports.append((_now(), health))

    def supervisor(self) -> Supervisor:
        return Supervisor("component", self.build, report=self.report, backoff=BACKOFF)


async def test_a_component_that_fails_is_built_again_with_backoff() -> None:
    record = Record(1.0)
    task = asyncio.create_task(record.supervisor().run())
    await asyncio.sleep(20.5)
    task.cancel()
    # It lives for a second each time; the pauses are 1, 2, 4 and 8 seconds.
    assert record.built == [0.0, 2.0, 5.0, 10.0, 19.0]
    problem = "scheduler failed: boom"
    assert record.reports == [
        (1.0, ComponentHealth(1, problem)),
        (3.0, ComponentHealth(2, problem)),
        (6.0, ComponentHealth(3, problem)),
        (11.0, ComponentHealth(4, problem)),
        (20.0, ComponentHealth(5, problem)),
    ]


async def test_it_has_recovered_when_it_has_run_for_a_minute() -> None:
    record = Record(1.0, None)
    task = asyncio.create_task(record.supervisor().run())
    await asyncio.sleep(61)
    assert [health.problem for _, health in record.reports] == ["scheduler failed: boom"]
    await asyncio.sleep(2)
    assert record.reports[-1] == (62.0, ComponentHealth())
    task.cancel()


async def test_a_component_that_cannot_be_built_again_is_tried_again() -> None:
    record = Record(1.0)
    task = asyncio.create_task(record.supervisor().run())
    await asyncio.sleep(1.5)
    record.raises = OSError("the port is taken")
    await asyncio.sleep(1)
    assert record.reports[-1] == (2.0, ComponentHealth(2, "the port is taken"))
    record.raises = None
    await asyncio.sleep(2)
    assert record.built[-1] == 4.0
    task.cancel()


async def test_a_report_that_fails_does_not_end_it() -> None:
    record = Record(1.0, None)

    def report(name: str, health: ComponentHealth) -> None:
        record.report(name, health)
        raise OSError("no space left on device")

    task = asyncio.create_task(
        Supervisor("component", record.build, report=report, backoff=BACKOFF).run()
    )
    await asyncio.sleep(63)
    assert not task.done()
    assert record.built == [0.0, 2.0]
    assert [health.restarts for _, health in record.reports] == [1, 0]
    task.cancel()


async def test_what_cannot_be_built_at_first_is_for_the_caller() -> None:
    record = Record()
    record.raises = OSError("the port is taken")
    with pytest.raises(OSError, match="the port is taken"):
        record.supervisor()


@pytest.mark.parametrize("when", [0.5, 1.5])
async def test_it_stops_while_it_runs_and_while_it_waits(when: float) -> None:
    record = Record(1.0)
    supervisor = record.supervisor()
    task = asyncio.create_task(supervisor.run())
    await asyncio.sleep(when)
    supervisor.stop()
    async with asyncio.timeout(1):
        await task
    assert record.built == [0.0]


async def test_a_manager_goes_on_when_a_component_fails() -> None:
    record = Record(1.0, None)
    other = Record(None)
    manager = Manager()
    manager.add(record.supervisor(), other.supervisor())
    running = asyncio.create_task(manager.run(signals=False))
    await asyncio.sleep(10)
    assert (len(record.built), len(other.built)) == (2, 1)
    manager.stop()
    await running
