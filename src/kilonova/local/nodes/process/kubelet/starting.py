"""Starting a pod's containers, one after the other, each with its hook; or saying why not."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence

from kilonova.local.nodes.backoff import Backoff, spoken_delay
from kilonova.local.nodes.process.kubelet.checks import HookFailed
from kilonova.local.nodes.process.kubelet.containers import Containers
from kilonova.local.nodes.process.kubelet.containerstatus import Waiting
from kilonova.local.nodes.process.kubelet.devices import NotEnough
from kilonova.local.nodes.process.kubelet.environment import ConfigError
from kilonova.local.nodes.process.kubelet.launching import NoCommand, PodPlace
from kilonova.local.nodes.process.kubelet.means import Means
from kilonova.local.nodes.process.kubelet.pods import Container
from kilonova.local.nodes.process.kubelet.runs import Run, run_id, run_of
from kilonova.local.nodes.process.kubelet.sequence import Stop, StopCause
from kilonova.local.nodes.process.runtime import ContainerSpec, StartFailed

_NOT_STARTED = 128
_RETRY_SECONDS = 10.0


class Starts:
    """Starts containers of one pod, until it is halted."""

    def __init__(self, means: Means, place: PodPlace, containers: Containers) -> None:
        self._means = means
        self._place = place
        self._containers = containers
        self._backoffs: defaultdict[str, Backoff] = defaultdict(Backoff)
        self._not_before: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._halted = asyncio.Event()

    def begin(self, names: Sequence[str]) -> float | None:
        """Start those whose time it is; seconds until it is that of another."""
        if self._task is not None:
            if not self._task.done():
                return None
            last, self._task = self._task, None
            last.result()  # what the runtime could not do is reported, and tried again later
        due: list[Container] = []
        waits: list[float] = []
        for name in names:
            wait = self._wait(name)
            if wait:
                waits.append(wait)
            elif not self._containers.is_stopping(name):
                due.append(self._containers.pod.container(name))
        if due:
            self._task = asyncio.create_task(self._start_all(due))
            self._task.add_done_callback(lambda _: self._containers.changed())
        return min(waits, default=None)

    def retry(self) -> None:
        """What containers are made from has changed: what could not be may be possible now."""
        self._not_before.clear()

    async def halt(self) -> None:
        """Start nothing more; return when nothing is being started."""
        self._halted.set()
        if self._task is not None:
            await asyncio.wait({self._task})

    def abandon(self) -> None:
        """Mind it no longer."""
        if self._task is not None:
            self._task.cancel()

    def _wait(self, name: str) -> float:
        loop = asyncio.get_running_loop()
        held = self._not_before.get(name, 0.0) - loop.time()
        if held > 0:
            return held
        run = self._containers.histories[name].latest
        if run is None or run.finished is None:
            return 0.0
        backoff = self._backoffs[name]
        left = backoff.remaining(run.finished, self._means.now())
        if left:
            pod = self._containers.pod
            delay = spoken_delay(backoff.delay)
            text = f"back-off {delay} restarting failed container={name} pod={pod.full_name}"
            if self._now_waits(name, "CrashLoopBackOff", text):
                message = f"Back-off restarting failed container {name} in pod {pod.full_name}"
                self._tell(name, "BackOff", message, warning=True)
        return left

    async def _start_all(self, containers: Sequence[Container]) -> None:
        for container in containers:
            if self._halted.is_set():
                return
            await self._start(container)
            self._containers.changed()

    async def _start(self, container: Container) -> None:
        name = container.name
        attempt = self._containers.histories[name].next_attempt
        spec = self._spec(container, attempt)
        if spec is None:
            return
        self._count_restart(name)
        for reason, text in () if attempt else self._place.shortfalls(container):
            self._tell(name, reason, text, warning=True)
        self._tell(name, "Created", "Container created")
        try:
            state = await self._means.runtime.start(spec)
        except StartFailed as error:
            failed = Run(
                attempt,
                run_id(self._containers.pod.uid, name, attempt),
                0.0,
                self._means.now(),
                _NOT_STARTED,
                error.reason,
                error.message,
            )
            await self._containers.began(container, failed)
            self._now_waits(name, "RunContainerError", error.message)
            self._tell(name, "Failed", f"Error: {error.message}", warning=True)
            return
        run = run_of(state)
        self._tell(name, "Started", "Container started")
        if container.lifecycle.post_start is not None:
            self._containers.in_hook.add(name)
        try:
            await self._containers.began(container, run)
            goes_on = await self._run_hook(container, run)
        finally:
            self._containers.in_hook.discard(name)
        latest = self._containers.histories[name].latest
        if goes_on and latest is not None and latest.is_running:
            self._containers.begin_probes(container)

    def _spec(self, container: Container, attempt: int) -> ContainerSpec | None:
        """What to run; None if it cannot be, which is then said."""
        name, loop = container.name, asyncio.get_running_loop()
        try:
            return self._place.spec(self._containers.pod, container, attempt)
        except NoCommand as error:
            reason, text, wait = "ErrImageNeverPull", str(error), math.inf
        except (ConfigError, NotEnough, OSError) as error:
            reason, text, wait = "CreateContainerConfigError", str(error), _RETRY_SECONDS
        self._not_before[name] = loop.time() + wait
        if self._now_waits(name, reason, text):
            self._tell(name, "Failed", f"Error: {text}", warning=True)
        return None

    async def _run_hook(self, container: Container, run: Run) -> bool:
        """Whether the postStart hook, where there is one, let the container go on."""
        hook = container.lifecycle.post_start
        if hook is None:
            return True
        name = container.name
        target = self._containers.target(container, run)
        running = asyncio.ensure_future(self._means.checks.run_hook(target, hook))
        halted = asyncio.ensure_future(self._halted.wait())
        try:
            await asyncio.wait({running, halted}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return True
        except HookFailed:
            # What it said could be a secret.
            self._tell(name, "FailedPostStartHook", "PostStartHook failed", warning=True)
            stop = Stop(name, "FailedPostStartHook", StopCause.OTHER, restart=False)
            self._now_waits(name, "PostStartHookError", "PostStartHook failed")
            self._containers.stop(stop)
            return False
        finally:
            running.cancel()
            halted.cancel()

    def _count_restart(self, name: str) -> None:
        run = self._containers.histories[name].latest
        if run is not None and run.finished is not None:
            self._backoffs[name].count(run.finished, self._means.now())

    def _now_waits(self, name: str, reason: str, message: str) -> bool:
        """Whether that is news."""
        waiting = Waiting(reason, message)
        news = self._containers.waiting.get(name) != waiting
        self._containers.waiting[name] = waiting
        return news

    def _tell(self, container: str, reason: str, message: str, *, warning: bool = False) -> None:
        self._means.tell(
            self._containers.pod, reason, message, container=container, warning=warning
        )
