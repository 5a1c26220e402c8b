"""The runnables of a process share one lifetime. Virtual time, except for signals."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kilonova.kube import Client, Manager, Reflector, RunnableFailed
from kilonova.kube.election import ApiLeaseStore, LeaderElector
from tests.kube.memory_api import MemoryApi, MemoryTransport
from tests.kube.scripted_transport import (
    PODS,
    HangForever,
    Pause,
    ScriptedTransport,
    Stream,
    bookmark,
    client_over,
)


def now() -> float:
    return asyncio.get_running_loop().time()


class CallLog:
    """The events of all runnables, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def append(self, line: str) -> None:
        self.lines.append(line)


class FakeRunnable:
    """A runnable that runs until it is cancelled."""

    def __init__(
        self, diary: CallLog, name: str, *, cleanup: float = 0, error: Exception | None = None
    ) -> None:
        self.name = name
        self._diary = diary
        self._cleanup = cleanup
        self._error = error

    async def run(self) -> None:
        self._diary.append(f"{self.name} starts")
        try:
            if self._error is not None:
                await asyncio.sleep(1)
                raise self._error
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(self._cleanup)
            self._diary.append(f"{self.name} ends")


class GracefulFakeRunnable:
    """A runnable that needs some time to stop."""

    def __init__(self, diary: CallLog, name: str, *, needs: float = 0) -> None:
        self.name = name
        self._diary = diary
        self._needs = needs
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        self._diary.append(f"{self.name} starts")
        try:
            await self._stopped.wait()
            await asyncio.sleep(self._needs)
            self._diary.append(f"{self.name} finished")
        except asyncio.CancelledError:
            self._diary.append(f"{self.name} cut off")
            raise

    def stop(self) -> None:
        self._stopped.set()


