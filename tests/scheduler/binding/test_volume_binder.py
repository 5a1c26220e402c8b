"""The patches of claims and volumes, as a table."""

from typing import Any

import msgspec
import pytest

from kilonova.scheduler.binding.claim_allocations import AllocationConflict
from kilonova.scheduler.binding.volume_binder import claim_ref_patch, selected_node_patch
from kilonova.scheduler.objects.storage_v1 import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
)


def claim(selected: str = "", *, bound: bool = False) -> PersistentVolumeClaim:
    annotations = {SELECTED_NODE: selected} if selected else {}
    if bound:
        annotations[BIND_COMPLETED] = "yes"
    metadata = {
        "name": "data",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "annotations": annotations,
    }
    spec = {"volumeName": "v" if bound else ""}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PersistentVolumeClaim)


def volume(**spec: Any) -> PersistentVolume:
    metadata = {"name": "v", "uid": "w", "resourceVersion": "9"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PersistentVolume)


@pytest.mark.parametrize(
    ("found", "before"),
    [(claim(), None), (claim("gone"), "gone")],
    ids=["no selected node", "deleted selected node"],
)
def test_selected_node_is_written_with_preconditions(
    found: PersistentVolumeClaim, before: str | None
) -> None:
    metadata = {"uid": "u", "resourceVersion": "7", "annotations": {SELECTED_NODE: "n"}}
    assert selected_node_patch(found, "n", before) == {"metadata": metadata}


@pytest.mark.parametrize("found", [claim("n"), claim(bound=True), claim("other", bound=True)])
def test_claim_with_selected_node_or_volume_is_not_written(found: PersistentVolumeClaim) -> None:
    assert selected_node_patch(found, "n", None) is None


@pytest.mark.parametrize(
    ("found", "before", "message"),
    [
        (claim("other"), None, "its volume is being provisioned for node other"),
        (claim(), "gone", "its selected node was removed"),
    ],
)
def test_concurrent_change_is_a_conflict(
    found: PersistentVolumeClaim, before: str | None, message: str
) -> None:
    with pytest.raises(AllocationConflict, match=message):
        selected_node_patch(found, "n", before)


def test_claim_ref_is_written_as_by_the_volume_controller() -> None:
    patch = claim_ref_patch(volume(), claim())
    assert patch is not None
    annotations = {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert patch["metadata"] == {"uid": "w", "resourceVersion": "9", "annotations": annotations}
    assert patch["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "ns",
        "name": "data",
        "uid": "u",
        "resourceVersion": "7",
    }


def test_volume_with_claim_ref_is_not_written_again() -> None:
    reference = {"namespace": "ns", "name": "data", "uid": "u"}
    assert claim_ref_patch(volume(claimRef=reference), claim()) is None


def test_volume_of_another_claim_is_a_conflict() -> None:
    reference = {"namespace": "ns", "name": "other", "uid": "x"}
    with pytest.raises(AllocationConflict, match="volume v is bound to claim ns/other"):
        claim_ref_patch(volume(claimRef=reference), claim())
