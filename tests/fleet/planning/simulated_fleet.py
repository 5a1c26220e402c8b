"""A fleet in virtual time: `plan_fleet` with simulated members, without a store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from kilonova.api.fleet import AcceleratorCount, Cluster, ClusterSpec, ClusterStatus
from kilonova.api.inference_engine import (
    Accelerator,
    ClusterDeploymentStatus,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    EngineSpec,
    Release,
)
from kilonova.api.meta import Metadata
from kilonova.fleet.documents import (
    DesiredDeployment,
    Observed,
    ObservedDeployment,
    ReleaseCount,
)
from kilonova.fleet.planning import ClusterInput, FleetEvent, FleetInput, FleetPlan, plan_fleet

NAMESPACE = "inference-engine"
RESOURCE = "nvidia.com/gpu"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEP = 5.0


def metadata(name: str, namespace: str = NAMESPACE, generation: int = 1) -> Metadata:
    return Metadata(name, f"uid-{name}", "1", namespace=namespace, generation=generation)


def release(name: str, agents: int = 2) -> Release:
    return Release(
        metadata(name),
        EngineSpec(model="m", target_agents=agents, accelerator=Accelerator(count=1)),
    )


@dataclass
class Instances:
    """The instances of one deployment in a simulated member."""

    desired: DesiredDeployment
    running: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """By release, for each placed instance the steps until it is ready."""


@dataclass
class SimulatedMember:
    """Runs what it is told, within its accelerators."""

    name: str
    accelerators: int = 1000
    startup_steps: int = 2
    is_silent: bool = False
    """It goes on, but neither reads nor writes the store."""
    is_down: bool = False
    """It does nothing at all."""
    reason: str = ""
    failing_releases: set[str] = field(default_factory=set[str])
    """Their instances fail once they are ready."""
    stuck_releases: set[str] = field(default_factory=set[str])
    """Their instances never become ready."""
    sequence: int = 0
    instances: dict[tuple[str, str], Instances] = field(
        default_factory=dict[tuple[str, str], Instances]
    )

    def read(self, desired: tuple[DesiredDeployment, ...]) -> None:
        wanted = {(each.namespace, each.name): each for each in desired}
        for key in [key for key in self.instances if key not in wanted]:
            del self.instances[key]
        for key, each in wanted.items():
            self.instances.setdefault(key, Instances(each)).desired = each

    def step(self) -> None:
        for found in self.instances.values():
            self._update(found)
            for name, delays in found.running.items():
                if name not in self.stuck_releases:
                    found.running[name] = [max(0, delay - 1) for delay in delays]

    def _update(self, found: Instances) -> None:
        wanted, running = found.desired, found.running
        for name in [name for name in running if name != wanted.release]:
            # A rolling replacement, one instance at a time.
            current = running.setdefault(wanted.release, [])
            if all(delay == 0 for delay in current) or wanted.release in self.failing_releases:
                if running[name]:
                    running[name].pop()
                    current.append(self.startup_steps)
                if not running[name]:
                    del running[name]
            break
        current = running.setdefault(wanted.release, [])
        while sum(map(len, running.values())) > wanted.replicas:
            list_ = next((each for each in running.values() if each is not current and each), None)
            (list_ or current).remove(max(list_ or current))
        while sum(map(len, running.values())) < wanted.replicas and self.free >= size(wanted):
            current.append(self.startup_steps)
        while self.free < 0 and any(running.values()):
            next(each for each in running.values() if each).pop()

    @property
    def free(self) -> int:
        used = sum(
            size(each.desired) * len(delays)
            for each in self.instances.values()
            for delays in each.running.values()
        )
        return self.accelerators - used

    def ready(self, name: str = "chat") -> int:
        found = self.instances.get((NAMESPACE, name))
        return 0 if found is None else self._count_ready(found)

    def _count_ready(self, found: Instances) -> int:
        return sum(
            delays.count(0)
            for release_name, delays in found.running.items()
            if release_name not in self.failing_releases
        )

    def report(self) -> Observed:
        self.sequence += 1
        return Observed(
            cluster=self.name,
            sequence=self.sequence,
            nodes=1,
            reason=self.reason,
            accelerators=(AcceleratorCount(RESOURCE, self.accelerators, max(0, self.free)),),
            deployments=tuple(self._report(each) for each in self.instances.values()),
        )

    def _report(self, found: Instances) -> ObservedDeployment:
        wanted = found.desired
        placed = sum(map(len, found.running.values()))
        replicas = max(placed, wanted.replicas)
        failing = sum(
            delays.count(0)
            for name, delays in found.running.items()
            if name in self.failing_releases
        )
        return ObservedDeployment(
            namespace=wanted.namespace,
            name=wanted.name,
            global_deployment=wanted.global_deployment,
            release=wanted.release,
            releases=tuple(
                ReleaseCount(name, len(delays)) for name, delays in found.running.items() if delays
            ),
            replicas=replicas,
            placed=placed,
            ready=self._count_ready(found),
            updated=len(found.running.get(wanted.release, ())) + replicas - placed,
            failing=failing,
            unallocatable=replicas - placed,
            additional_replicas=max(0, self.free) // size(wanted),
            message="" if self.free >= size(wanted) else "insufficient accelerators",
        )


def size(desired: DesiredDeployment) -> int:
    return desired.template.target_agents or 1


class SimulatedFleet:
    """Members, the objects of the hub, and the state that passes hand on."""

    def __init__(
        self, members: Mapping[str, int], regions: Mapping[str, str] | None = None
    ) -> None:
        self.now = START
        self.observing_since = START
        self.calm_since: datetime | None = None
        self.members = {name: SimulatedMember(name, size) for name, size in members.items()}
        self.clusters = {
            name: Cluster(
                metadata(name, ""),
                ClusterSpec(region=(regions or {}).get(name, "")),
                ClusterStatus(),
            )
            for name in members
        }
        self.releases = {each.metadata.name: each for each in (release("v1"), release("v2"))}
        self.deployments: dict[str, Deployment] = {}
        self.observed: dict[str, Observed] = {}
        self.desired: dict[str, tuple[DesiredDeployment, ...]] = dict.fromkeys(members, ())
        self.events: list[FleetEvent] = []
        self.plan: FleetPlan | None = None

    def deploy(self, name: str = "chat", **spec: object) -> None:
        """Create a deployment, or change the fields of its spec."""
        old = self.deployments.get(name)
        if old is None:
            fields = replace(DeploymentSpec(release="v1", replicas=4), **spec)
            self.deployments[name] = Deployment(metadata(name), fields, DeploymentStatus())
            return
        generation = old.metadata.generation + 1
        self.deployments[name] = Deployment(
            replace(old.metadata, generation=generation), replace(old.spec, **spec), old.status
        )

    def configure(self, cluster: str, **spec: object) -> None:
        """Change the spec of a cluster."""
        old = self.clusters[cluster]
        self.clusters[cluster] = Cluster(old.metadata, replace(old.spec, **spec), old.status)

    def run(self, seconds: float) -> None:
        """Let time pass, with a pass and reports at each step."""
        for _ in range(int(seconds / STEP)):
            self.step()

    def step(self) -> None:
        for member in self.members.values():
            if member.is_down:
                continue
            if not member.is_silent:
                member.read(self.desired[member.name])
            member.step()
            if not member.is_silent:
                self.observed[member.name] = member.report()
        self.pass_once()
        self.now += timedelta(seconds=STEP)

    def pass_once(self) -> FleetPlan:
        plan = plan_fleet(self.build_input())
        self.plan = plan
        self.calm_since = plan.calm_since
        for name, status in plan.clusters.items():
            old = self.clusters[name]
            self.clusters[name] = Cluster(old.metadata, old.spec, status)
        for (_, name), status in plan.deployments.items():
            old_deployment = self.deployments[name]
            self.deployments[name] = Deployment(
                old_deployment.metadata, old_deployment.spec, status
            )
        for (_, name), status in plan.releases.items():
            old_release = self.releases[name]
            self.releases[name] = Release(old_release.metadata, old_release.spec, status)
        self.desired.update(plan.desired)
        self.events += plan.events
        return plan

    def build_input(self) -> FleetInput:
        return FleetInput(
            clusters=[
                ClusterInput(each, self.observed.get(name), self.desired[name])
                for name, each in self.clusters.items()
            ],
            deployments=list(self.deployments.values()),
            releases={(NAMESPACE, name): each for name, each in self.releases.items()},
            now=self.now,
            observing_since=self.observing_since,
            calm_since=self.calm_since,
        )

    def restart_manager(self) -> None:
        """Another manager continues: only what is in the statuses is left."""
        self.observing_since = self.now
        self.calm_since = None

    def status(self, name: str = "chat") -> DeploymentStatus:
        return self.deployments[name].status

    def cell(self, cluster: str, name: str = "chat") -> ClusterDeploymentStatus:
        found = (each for each in self.status(name).clusters if each.cluster == cluster)
        return next(found, ClusterDeploymentStatus(cluster))

    def counts(self, name: str = "chat") -> dict[str, int]:
        """The desired instances by cluster."""
        return {each.cluster: each.desired for each in self.status(name).clusters if each.desired}

    def ready(self, name: str = "chat") -> int:
        """Instances that are ready, whether or not the manager knows it."""
        return sum(each.ready(name) for each in self.members.values() if not each.is_down)

    def health(self, cluster: str) -> str:
        return self.clusters[cluster].status.health

    def reasons(self, name: str = "chat") -> list[str]:
        return [each.reason for each in self.events if each.name == name]

    def condition(self, type_: str, name: str = "chat") -> tuple[str, str]:
        found = next(each for each in self.status(name).conditions if each.type == type_)
        return found.status, found.reason