class FakeElection:
    """An election that is won after a while, and may be lost."""

    name = "operator"

    def __init__(self, diary: CallLog, *, won_after: float = 1, lost_after: float = 1e9) -> None:
        self._diary = diary
        self._won_after = won_after
        self._lost_after = lost_after

    async def run(self, lead: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        await asyncio.sleep(self._won_after)
        self._diary.append("elected")
        leading = asyncio.create_task(lead(None))
        try:
            done, _ = await asyncio.wait([leading], timeout=self._lost_after)
        finally:
            leading.cancel()
            await asyncio.wait([leading])
            self._diary.append("released")
        if not done:
            raise RuntimeError("another copy leads")


async def stop_after(manager: Manager, seconds: float) -> None:
    running = asyncio.create_task(manager.run(signals=False))
    await asyncio.sleep(seconds)
    manager.stop()
    await running


@pytest.mark.looptime
async def test_controllers_stop_first_then_others_in_reverse_order() -> None:
    diary = CallLog()
    manager = Manager()
    manager.add(FakeRunnable(diary, "server"), FakeRunnable(diary, "cache"))
    manager.add_leader_runnables(GracefulFakeRunnable(diary, "controller", needs=5))
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
async def test_lease_is_released_after_controllers_have_finished() -> None:
    diary = CallLog()
    manager = Manager(election=FakeElection(diary))
    manager.add(FakeRunnable(diary, "cache"))
    manager.add_leader_runnables(GracefulFakeRunnable(diary, "controller", needs=5))
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
async def test_replica_that_never_led_stops_at_once() -> None:
    diary = CallLog()
    manager = Manager(election=FakeElection(diary, won_after=1000))
    manager.add_leader_runnables(GracefulFakeRunnable(diary, "controller"))
    await stop_after(manager, 10)
    assert (diary.lines, now()) == ([], 10)


@pytest.mark.looptime
async def test_lost_leadership_cancels_controllers_and_stops_everything() -> None:
    diary = CallLog()
    manager = Manager(election=FakeElection(diary, lost_after=5))
    manager.add(FakeRunnable(diary, "cache"))
    manager.add_leader_runnables(GracefulFakeRunnable(diary, "controller", needs=1000))
    with pytest.raises(RunnableFailed, match="election operator failed: another copy leads"):
        await manager.run(signals=False)
    assert diary.lines[-3:] == ["controller cut off", "released", "cache ends"]


@pytest.mark.looptime
async def test_runnable_that_misses_the_deadline_is_cancelled() -> None:
    diary = CallLog()
    manager = Manager(grace=30)
    manager.add(FakeRunnable(diary, "cache"))
    manager.add_leader_runnables(
        GracefulFakeRunnable(diary, "slow", needs=1000),
        GracefulFakeRunnable(diary, "quick", needs=1),
    )
    await stop_after(manager, 10)
    assert diary.lines[-3:] == ["quick finished", "slow cut off", "cache ends"]
    assert now() == 40


@pytest.mark.looptime
async def test_runnable_that_ignores_cancellation_does_not_block_the_stop() -> None:
    diary = CallLog()
    manager = Manager(grace=10)
    manager.add(FakeRunnable(diary, "stubborn", cleanup=1000))
    await stop_after(manager, 10)
    assert now() < 40


@pytest.mark.looptime
@pytest.mark.parametrize("leading", [False, True])
async def test_failing_runnable_stops_the_others_and_is_named(leading: bool) -> None:
    diary = CallLog()
    manager = Manager()
    manager.add(FakeRunnable(diary, "cache"))
    failing = FakeRunnable(diary, "broken", error=ExceptionGroup("group", [ValueError("no disk")]))
    (manager.add_leader_runnables if leading else manager.add)(failing)
    with pytest.raises(RunnableFailed, match="broken failed: no disk") as caught:
        await manager.run(signals=False)
    assert caught.value.runnable == "broken"
    assert isinstance(caught.value.__cause__, ValueError)
    assert diary.lines[-1] == "cache ends"


@pytest.mark.looptime
async def test_runnable_that_returns_early_has_failed() -> None:
    class Brief:
        name = "brief"

        async def run(self) -> None:
            await asyncio.sleep(1)

    manager = Manager()
    manager.add(Brief())
    with pytest.raises(RunnableFailed, match="brief ended unexpectedly"):
        await manager.run(signals=False)


@pytest.mark.looptime
async def test_ready_means_all_caches_synced() -> None:
    def cache(after: float, namespace: str) -> Reflector[Any]:
        stream = Stream(Pause(after), bookmark(1, ends_initial_events=True), HangForever())
        return Reflector(client_over(ScriptedTransport([stream])), PODS, namespace)

    manager = Manager()
    manager.add(cache(3, "x"), cache(6, "y"), FakeRunnable(CallLog(), "server"))
    running = asyncio.create_task(manager.run(signals=False))
    observed: list[list[str]] = []
    for _ in range(3):
        await asyncio.sleep(2.5)
        observed.append(manager.unsynced_caches())
    assert observed == [
        ["reflector of pods in x", "reflector of pods in y"],
        ["reflector of pods in y"],
        [],
    ]
    assert not manager.is_stopping
    manager.stop()
    assert manager.is_stopping
    await running


@pytest.mark.looptime
async def test_cancelling_run_ends_all_runnables() -> None:
    diary = CallLog()
    manager = Manager()
    manager.add(FakeRunnable(diary, "cache"))
    manager.add_leader_runnables(GracefulFakeRunnable(diary, "controller", needs=1000))
    running = asyncio.create_task(manager.run(signals=False))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert sorted(diary.lines[2:]) == ["cache ends", "controller cut off"]


@pytest.mark.looptime
async def test_second_replica_takes_over_when_the_first_has_stopped() -> None:
    api, diary = MemoryApi(), CallLog()

    def copy(name: str) -> Manager:
        elector = LeaderElector(
            ApiLeaseStore(Client(MemoryTransport(api)), "lease", "system"),
            identity=name,
            clock=now,
        )
        manager = Manager(election=elector)
        manager.add_leader_runnables(GracefulFakeRunnable(diary, name, needs=5))
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
async def test_first_signal_stops_gracefully_and_second_at_once(number: signal.Signals) -> None:
    diary = CallLog()
    manager = Manager()
    manager.add_leader_runnables(GracefulFakeRunnable(diary, "controller", needs=1000))
    running = asyncio.create_task(manager.run())
    while not diary.lines:
        await asyncio.sleep(0)
    os.kill(os.getpid(), number)
    while not manager.is_stopping:
        await asyncio.sleep(0)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(running, 10)
    assert diary.lines == ["controller starts", "controller cut off"]
