"""Nothing that the operator writes has an empty list or map: Grove and Kubernetes leave it out."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet, PodCliqueSetStatus
from kilonova.api.grove.podclique import PodCliqueStatus, PodCliqueUpdateProgress, SelectedPods
from kilonova.api.grove.podcliqueset import (
    PodCliqueSetSpec,
    PodGangSummary,
    SetUpdateProgress,
    UpdatingReplica,
)
from kilonova.api.meta import Condition
from kilonova.workloads.admission.defaults import defaulted
from kilonova.workloads.statuses import status_patch
from kilonova.workloads.templates.pods import pod_object
from tests.workloads.builders import SETTINGS, metadata
from tests.workloads.emptiness import empty_fields
from tests.workloads.manifests.load import NAMES, set_of
from tests.workloads.replicas.replica_values import World, started

SETS = [name for name in NAMES if name != "topology" and not name.startswith("definitions/")]


def _set(name: str) -> PodCliqueSet:
    body = defaulted(set_of(name))
    own: Any = body["metadata"]
    made = metadata(own["name"], labels=own.get("labels"), annotations=own.get("annotations"))
    return PodCliqueSet(made, msgspec.convert(body["spec"], PodCliqueSetSpec))


@pytest.mark.parametrize("name", SETS)
def test_no_child_of_a_manifest_has_an_empty_field(name: str) -> None:
    set_ = _set(name)
    plans = World(set_).settle()
    bodies = [each.body for plan in plans for each in (*plan.creates, *plan.patches)]
    assert bodies
    assert [each for body in bodies for each in empty_fields(body)] == []
    for clique in started(set_).cliques.values():
        for gated in (False, True):
            pod = pod_object(clique, set_, 0, "p", gated=gated, released=True, settings=SETTINGS)
            assert list(empty_fields(pod)) == []


def test_a_status_is_written_without_what_is_empty() -> None:
    turn = SetUpdateProgress(currently_updating=(UpdatingReplica(1),))
    old = PodCliqueSetStatus(conditions=(Condition("A", "True"),), update_progress=turn)
    new = replace(
        old,
        conditions=(),
        update_progress=replace(turn, currently_updating=()),
        pod_gang_statuses=(PodGangSummary("g", "Pending"),),
    )
    patch = status_patch(old, new)
    assert patch is not None
    assert list(empty_fields(patch)) == []
    status = patch["status"]
    # In a merge patch null takes a field away.
    assert status["conditions"] is None
    assert status["updateProgress"]["currentlyUpdating"] is None
    assert status["podGangStatuses"] == [{"name": "g", "phase": "Pending"}]


def test_pods_selected_for_an_update_are_written_without_an_empty_list() -> None:
    progress = PodCliqueUpdateProgress("h", "t", ready_pods_selected_to_update=SelectedPods("p"))
    patch = status_patch(PodCliqueStatus(), PodCliqueStatus(update_progress=progress))
    assert patch is not None
    selected = patch["status"]["updateProgress"]["readyPodsSelectedToUpdate"]
    assert selected == {"current": "p", "completed": None}
