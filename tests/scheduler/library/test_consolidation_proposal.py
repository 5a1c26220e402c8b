"""Proposed migrations, without carrying them out."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kilonova.cli.commands.app import app
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member, single_pod_gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.library.consolidation_proposal import propose_consolidation
from kilonova.scheduler.library.snapshots.file import save_snapshot_file
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from kilonova.scheduler.process.config import parse_scheduler_configuration
from kilonova.scheduler.settings import ConsolidationLimits
from tests.scheduler.core.support.clusters import node, shape

HEAD = "apiVersion: scheduler.config.kilonova.dev/v1alpha1\nkind: SchedulerConfiguration\n"


def cluster_snapshot(*waiting: Gang, returns: bool = True) -> ClusterSnapshot:
    """Two nodes of eight GPUs; each has pods of four."""
    cluster = Cluster()
    for name in ("n0", "n1"):
        row = cluster.snapshot.put_node(node(name))
        one = single_pod_gang(Member(f"ns/on-{name}", shape(4), has_controller=returns))
        pod_placement = PodPlacement(one.groups[0].members[0], row, (), one.name)
        cluster.snapshot.add_pod(pod_placement)
        cluster.record_placed(
            replace(one, groups=(_running_gang(one, name),)), [pod_placement], 0.0
        )
    return take_snapshot(cluster, waiting, [], PlannerPolicy(), 3600.0)


def _running_gang(one: Gang, node: str):
    [group] = one.groups
    return replace(group, members=(), placed_members=group.members, placed_nodes=(node,))


def test_proposal_empties_a_node() -> None:
    found = propose_consolidation(cluster_snapshot())
    [move] = found.pods
    assert {move.from_node, move.to_node} == {"n0", "n1"}
    assert (found.emptied_nodes, found.target_gang) == ((move.from_node,), "")
    assert found.lost_gpu_seconds == 4 * (3600 + 300)


def test_proposal_frees_capacity_for_a_pending_gang() -> None:
    found = propose_consolidation(cluster_snapshot(single_pod_gang(Member("ns/big", shape(8)))))
    assert (len(found.pods), found.target_gang) == (1, "ns/big")


def test_pods_without_controller_or_above_budget_are_not_proposed() -> None:
    assert propose_consolidation(cluster_snapshot(returns=False)).pods == ()
    assert (
        propose_consolidation(
            cluster_snapshot(), ConsolidationLimits(max_lost_gpu_seconds=3600.0)
        ).pods
        == ()
    )


def test_plan_command_prints_migrations_and_needs_one_input(tmp_path: Path) -> None:
    file, rules = tmp_path / "now.json", tmp_path / "rules.yaml"
    save_snapshot_file(cluster_snapshot(), file)
    rules.write_text(f"{HEAD}consolidation: {{maxLostGpuTime: 1h}}\n")
    run = CliRunner().invoke
    done = run(app, ["plan", "--moves", "--snapshot", str(file)])
    assert "MOVED POD" in done.stdout
    assert "Work that would be lost: 4.3 GPU hours." in done.stdout
    done = run(app, ["plan", "--moves", "--snapshot", str(file), "--config", str(rules)])
    assert done.stdout == "No pods would be moved.\n"
    assert "give either --filename or --moves" in str(run(app, ["plan"]).exception)


def test_consolidation_limits_are_parsed() -> None:
    limits = "{interval: 5m, maxConcurrent: 1, maxPerHour: 3, minArrivalsPerMigration: 100}"
    text = f"{HEAD}consolidation: {limits}\n"
    read = parse_scheduler_configuration(text.encode()).to_settings().consolidation
    assert read == ConsolidationLimits(
        interval=300.0, max_concurrent=1, max_per_hour=3, min_arrivals_per_migration=100
    )


@pytest.mark.parametrize(
    ("consolidation", "message"),
    [
        (
            "{maxConcurrent: 0}",
            "consolidation.maxConcurrent: 0 must be 1 or more; "
            "to disable consolidation, leave out `consolidation`",
        ),
        (
            "{interval: soon}",
            "consolidation.interval: 'soon' is not a duration: write it as 30s or 1m30s",
        ),
        ("{often: 1}", "unknown field `often`"),
    ],
)
def test_invalid_consolidation_limits_are_rejected(consolidation: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse_scheduler_configuration(f"{HEAD}consolidation: {consolidation}\n".encode())
    assert message in str(caught.value)
