"""Placement reports and summaries of snapshots."""

from dataclasses import replace

from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.library.placement_report import (
    PlacementReport,
    report_placement,
    reportable_names,
)
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.summary import summarize_snapshot
from tests.scheduler.harness.snapshots import example_snapshot, pending_gang


def report_for(snapshot: ClusterSnapshot, name: str) -> PlacementReport:
    found = report_placement(snapshot, "ns", name)
    assert found is not None
    return found


def test_gang_without_capacity_reports_constraint_and_node_tallies():
    found = report_for(replace(example_snapshot(), queues=()), "far")
    assert found.state == "Unschedulable"
    assert found.explanation is not None
    assert found.explanation.blocking_constraint.kind == "NoMatchingNode"
    assert found.explanation.diagnoses[0].nodes == 2


def test_gang_over_its_queue_limit_reports_the_smallest_change():
    crowded = replace(
        example_snapshot(),
        pending_gangs=tuple(pending_gang(f"w{each}", GpuRequest(1)) for each in range(3)),
    )
    held = replace(crowded, queues=(QueueSpec("default", limit={"nvidia.com/gpu": 2000}),))
    found = next(
        report_for(held, f"w{each}")
        for each in range(3)
        if report_for(held, f"w{each}").explanation
    )
    assert found.explanation is not None
    assert found.explanation.blocking_constraint.kind == "QueueLimitReached"
    assert "raise the limit" in found.explanation.changes[0].text


def test_schedulable_gang_reports_its_next_placement():
    found = report_for(example_snapshot(), "half")
    assert found.state == "Schedulable"
    assert found.planned_placement is not None
    assert [each.pod for each in found.planned_placement.pods] == ["ns/half"]
    assert found.explanation is None


def test_placed_gang_reports_nodes_start_time_and_scores():
    found = report_for(example_snapshot(), "steady")
    assert (found.state, found.since) == ("Placed", 5.0)
    (pod,) = found.pods
    assert pod.devices == "0" or pod.devices == "1"
    assert pod.score is not None
    assert pod.score.chosen.node == pod.node
    assert {each.plugin for each in pod.score.chosen.plugin_scores} == {
        "preferences",
        "topology",
        "fit",
        "balance",
    }


def test_incomplete_gang_reports_missing_pods():
    found = report_for(example_snapshot(), "g")
    assert found.state == "NotReady"
    assert found.not_ready is not None
    assert found.not_ready.reason == "PodsNotFound"


def test_unknown_names_have_no_report():
    assert report_placement(example_snapshot(), "ns", "nobody") is None
    assert report_placement(example_snapshot(), "other", "half") is None


def test_all_reportable_names_are_listed():
    assert set(reportable_names(example_snapshot())) == {
        "ns/steady",
        "ns/slice",
        "ns/whole",
        "ns/picky",
        "ns/apart",
        "ns/half",
        "ns/far",
        "ns/g",
    }


def test_summary_counts_devices_by_state():
    summary = summarize_snapshot(example_snapshot())
    (model,) = summary.gpus
    assert (model.nodes, model.devices) == (2, 4)
    assert model.free + model.partly_used + model.used + model.unhealthy == 4
    assert (model.used, model.partly_used) == (1, 1)
    assert summary.fragments.fits[1] == model.free
    assert (summary.nodes, summary.pods, summary.placed_gangs, summary.not_ready) == (
        2,
        2,
        2,
        1,
    )
    assert len(summary.pending_gangs) == 5
