"""The probes of one run of a container: when they are made, and what they come to.

Until the startup probe has succeeded there are no others. A result counts when it came as often
in a row as its threshold says. Whoever was ready before a restart of the kubelet stays so until a
probe says otherwise.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from kilonova.local.nodes.process.kubelet.checks import CheckError, Outcome
from kilonova.local.nodes.process.kubelet.pods import Container, ContainerStatus, Probe
from kilonova.local.nodes.process.kubelet.runs import RUNTIME, Run
from kilonova.local.nodes.process.kubelet.sequence import Health

_TRIES = 3


class ProbeKind(Enum):
    """What a probe is about, in the kubelet's words."""

    STARTUP = "Startup"
    LIVENESS = "Liveness"
    READINESS = "Readiness"


@dataclass(slots=True)
class Tally:
    """Counts equal results in a row."""

    last: bool | None = None
    times: int = 0

    def count(self, good: bool, probe: Probe) -> bool | None:
        """The result, once it came often enough; None until then."""
        self.times = self.times + 1 if good is self.last else 1
        self.last = good
        threshold = probe.success_threshold if good else probe.failure_threshold
        return good if self.times >= threshold else None


@dataclass(frozen=True, slots=True)
class Told:
    """Something people should hear of."""

    reason: str
    message: str


class ContainerProbes:
    """Probes one run, from `run` to its cancellation. `check` makes one probe."""

    def __init__(
        self,
        container: Container,
        run: Run,
        before: ContainerStatus | None,
        check: Callable[[Probe], Awaitable[Outcome]],
        *,
        now: Callable[[], float],
        changed: Callable[[], None],
        tell: Callable[[Told], None],
    ) -> None:
        self._container = container
        self._run = run
        self._check = check
        self._now = now
        self._changed = changed
        self._tell = tell
        self._leaving = False
        known = before is not None and before.container_id == f"{RUNTIME}://{run.id}"
        was_started = known and before is not None and before.started is True
        was_ready = known and before is not None and before.ready
        startup: bool | None = was_started or None
        self._health = Health(
            startup=startup if container.startup_probe is not None else True,
            ready=was_ready or container.readiness_probe is None,
        )

    @property
    def health(self) -> Health:
        """What is known now."""
        return self._health

    def leave(self) -> None:
        """The pod is leaving: from now on only its readiness matters."""
        self._leaving = True

    async def run(self) -> None:
        """Probe until cancelled, or until there is nothing left to find out."""
        container = self._container
        if container.startup_probe is not None and self._health.startup is None:
            await self._follow(ProbeKind.STARTUP, container.startup_probe)
            if self.health.startup is not True:
                return
        async with asyncio.TaskGroup() as group:
            if container.liveness_probe is not None:
                group.create_task(self._follow(ProbeKind.LIVENESS, container.liveness_probe))
            if container.readiness_probe is not None:
                group.create_task(self._follow(ProbeKind.READINESS, container.readiness_probe))

    async def _follow(self, kind: ProbeKind, probe: Probe) -> None:
        """Make a probe again and again; a startup probe until it is decided."""
        loop = asyncio.get_running_loop()
        delay = probe.initial_delay_seconds
        # A clock that was set back must not make it longer.
        due = loop.time() + max(0.0, min(delay, self._run.started + delay - self._now()))
        tally = Tally()
        while True:
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self._leaving and kind is not ProbeKind.READINESS:
                return
            good = await self._result(kind, probe)
            result = None if good is None else tally.count(good, probe)
            if result is not None:
                self._note(kind, result)
                if kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and not result):
                    return
            due = max(due + probe.period_seconds, loop.time())

    async def _result(self, kind: ProbeKind, probe: Probe) -> bool | None:
        """What one probe found; None where it could not be made."""
        problem = ""
        for _ in range(_TRIES):
            try:
                outcome = await self._check(probe)
            except CheckError as error:
                problem = str(error)
                continue
            if outcome.warning:
                self._tell(Told("ProbeWarning", f"{kind.value} probe warning: {outcome.text}"))
            elif not outcome.good:
                self._tell(Told("Unhealthy", f"{kind.value} probe failed: {outcome.text}"))
            return outcome.good
        text = f"{kind.value} probe errored and resulted in unknown state: {problem}"
        self._tell(Told("Unhealthy", text))
        return None

    def _note(self, kind: ProbeKind, result: bool) -> None:
        before = self._health
        match kind:
            case ProbeKind.STARTUP:
                self._health = Health(result, before.alive, before.ready)
            case ProbeKind.LIVENESS:
                self._health = Health(before.startup, result, before.ready)
            case ProbeKind.READINESS:
                self._health = Health(before.startup, before.alive, result)
        if self._health != before:
            self._changed()
