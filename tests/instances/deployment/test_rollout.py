"""Which instances are created and deleted: tables of `desire`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest

from kilonova.api.inference_engine import EngineSpec, InferenceEngineInstance, UpdateStrategy
from kilonova.instances.controllers.deployment.desire import desire
from kilonova.instances.controllers.deployment.observed import CapacityEstimate
from kilonova.instances.controllers.deployment.rollout import RolloutBounds, resolve_bounds
from tests.instances.deployment.deployments import (
    START,
    condition_of,
    deployment,
    instances,
    message_of,
    observed,
    release_object,
    revision,
)

SURGE = UpdateStrategy(max_unavailable=0, max_surge=1)
RECREATE = UpdateStrategy(type="Recreate")
R1, R2 = revision("r1", 1), revision("r2", 2)


ROLLING = UpdateStrategy()


@dataclass(frozen=True)
class Case:
    """The step from `present`, as states of `instances`."""

    name: str
    present: Sequence[str]
    create: int = 0
    delete: Sequence[int] = ()
    """Indexes in `present`."""
    replicas: int = 3
    strategy: UpdateStrategy = ROLLING


ROLLING_CASES = (
    Case("nothing exists yet", (), create=3),
    Case("nothing differs", ["r2 ready"] * 3),
    Case("one is lost", ["r2 ready"] * 2, create=1),
    Case(
        "the newest goes first when all are ready",
        ["r2 ready"] * 3,
        delete=[2],
        replicas=2,
    ),
    Case(
        "scaling down: unallocatable, then not allocated, then not ready, then the newest",
        ["r2 waiting", "r2 starting", "r2 ready", "r2 unallocatable", "r2 ready"],
        delete=[3, 0, 1, 4],
        replicas=1,
    ),
    Case("scaling to zero", ["r2 ready", "r2 starting"], delete=[1, 0], replicas=0),
    Case("an update starts with one", ["r1 ready"] * 3, delete=[2]),
    Case("its place is taken", ["r1 ready"] * 2, create=1),
    Case("no other one goes before it is ready", ["r1 ready", "r1 ready", "r2 starting"]),
    Case("the next one goes when it is ready", ["r1 ready", "r1 ready", "r2 ready"], delete=[1]),
    Case(
        "outdated instances that are not ready go first",
        ["r1 starting", "r1 ready", "r1 ready"],
        delete=[0],
    ),
    Case(
        "those without a place go at once, as they have nothing to lose",
        ["r1 unallocatable", "r1 waiting", "r1 ready"],
        delete=[0, 1],
    ),
    Case(
        "a failing release is left one by one",
        ["r1 starting"] * 3,
        delete=[2],
    ),
    Case("none beyond the bound after a failure", ["r1 ready", "r1 starting", "r2 starting"]),
    Case("blocked: the others are kept", ["r1 ready", "r1 ready", "r2 unallocatable"]),
    Case("surge comes first", ["r1 ready"] * 3, create=1, strategy=SURGE),
    Case("and is awaited", ["r1 ready"] * 3 + ["r2 starting"], strategy=SURGE),
    Case("then one may go", ["r1 ready"] * 3 + ["r2 ready"], delete=[2], strategy=SURGE),
    Case(
        "a surge that cannot be placed costs nothing",
        ["r1 ready"] * 3 + ["r2 unallocatable"],
        strategy=SURGE,
    ),
    Case(
        "percentages: half unavailable of five is two",
        ["r1 ready"] * 5,
        delete=[4, 3],
        replicas=5,
        strategy=UpdateStrategy(max_unavailable="50%"),
    ),
    Case(
        "percentages: a surge is rounded up",
        ["r1 ready"] * 3,
        create=1,
        strategy=UpdateStrategy(max_unavailable="10%", max_surge="10%"),
    ),
    Case(
        "scaling down during an update takes outdated ones",
        ["r1 ready"] * 3 + ["r2 ready", "r2 ready"],
        delete=[2, 1, 0],
        replicas=2,
    ),
    Case("scaling up during an update", ["r1 ready", "r2 starting"], create=3, replicas=5),
    Case("terminating instances do not count", ["r1 ready terminating"], create=3),
    Case(
        "rollback: what could not be placed goes first",
        ["r2 ready", "r2 ready", "r1 unallocatable"],
        delete=[2],
    ),
)

RECREATE_CASES = (
    Case("all outdated ones go", ["r1 ready", "r1 ready", "r2 ready"], delete=[1, 0]),
    Case("the others wait until they are gone", ["r1 ready terminating", "r2 ready"]),
    Case("then they are created", ["r2 ready"], create=2),
    Case("an updated one that terminates delays nothing", ["r2 ready terminating"], create=3),
)

PAUSED_CASES = (
    Case("no update", ["r1 ready"] * 3),
    Case("lost instances are replaced", ["r1 ready"] * 2, create=1),
    Case("outdated ones go first", ["r2 ready", "r1 ready", "r1 ready"], delete=[2], replicas=2),
    Case(
        "but not before those that are not ready",
        ["r2 starting", "r1 ready"],
        delete=[0],
        replicas=1,
    ),
)


def check(case: Case, strategy: UpdateStrategy, *, paused: bool = False) -> None:
    of = deployment("r2", case.replicas, strategy=strategy, paused=paused)
    present = instances(*case.present)
    found = desire(observed(of, present, [R1, R2]), START)
    deleted = [each.name for each in found.delete]
    assert deleted == [present[each].metadata.name for each in case.delete]
    assert found.create == case.create


@pytest.mark.parametrize("case", ROLLING_CASES, ids=lambda case: case.name)
def test_rolling_replace(case: Case) -> None:
    check(case, case.strategy)


@pytest.mark.parametrize("case", RECREATE_CASES, ids=lambda case: case.name)
def test_recreate(case: Case) -> None:
    check(case, RECREATE)


@pytest.mark.parametrize("case", PAUSED_CASES, ids=lambda case: case.name)
def test_paused(case: Case) -> None:
    check(case, ROLLING, paused=True)


def test_paused_deployment_records_no_revision_and_keeps_its_number_of_instances() -> None:
    of = deployment("r2", paused=True)
    found = desire(observed(of, instances("r1 ready", "r1 ready"), [R1]), START)
    assert (found.delete, found.create, found.revision, found.record) == ((), 1, R1, None)
    assert condition_of(found.status, "Progressing") == ("Unknown", "DeploymentPaused")


@pytest.mark.parametrize(
    ("strategy", "replicas", "bounds"),
    [
        (UpdateStrategy(), 3, RolloutBounds(3, 1, 0)),
        (UpdateStrategy(), 0, RolloutBounds(0, 0, 0)),
        (SURGE, 3, RolloutBounds(3, 0, 1)),
        (UpdateStrategy(max_unavailable=0, max_surge=0), 3, RolloutBounds(3, 1, 0)),
        (UpdateStrategy(max_unavailable="10%"), 3, RolloutBounds(3, 1, 0)),
        (UpdateStrategy(max_unavailable="10%", max_surge="10%"), 3, RolloutBounds(3, 0, 1)),
        (UpdateStrategy(max_unavailable="100%"), 3, RolloutBounds(3, 3, 0)),
        (UpdateStrategy(max_unavailable=7), 3, RolloutBounds(3, 3, 0)),
        (RECREATE, 3, RolloutBounds(3, 0, 0)),
    ],
)
def test_bounds(strategy: UpdateStrategy, replicas: int, bounds: RolloutBounds) -> None:
    assert resolve_bounds(strategy, replicas) == bounds


def test_ready_instances_are_available_after_min_ready_seconds() -> None:
    strategy = UpdateStrategy(min_ready_seconds=30)
    of = deployment("r2", strategy=strategy)
    seen = observed(of, instances("r1 ready", "r1 ready", "r2 ready"), [R1, R2])
    early = desire(seen, START + timedelta(seconds=29))
    assert early.delete == ()
    assert early.requeue_after == 1
    late = desire(seen, START + timedelta(seconds=30))
    assert [each.name for each in late.delete] == ["r1-1"]


@pytest.mark.parametrize("strategy", [UpdateStrategy(), RECREATE], ids=["rolling", "recreate"])
def test_instances_are_kept_if_updated_ones_would_not_fit(strategy: UpdateStrategy) -> None:
    asked: list[list[str]] = []

    def estimate(
        template: EngineSpec, without: Sequence[InferenceEngineInstance]
    ) -> CapacityEstimate:
        assert template.release == "r2"
        asked.append([each.metadata.name for each in without])
        return CapacityEstimate(0, "0/2 nodes have 16 free GPUs", START)

    of = deployment("r2", strategy=strategy)
    seen = observed(of, instances(*["r1 ready"] * 3), [R1, R2], estimate=estimate)
    found = desire(seen, START)
    assert found.delete == ()
    assert asked[0] == (["r1-2"] if strategy.type == "RollingReplace" else ["r1-0", "r1-1", "r1-2"])
    assert condition_of(found.status, "AllocationBlocked") == ("True", "UpdateWouldNotFit")
    assert "3 outdated kept: 0/2 nodes have 16 free GPUs" in message_of(
        found.status, "AllocationBlocked"
    )
    assert found.status.additional_replicas == 0
    assert found.requeue_after == 15
    assert [each.reason for each in found.events if each.is_warning] == ["UpdateWouldNotFit"]


def test_update_goes_on_where_an_updated_instance_fits_in_the_place_of_an_outdated_one() -> None:
    def estimate(
        template: EngineSpec, without: Sequence[InferenceEngineInstance]
    ) -> CapacityEstimate:
        return CapacityEstimate(len(without), "", START)

    seen = observed(deployment("r2"), instances(*["r1 ready"] * 3), [R1, R2], estimate=estimate)
    assert [each.name for each in desire(seen, START).delete] == ["r1-2"]


def test_instances_of_a_missing_release_stay_and_lost_ones_are_replaced() -> None:
    of = deployment("r3", template=None)
    found = desire(observed(of, instances("r1 ready", "r1 ready"), [R1]), START)
    assert (found.delete, found.create) == ((), 1)
    assert found.revision == R1
    assert condition_of(found.status, "Progressing") == ("False", "ReleaseNotFound")
    assert message_of(found.status, "Progressing") == (
        "Release inference-engine/r3 does not exist: create it, or set spec.release to one that "
        "exists"
    )


def test_nothing_is_made_of_a_release_that_never_existed() -> None:
    found = desire(observed(deployment("r3", template=None)), START)
    assert (found.create, found.record, found.status.current_revision) == (0, None, None)
    assert condition_of(found.status, "Available") == ("False", "MinimumReplicasUnavailable")


def test_release_gives_the_template() -> None:
    of = deployment("r2", template=None)
    found = desire(observed(of, release=release_object("r2", image="engine:2")), START)
    assert found.create == 3
    assert found.record is not None
    assert found.record.template.spec.image == "engine:2"
    assert found.record.template.spec.release == "r2"
    assert found.record.template.is_inline is False


def test_invalid_bound_stops_updates_alone() -> None:
    of = deployment("r2", strategy=UpdateStrategy(max_unavailable="some"))
    found = desire(observed(of, instances("r1 ready", "r1 ready"), [R1]), START)
    assert (found.delete, found.create) == ((), 1)
    assert condition_of(found.status, "Progressing") == ("False", "InvalidStrategy")
    assert "write a number, or a percentage like 25%" in message_of(found.status, "Progressing")
