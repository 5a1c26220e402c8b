"""The status of a set."""

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
from kilonova.kube.status import find_condition, is_condition_true
from kilonova.workloads.builders.topology_levels import ResolvedLevels
from kilonova.workloads.controllers.podcliqueset.replica_state import ReplicaState
from kilonova.workloads.controllers.podcliqueset.status import (
    StatusInputs,
    build_status,
    compute_progress_deadline,
    get_finish_time,
)
from tests.workloads.api_objects import clique, group, metadata, pod_clique_set

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
THEN = "2026-05-01T11:00:00Z"


def build_replica_state(index: int, **fields: Any) -> ReplicaState:
    return ReplicaState(index, present=True, **fields)


def build_set_status(
    set_: PodCliqueSet, *states: ReplicaState, **inputs: Any
) -> PodCliqueSetStatus:
    all_inputs: dict[str, Any] = {
        "progress": None,
        "gangs": [],
        "levels": ResolvedLevels(),
        **inputs,
    }
    replicas = {each.index: each for each in states}
    return build_status(set_, StatusInputs(hash="h", replicas=replicas, **all_inputs), NOW)


def build_gang(name: str, phase: Any = "Running") -> PodGang:
    conditions = (Condition("Ready", "True"),)
    return PodGang(metadata(name), PodGangSpec(()), PodGangStatus(phase, conditions))


def test_only_desired_replicas_are_counted() -> None:
    set_ = pod_clique_set(replicas=2)
    status = build_set_status(
        set_,
        build_replica_state(0, available=True, updated=True),
        build_replica_state(1, available=True),
        build_replica_state(2, available=True),
    )
    assert (status.replicas, status.available_replicas, status.updated_replicas) == (2, 2, 1)
    assert (status.current_generation_hash, status.observed_generation) == ("h", 1)
    assert status.update_progress is None


def test_replicas_are_those_requested() -> None:
    assert build_set_status(pod_clique_set(replicas=3), build_replica_state(0)).replicas == 3
    assert build_set_status(pod_clique_set(replicas=0), build_replica_state(0)).replicas == 0
    progress = SetUpdateProgress(update_started_at=THEN)
    strategy = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=1))
    surging = pod_clique_set(replicas=1, update_strategy=strategy)
    assert (
        build_set_status(
            surging, build_replica_state(0), build_replica_state(1), progress=progress
        ).replicas
        == 1
    )


def test_surge_replicas_are_counted_during_the_update() -> None:
    strategy = UpdateStrategy(rolling_update=SetRollingUpdate(max_surge=2))
    set_ = pod_clique_set(
        clique("a"), clique("b"), groups=[group("g", "b")], replicas=2, update_strategy=strategy
    )
    updated = {"available": True, "updated": True, "updated_cliques": 1, "updated_groups": 1}
    states = [
        build_replica_state(0),
        build_replica_state(1, available=True),
        *(build_replica_state(each, **updated) for each in (2, 3, 4)),
    ]
    under_way = SetUpdateProgress(update_started_at=THEN)
    status = build_set_status(set_, *states, progress=under_way)
    # Two requested and two surge replicas; the fifth is being deleted.
    assert (status.available_replicas, status.updated_replicas) == (3, 2)
    progress = status.update_progress
    assert progress is not None
    assert (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) == (2, 4)
    assert progress.updated_pod_clique_scaling_groups_count == 2
    assert progress.total_pod_clique_scaling_groups_count == 4
    ended = build_set_status(set_, *states, progress=replace(under_way, update_ended_at=THEN))
    assert (ended.available_replicas, ended.updated_replicas) == (1, 0)
    assert ended.update_progress is not None
    assert ended.update_progress.total_pod_cliques_count == 2


def test_progress_counts_cliques_and_groups_of_all_replicas() -> None:
    set_ = pod_clique_set(
        clique("a"), clique("b"), clique("c"), groups=[group("g", "c")], replicas=3
    )
    progress = build_set_status(
        set_,
        build_replica_state(0, updated_cliques=2, updated_groups=1),
        build_replica_state(1, updated_cliques=1),
        progress=SetUpdateProgress(update_started_at=THEN),
    ).update_progress
    assert progress is not None
    assert (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) == (3, 6)
    assert progress.updated_pod_clique_scaling_groups_count == 1
    assert progress.total_pod_clique_scaling_groups_count == 3


