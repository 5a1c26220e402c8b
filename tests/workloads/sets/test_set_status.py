"""What the status of a set says."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet, PodCliqueSetStatus
from kilonova.api.grove.podcliqueset import (
    SetRollingUpdate,
    SetUpdateProgress,
    UpdateStrategy,
    UpdatingReplica,
)
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang, PodGangSpec, PodGangStatus
from kilonova.workloads.conditions import find_condition, holds
from kilonova.workloads.sets.status import Facts, finished_at, set_status, stuck_at
from kilonova.workloads.sets.view import ReplicaView
from kilonova.workloads.templates.topology import Levels
from tests.workloads.builders import clique, group, metadata, pod_clique_set

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
THEN = "2026-05-01T11:00:00Z"


def view(index: int, **fields: Any) -> ReplicaView:
    return ReplicaView(index, present=True, **fields)


def status_of(set_: PodCliqueSet, *views: ReplicaView, **facts: Any) -> PodCliqueSetStatus:
    all_facts: dict[str, Any] = {"progress": None, "gangs": [], "levels": Levels(), **facts}
    replicas = {each.index: each for each in views}
    return set_status(set_, Facts(hash="h", replicas=replicas, **all_facts), NOW)


def gang(name: str, phase: Any = "Running") -> PodGang:
    conditions = (Condition("Ready", "True"),)
    return PodGang(metadata(name), PodGangSpec(()), PodGangStatus(phase, conditions))


def test_replicas_are_counted_that_should_be_there() -> None:
    set_ = pod_clique_set(replicas=2)
    status = status_of(
        set_,
        view(0, available=True, updated=True),
        view(1, available=True),
        view(2, available=True),
    )
    assert (status.replicas, status.available_replicas, status.updated_replicas) == (2, 2, 1)
    assert (status.current_generation_hash, status.observed_generation) == ("h", 1)
    assert status.update_progress is None


def test_replicas_are_those_asked_for_however_many_are_there() -> None:
    assert status_of(pod_clique_set(replicas=3), view(0)).replicas == 3
    assert status_of(pod_clique_set(replicas=0), view(0)).replicas == 0
    progress = SetUpdateProgress(update_started_at=THEN)
    strategy = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=1))
    surging = pod_clique_set(replicas=1, update_strategy=strategy)
    assert status_of(surging, view(0), view(1), progress=progress).replicas == 1


def test_replicas_of_a_surge_are_counted_as_long_as_it_lasts() -> None:
    strategy = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=2))
    set_ = pod_clique_set(
        clique("a"), clique("b"), groups=[group("g", "b")], replicas=2, update_strategy=strategy
    )
    updated = {"available": True, "updated": True, "updated_cliques": 1, "updated_groups": 1}
    views = [view(0), view(1, available=True), *(view(each, **updated) for each in (2, 3, 4))]
    under_way = SetUpdateProgress(update_started_at=THEN)
    status = status_of(set_, *views, progress=under_way)
    # Two that were asked for and two of the surge; the fifth is on its way out.
    assert (status.available_replicas, status.updated_replicas) == (3, 2)
    progress = status.update_progress
    assert progress is not None
    assert (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) == (2, 4)
    assert progress.updated_pod_clique_scaling_groups_count == 2
    assert progress.total_pod_clique_scaling_groups_count == 4
    ended = status_of(set_, *views, progress=replace(under_way, update_ended_at=THEN))
    assert (ended.available_replicas, ended.updated_replicas) == (1, 0)
    assert ended.update_progress is not None
    assert ended.update_progress.total_pod_cliques_count == 2


def test_progress_counts_cliques_and_groups_of_all_replicas() -> None:
    set_ = pod_clique_set(
        clique("a"), clique("b"), clique("c"), groups=[group("g", "c")], replicas=3
    )
    progress = status_of(
        set_,
        view(0, updated_cliques=2, updated_groups=1),
        view(1, updated_cliques=1),
        progress=SetUpdateProgress(update_started_at=THEN),
    ).update_progress
    assert progress is not None
    assert (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) == (3, 6)
    assert progress.updated_pod_clique_scaling_groups_count == 1
    assert progress.total_pod_clique_scaling_groups_count == 3


def test_gangs_are_told_by_name_with_conditions_if_they_are_few() -> None:
    set_ = pod_clique_set()
    few = status_of(set_, gangs=[gang("b", "Pending"), gang("a")]).pod_gang_statuses
    assert [(each.name, each.phase) for each in few] == [("a", "Running"), ("b", "Pending")]
    assert all(holds(each.conditions, "Ready") for each in few)
    many = status_of(set_, gangs=[gang(f"g{each}") for each in range(51)]).pod_gang_statuses
    assert len(many) == 51
    assert not any(each.conditions for each in many)


def test_topology_condition_is_there_only_where_something_is_constrained() -> None:
    set_ = pod_clique_set()
    assert status_of(set_).conditions == ()
    missing = Levels("plant", {}, "ClusterTopologyLevelsUnavailable", "no rack", ("rack",))
    [condition] = status_of(set_, levels=missing).conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "TopologyLevelsUnavailable",
        "True",
        "ClusterTopologyLevelsUnavailable",
        "no rack",
    )


def test_set_is_complete_when_all_replicas_are() -> None:
    set_ = pod_clique_set(replicas=2)
    one = view(0, complete=True)
    assert finished_at(status_of(set_, one)) is None
    status = status_of(set_, one, view(1, complete=True))
    assert holds(status.conditions, "Complete")
    assert finished_at(status) == NOW
    assert not holds(status_of(pod_clique_set(replicas=0)).conditions, "Complete")


def test_set_has_failed_when_one_replica_has() -> None:
    status = status_of(pod_clique_set(replicas=2), view(0), view(1, failed=True))
    condition = find_condition(status.conditions, "Failed")
    assert condition is not None
    assert "replica 1" in condition.message
    assert finished_at(status) == NOW


def test_condition_goes_when_it_no_longer_holds() -> None:
    set_ = pod_clique_set(
        status=PodCliqueSetStatus(
            conditions=(Condition("Failed", "True"), Condition("Complete", "True"))
        )
    )
    assert status_of(set_, view(0)).conditions == ()


def updating(deadline: str | None, *turns: UpdatingReplica) -> PodCliqueSet:
    progress = SetUpdateProgress(update_started_at=THEN, currently_updating=turns)
    strategy = UpdateStrategy(rolling_update=SetRollingUpdate(progress_deadline=deadline))
    status = PodCliqueSetStatus(update_progress=progress)
    return pod_clique_set(update_strategy=strategy, status=status)


def test_update_is_stuck_when_no_turn_comes_or_ends_for_too_long() -> None:
    started = datetime(2026, 5, 1, 11, tzinfo=UTC)
    for deadline, turns, when in [
        (None, [], None),
        ("10m", [], started + timedelta(minutes=10)),
        ("10m", [UpdatingReplica(3, "2026-05-01T11:30:00Z")], started + timedelta(minutes=40)),
    ]:
        set_ = updating(deadline, *turns)
        assert stuck_at(set_, set_.status.update_progress) == when


def test_stuck_update_says_which_replica_it_waits_for() -> None:
    set_ = updating("10m", UpdatingReplica(3, THEN))
    status = status_of(set_, progress=set_.status.update_progress)
    condition = find_condition(status.conditions, "UpdateInProgress")
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", "ProgressDeadlineExceeded")
    assert "replica 3" in condition.message


def test_update_that_ends_is_in_progress_no_longer() -> None:
    set_ = updating("10m")
    progress = replace(set_.status.update_progress or SetUpdateProgress(), update_ended_at=THEN)
    condition = find_condition(status_of(set_, progress=progress).conditions, "UpdateInProgress")
    assert condition is not None
    assert condition.status == "False"
