"""The containers of one pod while the kubelet knows it: their runs, and what is known of them.

Runs are followed to their end, and probed meanwhile. Starting and ending is in `starting` and
`ending`; whatever happens, the worker is woken to look again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from kilonova.kube.logging import get_logger
from kilonova.local.nodes.process.kubelet.checks import Outcome, Target
from kilonova.local.nodes.process.kubelet.containerstatus import Seen, Waiting, will_restart
from kilonova.local.nodes.process.kubelet.ending import Grace, end_container, grace_seconds
from kilonova.local.nodes.process.kubelet.lastwords import MOST_BYTES, termination_message
from kilonova.local.nodes.process.kubelet.launching import PodPlace
from kilonova.local.nodes.process.kubelet.means import Means, log_file
from kilonova.local.nodes.process.kubelet.pods import Container, Pod, Probe, is_sidecar
from kilonova.local.nodes.process.kubelet.probes import ContainerProbes, Told
from kilonova.local.nodes.process.kubelet.runs import LOST, History, Run, recovered, run_of
from kilonova.local.nodes.process.kubelet.sequence import HEALTHY, Health, Stop, turns
from kilonova.local.nodes.process.runtime import ContainerState, UnknownContainer

_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


class Containers:
    """What is known of a pod's containers; `changed` is called when that is something new."""

    def __init__(
        self,
        means: Means,
        pod: Pod,
        place: PodPlace,
        states: Sequence[ContainerState],
        changed: Callable[[], None],
    ) -> None:
        self.pod = pod
        self.waiting: dict[str, Waiting] = {}
        """Why those that should run do not."""
        self.in_hook: set[str] = set()
        self.restarting: set[str] = set()
        """Those that a probe ended: they start again, however they took it."""
        self.histories: dict[str, History] = recovered(pod, states, means.now())
        self.changed = changed
        self._means = means
        self._place = place
        self._kept = {state.id for state in states}
        self._probes: dict[str, tuple[ContainerProbes, asyncio.Task[None]]] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._stopping: dict[str, asyncio.Task[None]] = {}

    def recover(self) -> None:
        """Go on with what runs since before the kubelet started."""
        for container in self.pod.all_containers:
            history = self.histories[container.name]
            latest, previous = history.latest, history.previous
            if latest is not None and latest.is_running:
                self._follow(container, latest)
                self.begin_probes(container)
            elif latest is not None and latest.id in self._kept:
                latest = self._with_last_words(container, latest)
            if previous is not None and previous.id in self._kept:
                previous = self._with_last_words(container, previous)
            self.histories[container.name] = History(latest, previous)

    def take(self, pod: Pod) -> None:
        """The pod has changed; it may have more containers now."""
        self.pod = pod
        for container in pod.all_containers:
            self.histories.setdefault(container.name, History())

    @property
    def have_run(self) -> bool:
        """Whether any of them has ever run."""
        return any(each.latest is not None for each in self.histories.values())

    @property
    def any_runs(self) -> bool:
        """Whether any of them runs now."""
        return any(each.latest and each.latest.is_running for each in self.histories.values())

    def is_stopping(self, name: str) -> bool:
        return name in self._stopping

    def is_running(self, run: Run) -> bool:
        """Whether a run goes on, as far as is known."""
        return any(each.latest == run and run.is_running for each in self.histories.values())

    def health(self) -> dict[str, Health]:
        """What probes say of each."""
        return {
            name: self._probes[name][0].health if name in self._probes else HEALTHY
            for name in self.histories
        }

    def seen(self) -> dict[str, Seen]:
        """Each as it is now."""
        health = self.health()
        return {
            name: Seen(history, health[name], self.waiting.get(name), name in self.in_hook)
            for name, history in self.histories.items()
        }

    def last_ended(self, name: str) -> Run | None:
        """The run before the one that people see: what `logs --previous` is about."""
        history = self.histories[name]
        latest = history.latest
        if latest is None or latest.is_running or name not in self.waiting:
            return history.previous
        return (
            latest if will_restart(self.pod, self.pod.container(name), latest) else history.previous
        )

    def target(self, container: Container, run: Run) -> Target:
        """A running container, for probes and hooks."""
        return Target(container, run.id, self._place.address)

    async def began(self, container: Container, run: Run) -> None:
        """There is a new run; of the older ones, one is remembered."""
        old = self.histories[container.name].previous
        self.histories[container.name] = self.histories[container.name].began(run)
        self.waiting.pop(container.name, None)
        self.restarting.discard(container.name)
        if run.is_running:
            self._kept.add(run.id)
            self._follow(container, run)
        if old is not None:
            await self._forget(old.id)
            self._place.forget_run(container.name, old.attempt)

    def begin_probes(self, container: Container) -> None:
        """Probe the present run."""
        run = self.histories[container.name].latest
        assert run is not None
        target = self.target(container, run)

        async def check(probe: Probe) -> Outcome:
            return await self._means.checks.probe(target, probe)

        def tell(told: Told) -> None:
            self._means.tell(
                self.pod, told.reason, told.message, container=container.name, warning=True
            )

        probes = ContainerProbes(
            container,
            run,
            self.pod.reported(container.name),
            check,
            now=self._means.now,
            changed=self.changed,
            tell=tell,
        )
        self.end_probes(container.name)
        self._probes[container.name] = (probes, asyncio.create_task(probes.run()))

    def end_probes(self, name: str) -> None:
        """Find out nothing more about a container."""
        found = self._probes.pop(name, None)
        if found is not None:
            found[1].cancel()

    def stop(self, stop: Stop) -> None:
        """End one container, while the pod goes on."""
        container, run = self.pod.container(stop.name), self.histories[stop.name].latest
        if stop.name in self._stopping or run is None or not run.is_running:
            return
        if stop.restart:
            self.restarting.add(stop.name)
        grace = Grace(grace_seconds(self.pod, container, stop.cause))
        ending = end_container(
            self._means,
            self.pod,
            self.target(container, run),
            self._watches[run.id],
            grace,
            message=stop.message,
        )
        task = self._stopping[stop.name] = asyncio.create_task(ending)
        task.add_done_callback(lambda _: self._stopping.pop(stop.name, None))

    async def end(self, grace: Grace) -> None:
        """End all that run, sidecars last."""
        for probes, _ in self._probes.values():
            probes.leave()
        running = {
            name: history.latest
            for name, history in self.histories.items()
            if history.latest is not None and history.latest.is_running
        }
        awaited = turns(self.pod, running)
        async with asyncio.TaskGroup() as group:
            for name, run in running.items():
                after = [self._watches[running[each].id] for each in awaited[name]]
                group.create_task(self._end(name, run, grace, after))

    async def forget(self) -> None:
        """Let the runtime forget them all."""
        for run in list(self._kept):
            await self._forget(run)

    def abandon(self) -> None:
        """Mind them no longer; they go on."""
        tasks = [task for _, task in self._probes.values()]
        for task in (*tasks, *self._watches.values(), *self._stopping.values()):
            task.cancel()

    async def _end(
        self, name: str, run: Run, grace: Grace, after: Sequence[asyncio.Task[None]]
    ) -> None:
        watch = self._watches[run.id]
        if name in self._stopping:
            if not await grace.outlasts(watch):
                await self._means.runtime.kill(run.id)
                await asyncio.wait({watch})
            return
        target = self.target(self.pod.container(name), run)
        await end_container(self._means, self.pod, target, watch, grace, after=after)

    def _follow(self, container: Container, run: Run) -> None:
        self._watches[run.id] = asyncio.create_task(self._until_ended(container, run))

    async def _until_ended(self, container: Container, run: Run) -> None:
        ended = self._with_last_words(container, await self._end_of(run))
        name = container.name
        self.histories[name] = self.histories[name].changed(ended)
        self.end_probes(name)
        if self.pod.is_init(name) and not is_sidecar(container) and ended.succeeded:
            self._place.release_gpus(name)
        del self._watches[run.id]
        self.changed()

    async def _end_of(self, run: Run) -> Run:
        while True:
            try:
                return run_of(await self._means.runtime.wait(run.id))
            except UnknownContainer:
                message = "The container could not be located when the pod was terminated"
                now = self._means.now()
                return replace(run, finished=now, exit_code=137, reason=LOST, message=message)
            except Exception as error:
                _log.warning("cannot follow a container, will try again", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    def _with_last_words(self, container: Container, run: Run) -> Run:
        left = self._place.last_words(container.name, run.attempt, MOST_BYTES)
        log = log_file(self._place.folder, container.name, run.attempt)
        words = termination_message(container, run.exit_code, left, log)
        return replace(run, message=": ".join(filter(None, (run.message, words))))

    async def _forget(self, run: str) -> None:
        if run in self._kept:
            try:
                await self._means.runtime.forget(run)
            except UnknownContainer:
                _log.info("a container was forgotten before", run=run)
            self._kept.discard(run)
