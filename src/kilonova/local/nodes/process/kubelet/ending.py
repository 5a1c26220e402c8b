"""Ending containers: their preStop hook, a signal, some time, and then by force."""

import asyncio
import signal
from collections.abc import Collection
from typing import Any

from kilonova.local.nodes.process.kubelet.checks import HookFailed, Target
from kilonova.local.nodes.process.kubelet.means import Means
from kilonova.local.nodes.process.kubelet.pods import Container, Pod
from kilonova.local.nodes.process.kubelet.sequence import StopCause

LEAST_SECONDS = 2.0
"""Between the signal and the force, whatever was asked for."""


class Grace:
    """Until when a container, or all of a pod, may take to end. It can become shorter."""

    def __init__(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._shortened = asyncio.Event()

    @property
    def remaining(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    def shorten(self, seconds: float) -> None:
        """From now on it is at most so long."""
        if seconds < self.remaining:
            self._deadline = asyncio.get_running_loop().time() + seconds
            self._shortened.set()
            self._shortened = asyncio.Event()

    async def outlasts(self, work: "asyncio.Future[Any]", at_least: float = 0.0) -> bool:
        """Wait for `work`, which is left alone; whether it is done before the time is over."""
        loop = asyncio.get_running_loop()
        least = loop.time() + at_least
        while not work.done():
            left = max(self._deadline, least) - loop.time()
            if left <= 0:
                return False
            shortened = asyncio.ensure_future(self._shortened.wait())
            await asyncio.wait({work, shortened}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            shortened.cancel()
        return True


def grace_seconds(
    pod: Pod, container: Container | None = None, cause: StopCause | None = None
) -> int:
    """How long a container may take to end."""
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    probe = None
    if container is not None and cause is StopCause.LIVENESS_PROBE:
        probe = container.liveness_probe
    elif container is not None and cause is StopCause.STARTUP_PROBE:
        probe = container.startup_probe
    if probe is not None and probe.termination_grace_period_seconds is not None:
        return probe.termination_grace_period_seconds
    return pod.spec.termination_grace_period_seconds


async def end_container(
    means: Means,
    pod: Pod,
    target: Target,
    ended: "asyncio.Future[Any]",
    grace: Grace,
    *,
    message: str = "",
    after: Collection["asyncio.Future[Any]"] = (),
) -> None:
    """End one container; `ended` is done when it has. It awaits the end of those in `after`."""
    container = target.container
    means.tell(
        pod, "Killing", message or f"Stopping container {container.name}", container=container.name
    )
    if container.lifecycle.pre_stop is not None and grace.remaining > 0:
        await _run_pre_stop(means, pod, target, grace)
    for each in after:
        await grace.outlasts(each)
    if ended.done():
        return
    await means.runtime.signal(target.run, _signal_of(container))
    if not await grace.outlasts(ended, at_least=LEAST_SECONDS):
        await means.runtime.kill(target.run)
        await asyncio.wait({ended})


async def _run_pre_stop(means: Means, pod: Pod, target: Target, grace: Grace) -> None:
    hook = target.container.lifecycle.pre_stop
    assert hook is not None
    running = asyncio.ensure_future(means.checks.run_hook(target, hook))
    try:
        if not await grace.outlasts(running):
            return
        running.result()
    except HookFailed:
        # What it said could be a secret.
        means.tell(
            pod,
            "FailedPreStopHook",
            "PreStopHook failed",
            container=target.container.name,
            warning=True,
        )
    finally:
        running.cancel()


def _signal_of(container: Container) -> int:
    name = container.lifecycle.stop_signal
    return signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGTERM
