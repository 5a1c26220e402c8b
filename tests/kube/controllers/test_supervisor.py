"""A failing component is rebuilt and restarted. Virtual time."""

import asyncio
from collections.abc import Sequence

import pytest

from kilonova.kube import Backoff, ComponentHealth, Manager, Runnable, Supervisor

pytestmark = pytest.mark.looptime

BACKOFF = Backoff(1.0, 8.0, jitter=lambda: 0.0)


def _now() -> float:
    return round(asyncio.get_running_loop().time(), 2)


class FailingRunnable:
    """A runnable that fails after some seconds, or never."""

    def __init__(self, name: str, lifetime: float | None) -> None:
        self.name = name
        self._life = lifetime

    async def run(self) -> None:
        await (asyncio.sleep(self._life) if self._life is not None else asyncio.Event().wait())
        raise RuntimeError("boom")


class HealthLog:
    """How often a component was built, and its health reports with their times."""

    def __init__(self, *lives: float | None) -> None:
        self._lives = lives
        self.built: list[float] = []
        self.reports: list[tuple[float, ComponentHealth]] = []
        self.raises: Exception | None = None

    def build(self) -> Sequence[Runnable]:
        self.built.append(_now())
        if self.raises is not None:
            raise self.raises
        life = self._lives[min(len(self.built), len(self._lives)) - 1]
        return [FailingRunnable("steady", None), FailingRunnable("scheduler", life)]

    def report(self, name: str, health: ComponentHealth) -> None:
        assert name == "component"
        self.reports.append((_now(), health))

    def supervisor(self, *, optional: bool = False) -> Supervisor:
        return Supervisor(
            "component",
            self.build,
            on_health_change=self.report,
            optional=optional,
            backoff=BACKOFF,
        )


async def test_failing_component_is_rebuilt_with_backoff() -> None:
    record = HealthLog(1.0)
    task = asyncio.create_task(record.supervisor().run())
    await asyncio.sleep(20.5)
    task.cancel()
    # It runs for a second each time; the delays are 1, 2, 4 and 8 seconds.
    assert record.built == [0.0, 2.0, 5.0, 10.0, 19.0]
    problem = "scheduler failed: boom"
    assert record.reports == [
        (1.0, ComponentHealth(1, problem)),
        (3.0, ComponentHealth(2, problem)),
        (6.0, ComponentHealth(3, problem)),
        (11.0, ComponentHealth(4, problem)),
        (20.0, ComponentHealth(5, problem)),
    ]


async def test_component_has_recovered_after_a_minute() -> None:
    record = HealthLog(1.0, None)
    task = asyncio.create_task(record.supervisor().run())
    await asyncio.sleep(61)
    assert [health.problem for _, health in record.reports] == ["scheduler failed: boom"]
    await asyncio.sleep(2)
    assert record.reports[-1] == (62.0, ComponentHealth())
    task.cancel()


async def test_failed_rebuild_is_retried() -> None:
    record = HealthLog(1.0)
    task = asyncio.create_task(record.supervisor().run())
    await asyncio.sleep(1.5)
    record.raises = OSError("the port is taken")
    await asyncio.sleep(1)
    assert record.reports[-1] == (2.0, ComponentHealth(2, "the port is taken"))
    record.raises = None
    await asyncio.sleep(2)
    assert record.built[-1] == 4.0
    task.cancel()


async def test_failing_report_does_not_stop_the_supervisor() -> None:
    record = HealthLog(1.0, None)

    def report(name: str, health: ComponentHealth) -> None:
        record.report(name, health)
        raise OSError("no space left on device")

    task = asyncio.create_task(
        Supervisor("component", record.build, on_health_change=report, backoff=BACKOFF).run()
    )
    await asyncio.sleep(63)
    assert not task.done()
    assert record.built == [0.0, 2.0]
    assert [health.restarts for _, health in record.reports] == [1, 0]
    task.cancel()


async def test_failure_of_the_first_build_is_raised() -> None:
    record = HealthLog()
    record.raises = OSError("the port is taken")
    with pytest.raises(OSError, match="the port is taken"):
        record.supervisor()


async def test_optional_component_whose_first_build_fails_is_built_again() -> None:
    record = HealthLog(None)
    record.raises = RuntimeError("no such library")
    supervisor = record.supervisor(optional=True)
    task = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0.5)
    assert record.reports == [(0.0, ComponentHealth(1, "no such library"))]
    record.raises = None
    await asyncio.sleep(61)
    # The first delay is a second; after a minute it has recovered.
    assert record.built == [0.0, 1.0]
    assert record.reports[1:] == [(61.0, ComponentHealth())]
    task.cancel()


@pytest.mark.parametrize("when", [0.5, 1.5])
async def test_supervisor_stops_while_running_and_during_backoff(when: float) -> None:
    record = HealthLog(1.0)
    supervisor = record.supervisor()
    task = asyncio.create_task(supervisor.run())
    await asyncio.sleep(when)
    supervisor.stop()
    async with asyncio.timeout(1):
        await task
    assert record.built == [0.0]


async def test_manager_continues_when_a_component_fails() -> None:
    record = HealthLog(1.0, None)
    other = HealthLog(None)
    manager = Manager()
    manager.add(record.supervisor(), other.supervisor())
    running = asyncio.create_task(manager.run(signals=False))
    await asyncio.sleep(10)
    assert (len(record.built), len(other.built)) == (2, 1)
    manager.stop()
    await running
