"""The parts of a process live and end together. Virtual time, but for the signals."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kilonova.kube import Client, Manager, PartFailed, Reflector
from kilonova.kube.election import Elector
from tests.kube.memory_api import Link, MemoryApi
from tests.kube.wire import PODS, Hang, Pause, Stream, Wire, bookmark, client_on


def now() -> float:
    return asyncio.get_running_loop().time()


class Diary:
    """What happened to whom, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


class Job:
    """A part that runs until it is cancelled."""

    def __init__(
        self, diary: Diary, name: str, *, cleanup: float = 0, error: Exception | None = None
    ) -> None:
        self.name = name
        self._diary = diary
        self._cleanup = cleanup
        self._error = error

    async def run(self) -> None:
        self._diary.note(f"{self.name} starts")
        try:
            if self._error is not None:
                await asyncio.sleep(1)
                raise self._error
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._cleanup)
            self._diary.note(f"{self.name} ends")


class Gentle:
    """A part that needs some time to stop."""

    def __init__(self, diary: Diary, name: str, *, needs: float = 0) -> None:
        self.name = name
        self._diary = diary
        self._needs = needs
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        self._diary.note(f"{self.name} starts")
        try:
            await self._stopped.wait()
            await asyncio.sleep(self._needs)
            self._diary.note(f"{self.name} finished")
        except asyncio.CancelledError:
            self._diary.note(f"{self.name} cut off")
            raise

    def stop(self) -> None:
        self._stopped.set()


