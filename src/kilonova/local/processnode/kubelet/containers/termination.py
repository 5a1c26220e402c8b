"""Stopping containers: preStop hook, SIGTERM, grace period, SIGKILL."""

import asyncio
import signal
from collections.abc import Collection
from typing import Any

from kilonova.local.processnode.kubelet.containers.actions import TerminationCause
from kilonova.local.processnode.kubelet.context import KubeletContext
from kilonova.local.processnode.kubelet.objects import Container, Pod
from kilonova.local.processnode.kubelet.probes.prober import HookError, ProbeTarget

MIN_GRACE_SECONDS = 2.0
"""The minimum between SIGTERM and SIGKILL, whatever the grace period."""


class GracePeriod:
    """The deadline for a container, or for all of a pod, to end. It can only become shorter."""

    def __init__(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._shortened = asyncio.Event()

    @property
    def remaining(self) -> float:
        return self._deadline - asyncio.get_running_loop().time()

    def shorten(self, seconds: float) -> None:
        """Limit the remaining time to `seconds`."""
        if seconds < self.remaining:
            self._deadline = asyncio.get_running_loop().time() + seconds
            self._shortened.set()
            self._shortened = asyncio.Event()

    async def wait_for(self, work: "asyncio.Future[Any]", at_least: float = 0.0) -> bool:
        """Wait for `work` without cancelling it; returns whether it finished within the grace
        period.
        """
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


def resolve_grace_seconds(
    pod: Pod, container: Container | None = None, cause: TerminationCause | None = None
) -> int:
    """The grace period of a container."""
    if pod.metadata.deletion_grace_period_seconds is not None:
        return pod.metadata.deletion_grace_period_seconds
    probe = None
    if container is not None and cause is TerminationCause.LIVENESS_PROBE:
        probe = container.liveness_probe
    elif container is not None and cause is TerminationCause.STARTUP_PROBE:
        probe = container.startup_probe
    if probe is not None and probe.termination_grace_period_seconds is not None:
        return probe.termination_grace_period_seconds
    return pod.spec.termination_grace_period_seconds


async def terminate_container(
    context: KubeletContext,
    pod: Pod,
    target: ProbeTarget,
    ended: "asyncio.Future[Any]",
    grace: GracePeriod,
    *,
    message: str = "",
    after: Collection["asyncio.Future[Any]"] = (),
) -> None:
    """Stop one container; `ended` is done when it has ended. Waits for those in `after` first."""
    container = target.container
    context.record_event(
        pod, "Killing", message or f"Stopping container {container.name}", container=container.name
    )
    if container.lifecycle.pre_stop is not None and grace.remaining > 0:
        await _run_pre_stop(context, pod, target, grace)
    for each in after:
        await grace.wait_for(each)
    if ended.done():
        return
    await context.runtime.signal(target.run, _resolve_stop_signal(container))
    if not await grace.wait_for(ended, at_least=MIN_GRACE_SECONDS):
        await context.runtime.kill(target.run)
        await asyncio.wait({ended})


async def _run_pre_stop(
    context: KubeletContext, pod: Pod, target: ProbeTarget, grace: GracePeriod
) -> None:
    hook = target.container.lifecycle.pre_stop
    assert hook is not None
    running = asyncio.ensure_future(context.prober.run_hook(target, hook))
    try:
        if not await grace.wait_for(running):
            return
        running.result()
    except HookError:
        # The hook's output could contain a secret.
        context.record_event(
            pod,
            "FailedPreStopHook",
            "PreStopHook failed",
            container=target.container.name,
            warning=True,
        )
    finally:
        running.cancel()


def _resolve_stop_signal(container: Container) -> int:
    name = container.lifecycle.stop_signal
    return signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGTERM
