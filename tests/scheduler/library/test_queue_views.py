"""Queues for display: of a snapshot computed, of a live cluster read from their status."""

from dataclasses import replace
from typing import Any

import msgspec

from kilonova.api.scheduling import Queue
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.library.queue_views import compute_queue_views, read_queue_views
from tests.scheduler.harness.snapshots import example_snapshot, pending_gang


def queue(name: str, status: dict[str, Any] | None = None, **spec: Any) -> Queue:
    metadata = {"name": name, "uid": name, "resourceVersion": "1", "generation": 1}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Queue)


def test_queues_are_listed_as_a_tree():
    specs = (QueueSpec("b", "top"), QueueSpec("a", "top", limit={"cpu": 1500}), QueueSpec("top"))
    views = compute_queue_views(replace(example_snapshot(), queues=specs))
    assert [(each.name, each.depth, each.parent) for each in views] == [
        ("default", 0, ""),
        ("top", 0, ""),
        ("a", 1, "top"),
        ("b", 1, "top"),
    ]
    assert views[2].limit == {"cpu": "1500m"}
    assert views[0].pending_gangs == len(views[0].pending_gang_names) == 5


def test_live_queues_show_their_status_and_name_their_own_pending_gangs():
    ready = {"type": "Ready", "status": "True", "reason": "QueueReady", "message": "scheduled"}
    written = {
        "allocated": {"nvidia.com/gpu": "7"},
        "requested": {"nvidia.com/gpu": "9"},
        "fairShare": {"nvidia.com/gpu": "8"},
        "pendingGangs": 2,
        "conditions": [{**ready, "lastTransitionTime": "2026-05-01T00:00:00Z"}],
    }
    gang = replace(pending_gang("g", GpuRequest(1)), queue="team")
    queues = [
        queue("team", written, parent="top", deserved={"cpu": "1500m"}),
        queue("top", written),
    ]
    top, team = read_queue_views(queues, [gang])
    assert (top.name, top.deserved, top.pending_gangs) == ("top", {"cpu": "1500m"}, 2)
    assert top.pending_gang_names == ()
    assert (team.depth, team.pending_gang_names) == (1, (gang.name,))
    assert (team.used, team.requested, team.fair_share) == (
        {"nvidia.com/gpu": "7"},
        {"nvidia.com/gpu": "9"},
        {"nvidia.com/gpu": "8"},
    )
    assert (team.ready, team.reason, team.is_observed) == (True, "QueueReady", True)


def test_live_queue_without_a_status_is_not_observed():
    (view,) = read_queue_views([queue("team")], [])
    assert (view.ready, view.reason, view.is_observed) == (False, "NotObserved", False)
    assert view.message == "not yet observed by a scheduler"


def test_live_default_queue_is_not_listed_before_it_exists():
    assert read_queue_views([], [pending_gang("g", GpuRequest(1))]) == ()
