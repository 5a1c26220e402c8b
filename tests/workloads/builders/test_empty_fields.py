"""No object of the operator has an empty list or map, as with Grove and Kubernetes."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet, PodCliqueSetStatus
from kilonova.api.grove.podclique import PodCliqueStatus, PodCliqueUpdateProgress, PodSelection
from kilonova.api.grove.podcliqueset import (
    PodCliqueSetSpec,
    PodGangSummary,
    SetUpdateProgress,
    UpdatingReplica,
)
from kilonova.api.meta import Condition
from kilonova.kube.status import build_status_patch
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.builders.pods import build_pod
from tests.workloads.api_objects import SETTINGS, metadata
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    SimulatedReplica,
    start_replica,
)
from tests.workloads.empty_fields import find_empty_fields
from tests.workloads.manifests.load import MANIFEST_NAMES, load_set

SETS = [
    name for name in MANIFEST_NAMES if name != "topology" and not name.startswith("definitions/")
]


def _set(name: str) -> PodCliqueSet:
    body = apply_defaults(load_set(name))
    own: Any = body["metadata"]
    created = metadata(own["name"], labels=own.get("labels"), annotations=own.get("annotations"))
    return PodCliqueSet(created, msgspec.convert(body["spec"], PodCliqueSetSpec))


@pytest.mark.parametrize("name", SETS)
def test_no_child_of_a_manifest_has_an_empty_field(name: str) -> None:
    set_ = _set(name)
    plans = SimulatedReplica(set_).converge()
    bodies = [each.body for plan in plans for each in (*plan.creates, *plan.patches)]
    assert bodies
    assert [each for body in bodies for each in find_empty_fields(body)] == []
    for clique in start_replica(set_).cliques.values():
        for gated in (False, True):
            pod = build_pod(clique, set_, 0, "p", gated=gated, released=True, settings=SETTINGS)
            assert list(find_empty_fields(pod)) == []


def test_status_is_written_without_empty_fields() -> None:
    turn = SetUpdateProgress(currently_updating=(UpdatingReplica(1),))
    old = PodCliqueSetStatus(conditions=(Condition("A", "True"),), update_progress=turn)
    new = replace(
        old,
        conditions=(),
        update_progress=replace(turn, currently_updating=()),
        pod_gang_statuses=(PodGangSummary("g", "Pending"),),
    )
    patch = build_status_patch(old, new)
    assert patch is not None
    assert list(find_empty_fields(patch)) == []
    # In a merge patch null removes a field.
    assert patch["conditions"] is None
    assert patch["updateProgress"]["currentlyUpdating"] is None
    assert patch["podGangStatuses"] == [{"name": "g", "phase": "Pending"}]


def test_pods_selected_for_an_update_are_written_without_an_empty_list() -> None:
    progress = PodCliqueUpdateProgress("h", "t", ready_pods_selected_to_update=PodSelection("p"))
    patch = build_status_patch(PodCliqueStatus(), PodCliqueStatus(update_progress=progress))
    assert patch is not None
    selected = patch["updateProgress"]["readyPodsSelectedToUpdate"]
    assert selected == {"current": "p", "completed": None}