class Ballot:
    """An election that is won after a while, and may be lost."""

    name = "operator"

    def __init__(self, diary: Diary, *, won_after: float = 1, lost_after: float = 1e9) -> None:
        self._diary = diary
        self._won_after = won_after
        self._lost_after = lost_after

    async def run(self, lead: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        await asyncio.sleep(self._won_after)
        self._diary.note("elected")
        leading = asyncio.create_task(lead(None))
        try:
            done, _ = await asyncio.wait([leading], timeout=self._lost_after)
        finally:
            leading.cancel()
            await asyncio.wait([leading])
            self._diary.note("released")
        if not done:
            raise RuntimeError("another copy leads")


async def stop_after(manager: Manager, seconds: float) -> None:
    running = asyncio.create_task(manager.run(signals=False))
    await asyncio.sleep(seconds)
    manager.stop()
    await running


@pytest.mark.looptime
async def test_controllers_end_first_then_the_others_in_reverse_order() -> None:
    diary = Diary()
    manager = Manager()
    manager.add(Job(diary, "server"), Job(diary, "cache"))
    manager.add_leading(Gentle(diary, "controller", needs=5))
    await stop_after(manager, 10)
    assert diary.lines == [
        "server starts",
        "cache starts",
        "controller starts",
        "controller finished",
        "cache ends",
        "server ends",
    ]
    assert now() == 15


@pytest.mark.looptime
async def test_the_lease_is_released_only_after_the_controllers_have_finished() -> None:
    diary = Diary()
    manager = Manager(election=Ballot(diary))
    manager.add(Job(diary, "cache"))
    manager.add_leading(Gentle(diary, "controller", needs=5))
    await stop_after(manager, 10)
    assert diary.lines == [
        "cache starts",
        "elected",
        "controller starts",
        "controller finished",
        "released",
        "cache ends",
    ]


@pytest.mark.looptime
async def test_a_copy_that_never_led_stops_at_once() -> None:
    diary = Diary()
    manager = Manager(election=Ballot(diary, won_after=1000))
    manager.add_leading(Gentle(diary, "controller"))
    await stop_after(manager, 10)
    assert (diary.lines, now()) == ([], 10)


@pytest.mark.looptime
async def test_losing_the_leadership_cuts_controllers_off_and_stops_everything() -> None:
    diary = Diary()
    manager = Manager(election=Ballot(diary, lost_after=5))
    manager.add(Job(diary, "cache"))
    manager.add_leading(Gentle(diary, "controller", needs=1000))
    with pytest.raises(PartFailed, match="election operator failed: another copy leads"):
        await manager.run(signals=False)
    assert diary.lines[-3:] == ["controller cut off", "released", "cache ends"]


@pytest.mark.looptime
async def test_what_does_not_stop_by_the_deadline_is_cancelled() -> None:
    diary = Diary()
    manager = Manager(grace=30)
    manager.add(Job(diary, "cache"))
    manager.add_leading(Gentle(diary, "slow", needs=1000), Gentle(diary, "quick", needs=1))
    await stop_after(manager, 10)
    assert diary.lines[-3:] == ["quick finished", "slow cut off", "cache ends"]
    assert now() == 40


@pytest.mark.looptime
async def test_a_part_that_ignores_its_cancellation_does_not_hold_up_the_end() -> None:
    diary = Diary()
    manager = Manager(grace=10)
    manager.add(Job(diary, "stubborn", cleanup=1000))
    await stop_after(manager, 10)
    assert now() < 40


@pytest.mark.looptime
@pytest.mark.parametrize("leading", [False, True])
async def test_a_failing_part_stops_the_others_and_is_named(leading: bool) -> None:
    diary = Diary()
    manager = Manager()
    manager.add(Job(diary, "cache"))
    failing = Job(diary, "broken", error=ExceptionGroup("group", [ValueError("no disk")]))
    (manager.add_leading if leading else manager.add)(failing)
    with pytest.raises(PartFailed, match="broken failed: no disk") as caught:
        await manager.run(signals=False)
    assert caught.value.part == "broken"
    assert isinstance(caught.value.__cause__, ValueError)
    assert diary.lines[-1] == "cache ends"


@pytest.mark.looptime
async def test_a_part_that_ends_unasked_has_failed() -> None:
    class Brief:
        name = "brief"

        async def run(self) -> None:
            await asyncio.sleep(1)

    manager = Manager()
    manager.add(Brief())
    with pytest.raises(PartFailed, match="brief ended unexpectedly"):
        await manager.run(signals=False)


@pytest.mark.looptime
async def test_ready_means_that_all_caches_are_filled() -> None:
    def cache(after: float, namespace: str) -> Reflector[Any]:
        stream = Stream(Pause(after), bookmark(1, ends_initial_events=True), Hang())
        return Reflector(client_on(Wire([stream])), PODS, namespace)

    manager = Manager()
    manager.add(cache(3, "x"), cache(6, "y"), Job(Diary(), "server"))
    running = asyncio.create_task(manager.run(signals=False))
    seen: list[list[str]] = []
    for _ in range(3):
        await asyncio.sleep(2.5)
        seen.append(manager.not_ready())
    assert seen == [
        ["reflector of pods in x", "reflector of pods in y"],
        ["reflector of pods in y"],
        [],
    ]
    assert not manager.stopping
    manager.stop()
    assert manager.stopping
    await running


@pytest.mark.looptime
async def test_cancelling_the_run_ends_all_parts() -> None:
    diary = Diary()
    manager = Manager()
    manager.add(Job(diary, "cache"))
    manager.add_leading(Gentle(diary, "controller", needs=1000))
    running = asyncio.create_task(manager.run(signals=False))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert sorted(diary.lines[2:]) == ["cache ends", "controller cut off"]


@pytest.mark.looptime
async def test_a_second_copy_takes_over_as_soon_as_the_first_has_stopped() -> None:
    api, diary = MemoryApi(), Diary()

    def copy(name: str) -> Manager:
        elector = Elector(Client(Link(api)), "lease", "system", identity=name, clock=now)
        manager = Manager(election=elector)
        manager.add_leading(Gentle(diary, name, needs=5))
        return manager

    first, second = copy("first"), copy("second")
    running = asyncio.create_task(first.run(signals=False))
    await asyncio.sleep(1)
    waiting = asyncio.create_task(stop_after(second, 20))
    await asyncio.sleep(1)
    first.stop()
    await running
    assert diary.lines == ["first starts", "first finished"]
    await waiting
    assert diary.lines[2:] == ["second starts", "second finished"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_gracefully_and_a_second_one_at_once(number: signal.Signals) -> None:
    diary = Diary()
    manager = Manager()
    manager.add_leading(Gentle(diary, "controller", needs=1000))
    running = asyncio.create_task(manager.run())
    while not diary.lines:
        await asyncio.sleep(0)
    os.kill(os.getpid(), number)
    while not manager.stopping:
        await asyncio.sleep(0)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 10)
    assert diary.lines == ["controller starts", "controller cut off"]
