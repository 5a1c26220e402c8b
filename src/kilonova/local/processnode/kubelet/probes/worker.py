"""The probes of one run of a container: when they run, and their results.

Until the startup probe has succeeded no other probe runs. A result counts once it occurred as often
in a row as its threshold says. A container that was ready before a restart of the kubelet stays
ready until a probe fails.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from kilonova.local.processnode.kubelet.containers.actions import ProbeHealth
from kilonova.local.processnode.kubelet.containers.runs import RUNTIME_NAME, ContainerRun
from kilonova.local.processnode.kubelet.objects import Container, ContainerStatus, Probe
from kilonova.local.processnode.kubelet.probes.prober import ProbeError, ProbeResult

_MAX_ATTEMPTS = 3


class ProbeKind(Enum):
    """The kind of a probe, as in the kubelet's messages."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


@dataclass(slots=True)
class ThresholdCounter:
    """Counts equal results in a row."""

    last: bool | None = None
    times: int = 0

    def count_result(self, succeeded: bool, probe: Probe) -> bool | None:
        """The result, once it reached its threshold; None until then."""
        self.times = self.times + 1 if succeeded is self.last else 1
        self.last = succeeded
        threshold = probe.success_threshold if succeeded else probe.failure_threshold
        return succeeded if self.times >= threshold else None


@dataclass(frozen=True, slots=True)
class ProbeEvent:
    """An event to record about the container."""

    reason: str
    message: str


class ProbeWorker:
    """Probes one run until `run` is cancelled. `run_probe` runs a single probe."""

    def __init__(
        self,
        container: Container,
        run: ContainerRun,
        before: ContainerStatus | None,
        run_probe: Callable[[Probe], Awaitable[ProbeResult]],
        *,
        now: Callable[[], float],
        on_change: Callable[[], None],
        record_event: Callable[[ProbeEvent], None],
    ) -> None:
        self._container = container
        self._run = run
        self._run_probe = run_probe
        self._now = now
        self._on_change = on_change
        self._record_event = record_event
        self._terminating = False
        is_same_run = before is not None and before.container_id == f"{RUNTIME_NAME}://{run.id}"
        was_started = is_same_run and before is not None and before.started is True
        was_ready = is_same_run and before is not None and before.ready
        startup: bool | None = was_started or None
        self._health = ProbeHealth(
            has_started=startup if container.startup_probe is not None else True,
            is_ready=was_ready or container.readiness_probe is None,
        )

    @property
    def health(self) -> ProbeHealth:
        """The current results."""
        return self._health

    def mark_terminating(self) -> None:
        """The pod is terminating: from now on only readiness is probed."""
        self._terminating = True

    async def run(self) -> None:
        """Probe until cancelled, or until no probe is left to run."""
        container = self._container
        if container.startup_probe is not None and self._health.has_started is None:
            await self._probe_periodically(ProbeKind.STARTUP, container.startup_probe)
            if self.health.has_started is not True:
                return
        async with asyncio.TaskGroup() as group:
            if container.liveness_probe is not None:
                group.create_task(
                    self._probe_periodically(ProbeKind.LIVENESS, container.liveness_probe)
                )
            if container.readiness_probe is not None:
                group.create_task(
                    self._probe_periodically(ProbeKind.READINESS, container.readiness_probe)
                )

    async def _probe_periodically(self, kind: ProbeKind, probe: Probe) -> None:
        """Run a probe periodically; a startup probe until it is decided."""
        loop = asyncio.get_running_loop()
        delay = probe.initial_delay_seconds
        # A clock that was set back must not extend the delay.
        due = loop.time() + max(0.0, min(delay, self._run.started + delay - self._now()))
        counter = ThresholdCounter()
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._terminating and kind is not ProbeKind.READINESS:
                return
            succeeded = await self._probe_once(kind, probe)
            result = None if succeeded is None else counter.count_result(succeeded, probe)
            if result is not None:
                self._record_result(kind, result)
                if kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and not result):
                    return
            due = max(due + probe.period_seconds, loop.time())

    async def _probe_once(self, kind: ProbeKind, probe: Probe) -> bool | None:
        """The result of one probe; None if it could not be run."""
        problem = ""
        for _ in range(_MAX_ATTEMPTS):
            try:
                outcome = await self._run_probe(probe)
            except ProbeError as error:
                problem = str(error)
                continue
            if outcome.warning:
                self._record_event(
                    ProbeEvent("ProbeWarning", f"{kind.value} probe warning: {outcome.text}")
                )
            elif not outcome.succeeded:
                self._record_event(
                    ProbeEvent("Unhealthy", f"{kind.value} probe failed: {outcome.text}")
                )
            return outcome.succeeded
        text = f"{kind.value} probe errored and resulted in unknown state: {problem}"
        self._record_event(ProbeEvent("Unhealthy", text))
        return None

    def _record_result(self, kind: ProbeKind, result: bool) -> None:
        before = self._health
        match kind:
            case ProbeKind.STARTUP:
                self._health = ProbeHealth(result, before.is_alive, before.is_ready)
            case ProbeKind.LIVENESS:
                self._health = ProbeHealth(before.has_started, result, before.is_ready)
            case ProbeKind.READINESS:
                self._health = ProbeHealth(before.has_started, before.is_alive, result)
        if self._health != before:
            self._on_change()
