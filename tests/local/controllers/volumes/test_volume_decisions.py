"""Which volume a claim gets, and what is written about it: values in, values out."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.local.controllers.objects import Node, Pod
from kilonova.local.controllers.volumes.matching import best_volume, default_class
from kilonova.local.controllers.volumes.objects import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.protection import is_used
from kilonova.local.controllers.volumes.provisioning import (
    PROVISIONER,
    Folders,
    local_class,
    local_volume,
)
from kilonova.local.controllers.volumes.reclaim import is_ours_to_delete, phase_of
from kilonova.local.controllers.volumes.steps import (
    Adopt,
    Bind,
    Lose,
    Provision,
    Tell,
    claim_patch,
    claim_status,
    step_for_bound,
    step_for_free,
    step_for_named,
    volume_patch,
)

ABOUT = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}


def claim(size: str = "1Gi", *, annotations: Any = None, status: Any = None, **spec: Any) -> Any:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    about = {"name": "data", "namespace": "n", **ABOUT, "annotations": annotations or {}}
    obj = {"metadata": about, "spec": wanted, "status": status or {}}
    return msgspec.convert(obj, VolumeClaim)


def volume(name: str = "v", size: str = "1Gi", **spec: Any) -> PersistentVolume:
    metadata = {"name": name, **ABOUT, **spec.pop("metadata", {})}
    status = {"phase": spec.pop("phase", "Available")}
    made = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "storageClassName": "slow",
        **spec,
    }
    return msgspec.convert({"metadata": metadata, "spec": made, "status": status}, PersistentVolume)


def node(name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    return msgspec.convert({"metadata": {"name": name, **ABOUT, "labels": labels}}, Node)


def storage_class(name: str = "slow", **fields: Any) -> StorageClass:
    metadata = {"name": name, **ABOUT, **fields.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, "provisioner": "p", **fields}, StorageClass)


def on(name: str) -> Any:
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


REFERENCE = {"namespace": "n", "name": "data"}


@pytest.mark.parametrize(
    ("wanted", "volumes", "expected"),
    [
        (claim(), [], None),
        (claim(), [volume("big", "9Gi"), volume("fit", "2Gi")], "fit"),
        (claim("10Gi"), [volume("small", "9Gi")], None),
        (claim(), [volume(storageClassName="fast")], None),
        (claim(), [volume(volumeMode="Block")], None),
        (claim(accessModes=["ReadWriteMany"]), [volume()], None),
        (claim(), [volume(phase="Released")], None),
        (claim(), [volume(claimRef={**REFERENCE, "name": "other"})], None),
        (claim(), [volume("free"), volume("mine", "9Gi", claimRef=REFERENCE)], "mine"),
        (claim(), [volume(claimRef={**REFERENCE, "uid": "earlier"})], None),
        (claim(), [volume(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], None),
        (claim(selector={"matchLabels": {"a": "b"}}), [volume()], None),
        (
            claim(selector={"matchLabels": {"a": "b"}}),
            [volume(metadata={"labels": {"a": "b"}})],
            "v",
        ),
    ],
)
def test_a_claim_gets_the_smallest_volume_that_will_do(
    wanted: VolumeClaim, volumes: list[PersistentVolume], expected: str | None
) -> None:
    found = best_volume(wanted, volumes)
    assert (found.metadata.name if found else None) == expected


def test_a_volume_must_be_within_reach_of_the_node() -> None:
    volumes = [volume("far", nodeAffinity=on("b")), volume("near", "2Gi", nodeAffinity=on("a"))]
    found = best_volume(claim(), volumes, node("a"))
    assert found is not None
    assert found.metadata.name == "near"


WAITING = storage_class(volumeBindingMode="WaitForFirstConsumer")
FREE = volume()


def test_a_claim_takes_a_free_volume_or_has_one_made() -> None:
    slow = storage_class()
    assert step_for_free(claim(), [FREE], slow, None, None) == Bind(FREE)
    assert step_for_free(claim(), [], slow, None, None) == Provision(slow)
    missing = Tell("ProvisioningFailed", 'storageclass.storage.k8s.io "slow" not found', True)
    assert step_for_free(claim(), [], None, None, None) == missing


def test_a_claim_of_a_waiting_class_waits_for_a_node() -> None:
    text = "waiting for first consumer to be created before binding"
    waits = Tell("WaitForFirstConsumer", text)
    assert step_for_free(claim(), [FREE], WAITING, None, None) == waits
    assert step_for_free(claim(), [FREE], WAITING, None, node("a")) == Bind(FREE)
    mine = volume(claimRef=REFERENCE)
    assert step_for_free(claim(), [mine], WAITING, None, None) == Bind(mine)


def test_a_claim_without_a_class_adopts_the_default_one() -> None:
    default = storage_class("local")
    assert step_for_free(claim(storageClassName=None), [], None, default, None) == Adopt("local")
    text = "no persistent volumes available for this claim and no storage class is set"
    told = Tell("FailedBinding", text)
    assert step_for_free(claim(storageClassName=""), [], None, default, None) == told


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (None, None),
        (FREE, Bind(FREE)),
        (
            volume(claimRef={**REFERENCE, "name": "x"}),
            Tell("FailedBinding", 'volume "v" already bound to a different claim.', True),
        ),
        (
            volume(size="1Mi"),
            Tell(
                "VolumeMismatch",
                'Cannot bind to requested volume "v": requested PV is too small',
                True,
            ),
        ),
    ],
)
def test_a_claim_that_asks_for_a_volume_by_name(present: Any, expected: Any) -> None:
    assert step_for_named(claim(volumeName="v"), present) == expected


def test_a_claim_whose_volume_is_gone_is_lost() -> None:
    had = claim(volumeName="v", annotations={BIND_COMPLETED: "yes"})
    assert isinstance(step_for_bound(had, None), Lose)
    assert isinstance(step_for_bound(had, volume(claimRef={**REFERENCE, "uid": "x"})), Lose)
    mine = volume(claimRef={**REFERENCE, "uid": "u"})
    assert step_for_bound(had, mine) == Bind(mine)


def test_binding_writes_only_what_is_not_there() -> None:
    first = volume_patch(FREE, claim())
    assert first is not None
    assert first["spec"]["claimRef"]["uid"] == "u"
    assert first["metadata"] == {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}
    bound = claim(
        volumeName="v",
        annotations={BIND_COMPLETED: "yes"},
        status={
            "phase": "Bound",
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": "1Gi"},
        },
    )
    mine = volume(claimRef={**REFERENCE, "uid": "u"})
    assert (volume_patch(mine, bound), claim_patch(bound, mine), claim_status(bound, mine)) == (
        None,
        None,
        None,
    )


def test_a_local_volume_is_a_folder_of_one_node() -> None:
    local = msgspec.convert({**local_class(), "metadata": {"name": "local", **ABOUT}}, StorageClass)
    body = local_volume(claim(), local, node("a"), Folders(Path("/data/volumes")).path("pvc-u"))
    assert body["metadata"] == {"name": "pvc-u", "annotations": {PROVISIONED_BY: PROVISIONER}}
    assert body["spec"]["hostPath"] == {"path": "/data/volumes/pvc-u", "type": "DirectoryOrCreate"}
    assert body["spec"]["nodeAffinity"] == on("a")
    assert body["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


async def test_only_folders_of_our_own_are_removed(tmp_path: Path) -> None:
    for name in ("pvc-u", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    folders = Folders(tmp_path)
    await folders.remove(volume("pvc-u", hostPath={"path": str(tmp_path / "pvc-u")}))
    await folders.remove(volume("pvc-x", hostPath={"path": str(tmp_path / "other")}))
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize(
    ("present", "owner", "phase"),
    [
        (volume(), None, "Available"),
        (volume(claimRef=REFERENCE), None, "Available"),
        (volume(claimRef={**REFERENCE, "uid": "u"}), claim(), "Bound"),
        (volume(claimRef={**REFERENCE, "uid": "u"}), None, "Released"),
        (volume(claimRef={**REFERENCE, "uid": "u"}, phase="Failed"), None, "Failed"),
    ],
)
def test_the_phase_of_a_volume(
    present: PersistentVolume, owner: VolumeClaim | None, phase: str
) -> None:
    assert phase_of(present, owner) == phase


def test_only_volumes_made_on_demand_are_deleted() -> None:
    made = {"annotations": {PROVISIONED_BY: PROVISIONER}}
    assert is_ours_to_delete(volume(metadata=made, persistentVolumeReclaimPolicy="Delete"))
    assert not is_ours_to_delete(volume(metadata=made, persistentVolumeReclaimPolicy="Retain"))
    assert not is_ours_to_delete(volume(persistentVolumeReclaimPolicy="Delete"))


def test_the_youngest_default_class_counts() -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    old = storage_class("old", metadata={"annotations": annotations})
    young = storage_class(
        "young",
        metadata={"annotations": annotations, "creationTimestamp": "2026-02-01T00:00:00Z"},
    )
    assert default_class([old, young, storage_class("newest")]) is young


def pod(node: str, *volumes: Any, **metadata: Any) -> Pod:
    about = {"name": "p", "namespace": "n", **ABOUT, **metadata}
    return msgspec.convert(
        {"metadata": about, "spec": {"nodeName": node, "volumes": list(volumes)}}, Pod
    )


def test_a_claim_is_used_by_pods_that_are_placed() -> None:
    mounted = {"name": "x", "persistentVolumeClaim": {"claimName": "data"}}
    assert is_used(claim(), [pod("a", mounted)])
    assert not is_used(claim(), [pod("", mounted)])
    assert not is_used(claim(), [pod("a")])
