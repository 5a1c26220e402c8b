"""What holds of every rollout, in whatever order instances become ready, fail and are deleted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.api.inference_engine import (
    InferenceEngineDeployment,
    InferenceEngineDeploymentStatus,
    InferenceEngineInstance,
    UpdateStrategy,
)
from kilonova.instances.controllers.deployment.desire import DeploymentPlan, desire
from kilonova.instances.controllers.deployment.revisions import DeploymentRevision
from kilonova.instances.controllers.deployment.rollout import resolve_bounds
from tests.instances.deployment.deployments import START, deployment, instance, observed

STRATEGIES = st.builds(
    UpdateStrategy,
    type=st.sampled_from(["RollingReplace", "Recreate"]),
    max_unavailable=st.sampled_from([None, 0, 1, 2, "25%", "50%", "100%"]),
    max_surge=st.sampled_from([None, 0, 1, 2, "25%"]),
    min_ready_seconds=st.sampled_from([0, 30]),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("ready"), st.integers(0, 9)),
        st.tuples(st.just("fail"), st.integers(0, 9)),
        st.tuples(st.just("unallocatable"), st.integers(0, 9)),
        st.tuples(st.just("waiting"), st.integers(0, 9)),
        st.tuples(st.just("lost"), st.integers(0, 9)),
        st.tuples(st.just("gone"), st.integers(0, 9)),
        st.tuples(st.just("wait"), st.integers(1, 60)),
        st.tuples(st.just("release"), st.integers(1, 3)),
        st.tuples(st.just("scale"), st.integers(0, 5)),
        st.tuples(st.just("pause"), st.integers(0, 1)),
    ),
    max_size=25,
)


@dataclass
class SimulatedInstance:
    """An instance: its state changes, and it needs a while to terminate."""

    name: str
    release: str
    created: datetime
    state: str = "starting"
    since: datetime = START
    terminating: bool = False

    @property
    def is_ready(self) -> bool:
        return self.state == "ready" and not self.terminating

    def build(self) -> InferenceEngineInstance:
        return instance(
            self.name,
            self.release,
            self.state,
            created=self.created,
            ready_since=self.since,
            terminating=self.terminating,
        )


@dataclass
class SimulatedDeployment:
    """A deployment whose plans are carried out."""

    strategy: UpdateStrategy
    replicas: int
    release: str = "r1"
    paused: bool = False
    now: datetime = START
    status: InferenceEngineDeploymentStatus = field(default_factory=InferenceEngineDeploymentStatus)
    instances: list[SimulatedInstance] = field(default_factory=list[SimulatedInstance])
    revisions: list[DeploymentRevision] = field(default_factory=list[DeploymentRevision])
    created: int = 0

    @property
    def present(self) -> list[SimulatedInstance]:
        return [each for each in self.instances if not each.terminating]

    def build(self) -> InferenceEngineDeployment:
        return deployment(
            self.release,
            self.replicas,
            strategy=self.strategy,
            status=self.status,
            paused=self.paused,
        )

    def reconcile(self) -> DeploymentPlan:
        """Carry out the next plan."""
        seen = observed(self.build(), [each.build() for each in self.instances], self.revisions)
        plan = desire(seen, self.now)
        if plan.record is not None:
            others = [each for each in self.revisions if each.name != plan.record.name]
            self.revisions = [*others, plan.record]
        deleted = {each.name for each in plan.delete}
        for each in self.instances:
            each.terminating = each.terminating or each.name in deleted
        for _ in range(plan.create):
            assert plan.revision is not None
            self.created += 1
            self.instances.append(
                SimulatedInstance(f"i{self.created}", plan.revision.release, self.now)
            )
        forgotten = {each.name for each in plan.forget}
        self.revisions = [each for each in self.revisions if each.name not in forgotten]
        self.status = plan.status
        return plan

    def act(self, action: str, value: int) -> None:
        """Something happens to the deployment, or to one of its instances."""
        if action == "wait":
            self.now += timedelta(seconds=value)
        elif action == "release":
            self.release = f"r{value}"
        elif action == "scale":
            self.replicas = value
        elif action == "pause":
            self.paused = bool(value)
        elif action == "gone":
            going = [each for each in self.instances if each.terminating]
            if going:
                self.instances.remove(going[value % len(going)])
        elif self.present:
            self._change(action, self.present[value % len(self.present)])

    def _change(self, action: str, target: SimulatedInstance) -> None:
        if action == "lost":
            self.instances.remove(target)
        elif action == "ready" and target.state != "ready":
            target.state, target.since = "ready", self.now
        elif action == "fail":
            target.state = "starting"
        elif action in ("unallocatable", "waiting") and target.state != "ready":
            target.state = action


def is_available(each: SimulatedInstance, of: SimulatedDeployment) -> bool:
    ready_for = (of.now - each.since).total_seconds()
    return each.is_ready and ready_for >= of.strategy.min_ready_seconds


def check_step(of: SimulatedDeployment) -> None:
    """Reconcile, and check what the deployment did by itself."""
    before = {each.name: (each.is_ready, is_available(each, of)) for each in of.present}
    count = len(of.present)
    plan = of.reconcile()
    deleted = [each.name for each in plan.delete]
    assert all(name in before for name in deleted)
    bounds = resolve_bounds(of.strategy, of.replicas)
    recreates = of.strategy.type == "Recreate" and not of.paused
    if not recreates:
        ready = sum(1 for each in of.present if each.is_ready)
        available = sum(1 for each in of.present if is_available(each, of))
        if any(before[name][0] for name in deleted):
            assert ready >= bounds.min_available
        if any(before[name][1] for name in deleted):
            assert available >= bounds.min_available
    if plan.create:
        assert len(of.present) <= bounds.replicas + bounds.max_surge
        assert len(of.present) + len(deleted) == count + plan.create


def settle(of: SimulatedDeployment) -> None:
    """From now on all goes well: instances start, and those that are deleted go."""
    of.paused = False
    for _ in range(40):
        check_step(of)
        of.instances = of.present
        for each in of.present:
            if each.state != "ready":
                each.state, each.since = "ready", of.now
        of.now += timedelta(seconds=61)


@given(STRATEGIES, st.integers(0, 5), ACTIONS)
@settings(max_examples=200, deadline=None)
def test_rollouts_keep_their_bounds_and_end_with_the_right_instances(
    strategy: UpdateStrategy, replicas: int, actions: Sequence[tuple[str, int]]
) -> None:
    of = SimulatedDeployment(strategy, replicas)
    check_step(of)
    for action, value in actions:
        of.act(action, value)
        check_step(of)
    settle(of)
    assert [each.release for each in of.present] == [of.release] * of.replicas
    plan = of.reconcile()
    assert (plan.delete, plan.create, plan.record) == ((), 0, None)
    progressing = next(each for each in plan.status.conditions if each.type == "Progressing")
    assert (progressing.status, progressing.reason) == ("True", "NewRevisionAvailable")


@given(STRATEGIES, st.integers(1, 5), ACTIONS)
@settings(max_examples=100, deadline=None)
def test_instances_that_cannot_be_placed_never_cost_more_than_the_bound(
    strategy: UpdateStrategy, replicas: int, actions: Sequence[tuple[str, int]]
) -> None:
    """An update to a release without a place, and no other failures."""
    if strategy.type == "Recreate":
        return
    of = SimulatedDeployment(strategy, replicas)
    settle(of)
    of.release = "r2"
    bounds = resolve_bounds(strategy, replicas)
    for action, value in actions:
        for each in of.present:
            if each.release == "r2":
                each.state = "unallocatable"
        if action in ("wait", "gone"):
            of.act(action, value)
        check_step(of)
        serving = sum(1 for each in of.present if each.release == "r1" and each.is_ready)
        assert serving >= bounds.min_available


def test_simulation_reaches_every_kind_of_step() -> None:
    """So that the properties are about something."""
    of = SimulatedDeployment(UpdateStrategy(), 3)
    settle(of)
    of.release = "r2"
    check_step(of)
    assert [each.terminating for each in of.instances] == [False, False, True]