def test_gangs_are_reported_by_name_with_conditions_if_they_are_few() -> None:
    set_ = pod_clique_set()
    few = build_set_status(
        set_, gangs=[build_gang("b", "Pending"), build_gang("a")]
    ).pod_gang_statuses
    assert [(each.name, each.phase) for each in few] == [("a", "Running"), ("b", "Pending")]
    assert all(is_condition_true(each.conditions, "Ready") for each in few)
    many = build_set_status(
        set_, gangs=[build_gang(f"g{each}") for each in range(51)]
    ).pod_gang_statuses
    assert len(many) == 51
    assert not any(each.conditions for each in many)


def test_topology_condition_exists_only_with_constraints() -> None:
    set_ = pod_clique_set()
    assert build_set_status(set_).conditions == ()
    missing = ResolvedLevels("plant", {}, "ClusterTopologyLevelsUnavailable", "no rack", ("rack",))
    [condition] = build_set_status(set_, levels=missing).conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "TopologyLevelsUnavailable",
        "True",
        "ClusterTopologyLevelsUnavailable",
        "no rack",
    )


def test_set_is_complete_when_all_replicas_are() -> None:
    set_ = pod_clique_set(replicas=2)
    one = build_replica_state(0, complete=True)
    assert get_finish_time(build_set_status(set_, one)) is None
    status = build_set_status(set_, one, build_replica_state(1, complete=True))
    assert is_condition_true(status.conditions, "Complete")
    assert get_finish_time(status) == NOW
    assert not is_condition_true(
        build_set_status(pod_clique_set(replicas=0)).conditions, "Complete"
    )


def test_set_has_failed_when_one_replica_has() -> None:
    status = build_set_status(
        pod_clique_set(replicas=2), build_replica_state(0), build_replica_state(1, failed=True)
    )
    condition = find_condition(status.conditions, "Failed")
    assert condition is not None
    assert "replicas 1" in condition.message
    assert get_finish_time(status) == NOW


def test_condition_is_removed_when_it_no_longer_holds() -> None:
    set_ = pod_clique_set(
        status=PodCliqueSetStatus(
            conditions=(Condition("Failed", "True"), Condition("Complete", "True"))
        )
    )
    assert build_set_status(set_, build_replica_state(0)).conditions == ()


def build_updating_set(deadline: str | None, *updating: UpdatingReplica) -> PodCliqueSet:
    progress = SetUpdateProgress(update_started_at=THEN, currently_updating=updating)
    strategy = UpdateStrategy(rolling_update=SetRollingUpdate(progress_deadline=deadline))
    status = PodCliqueSetStatus(update_progress=progress)
    return pod_clique_set(update_strategy=strategy, status=status)


def test_update_without_progress_exceeds_its_deadline() -> None:
    started = datetime(2026, 5, 1, 11, tzinfo=UTC)
    for deadline, updating, when in [
        (None, [], None),
        ("10m", [], started + timedelta(minutes=10)),
        ("10m", [UpdatingReplica(3, "2026-05-01T11:30:00Z")], started + timedelta(minutes=40)),
    ]:
        set_ = build_updating_set(deadline, *updating)
        assert compute_progress_deadline(set_, set_.status.update_progress) == when


def test_stuck_update_names_the_replica_it_waits_for() -> None:
    set_ = build_updating_set("10m", UpdatingReplica(3, THEN))
    status = build_set_status(set_, progress=set_.status.update_progress)
    condition = find_condition(status.conditions, "UpdateInProgress")
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", "ProgressDeadlineExceeded")
    assert "replicas 3" in condition.message


def test_ended_update_is_not_in_progress() -> None:
    set_ = build_updating_set("10m")
    progress = replace(set_.status.update_progress or SetUpdateProgress(), update_ended_at=THEN)
    condition = find_condition(
        build_set_status(set_, progress=progress).conditions, "UpdateInProgress"
    )
    assert condition is not None
    assert condition.status == "False"
