"""What is written to claims and volumes, as a table."""

from typing import Any

import msgspec
import pytest

from kilonova.scheduler.allocations import Unfit
from kilonova.scheduler.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolume,
    VolumeClaim,
)
from kilonova.scheduler.volumepromises import grant, selection


def claim(selected: str = "", *, bound: bool = False) -> VolumeClaim:
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
    return msgspec.convert({"metadata": metadata, "spec": spec}, VolumeClaim)


def volume(**spec: Any) -> PersistentVolume:
    metadata = {"name": "v", "uid": "w", "resourceVersion": "9"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, PersistentVolume)


@pytest.mark.parametrize(
    ("found", "before"),
    [(claim(), None), (claim("gone"), "gone")],
    ids=["has no node", "has a node that is gone"],
)
def test_the_node_is_noted_on_the_claim_as_it_was_seen(
    found: VolumeClaim, before: str | None
) -> None:
    metadata = {"uid": "u", "resourceVersion": "7", "annotations": {SELECTED_NODE: "n"}}
    assert selection(found, "n", before) == {"metadata": metadata}


@pytest.mark.parametrize("found", [claim("n"), claim(bound=True), claim("other", bound=True)])
def test_a_claim_that_has_the_node_or_its_volume_is_left_alone(found: VolumeClaim) -> None:
    assert selection(found, "n", None) is None


@pytest.mark.parametrize(
    ("found", "before", "said"),
    [
        (claim("other"), None, "its volume is made for node other"),
        (claim(), "gone", "its node was taken back"),
    ],
)
def test_what_somebody_else_wrote_meanwhile_stays(
    found: VolumeClaim, before: str | None, said: str
) -> None:
    with pytest.raises(Unfit, match=said):
        selection(found, "n", before)


def test_a_free_volume_is_set_aside_for_the_claim_as_a_controller_would() -> None:
    patch = grant(volume(), claim())
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


def test_a_volume_that_is_set_aside_already_is_not_written_again() -> None:
    reference = {"namespace": "ns", "name": "data", "uid": "u"}
    assert grant(volume(claimRef=reference), claim()) is None


def test_a_volume_of_another_claim_is_not_taken() -> None:
    reference = {"namespace": "ns", "name": "other", "uid": "x"}
    with pytest.raises(Unfit, match="volume v went to claim ns/other"):
        grant(volume(claimRef=reference), claim())
