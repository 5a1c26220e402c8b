"""Which volume a claim gets, and what is written: values in, values out."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.local.controllers.volumes.binding_plan import (
    BindStep,
    MarkLostStep,
    ProvisionStep,
    RecordEventStep,
    SetDefaultClassStep,
    build_claim_patch,
    build_claim_status,
    build_volume_patch,
    plan_bound_claim,
    plan_named_claim,
    plan_unbound_claim,
)
from kilonova.local.controllers.volumes.objects import (
    BIND_COMPLETED,
    PROVISIONED_BY,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.volumes.protection import is_used
from kilonova.local.controllers.volumes.provisioner import (
    PROVISIONER,
    VolumeDirectories,
    build_local_class,
    build_local_volume,
)
from kilonova.local.controllers.volumes.reclaimer import compute_phase, is_reclaimable
from kilonova.local.controllers.volumes.selection import find_default_class, find_matching_volume
from kilonova.local.objects.core import Node, Pod

ABOUT = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}


def claim(size: str = "1Gi", *, annotations: Any = None, status: Any = None, **spec: Any) -> Any:
    desired = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "slow",
        "resources": {"requests": {"storage": size}},
        **spec,
    }
    about = {"name": "data", "namespace": "n", **ABOUT, "annotations": annotations or {}}
    obj = {"metadata": about, "spec": desired, "status": status or {}}
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
    ("desired", "volumes", "expected"),
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
def test_claim_gets_the_smallest_matching_volume(
    desired: VolumeClaim, volumes: list[PersistentVolume], expected: str | None
) -> None:
    found = find_matching_volume(desired, volumes)
    assert (found.metadata.name if found else None) == expected


def test_volume_must_be_accessible_from_the_selected_node() -> None:
    volumes = [volume("far", nodeAffinity=on("b")), volume("near", "2Gi", nodeAffinity=on("a"))]
    found = find_matching_volume(claim(), volumes, node("a"))
    assert found is not None
    assert found.metadata.name == "near"


WAITING = storage_class(volumeBindingMode="WaitForFirstConsumer")
FREE = volume()


def test_claim_binds_an_available_volume_or_has_one_provisioned() -> None:
    slow = storage_class()
    assert plan_unbound_claim(claim(), [FREE], slow, None, None) == BindStep(FREE)
    assert plan_unbound_claim(claim(), [], slow, None, None) == ProvisionStep(slow)
    missing = RecordEventStep(
        "ProvisioningFailed", 'storageclass.storage.k8s.io "slow" not found', True
    )
    assert plan_unbound_claim(claim(), [], None, None, None) == missing


def test_claim_with_wait_for_first_consumer_waits_for_a_node() -> None:
    text = "waiting for first consumer to be created before binding"
    waits = RecordEventStep("WaitForFirstConsumer", text)
    assert plan_unbound_claim(claim(), [FREE], WAITING, None, None) == waits
    assert plan_unbound_claim(claim(), [FREE], WAITING, None, node("a")) == BindStep(FREE)
    mine = volume(claimRef=REFERENCE)
    assert plan_unbound_claim(claim(), [mine], WAITING, None, None) == BindStep(mine)


def test_a_claim_without_a_class_adopts_the_default_one() -> None:
    default = storage_class("local")
    assert plan_unbound_claim(
        claim(storageClassName=None), [], None, default, None
    ) == SetDefaultClassStep("local")
    text = "no persistent volumes available for this claim and no storage class is set"
    reported = RecordEventStep("FailedBinding", text)
    assert plan_unbound_claim(claim(storageClassName=""), [], None, default, None) == reported


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (None, None),
        (FREE, BindStep(FREE)),
        (
            volume(claimRef={**REFERENCE, "name": "x"}),
            RecordEventStep(
                "FailedBinding", 'volume "v" already bound to a different claim.', True
            ),
        ),
        (
            volume(size="1Mi"),
            RecordEventStep(
                "VolumeMismatch",
                'Cannot bind to requested volume "v": requested PV is too small',
                True,
            ),
        ),
    ],
)
def test_claim_that_names_its_volume(present: Any, expected: Any) -> None:
    assert plan_named_claim(claim(volumeName="v"), present) == expected


def test_claim_whose_volume_was_deleted_is_lost() -> None:
    had = claim(volumeName="v", annotations={BIND_COMPLETED: "yes"})
    assert isinstance(plan_bound_claim(had, None), MarkLostStep)
    assert isinstance(
        plan_bound_claim(had, volume(claimRef={**REFERENCE, "uid": "x"})), MarkLostStep
    )
    mine = volume(claimRef={**REFERENCE, "uid": "u"})
    assert plan_bound_claim(had, mine) == BindStep(mine)


def test_binding_writes_only_what_differs() -> None:
    first = build_volume_patch(FREE, claim())
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
    assert (
        build_volume_patch(mine, bound),
        build_claim_patch(bound, mine),
        build_claim_status(bound, mine),
    ) == (
        None,
        None,
        None,
    )


def test_local_volume_is_a_directory_of_one_node() -> None:
    local = msgspec.convert(
        {**build_local_class(), "metadata": {"name": "local", **ABOUT}}, StorageClass
    )
    body = build_local_volume(
        claim(), local, node("a"), VolumeDirectories(Path("/data/volumes")).path("pvc-u")
    )
    assert body["metadata"] == {"name": "pvc-u", "annotations": {PROVISIONED_BY: PROVISIONER}}
    assert body["spec"]["hostPath"] == {"path": "/data/volumes/pvc-u", "type": "DirectoryOrCreate"}
    assert body["spec"]["nodeAffinity"] == on("a")
    assert body["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


async def test_only_provisioned_directories_are_removed(tmp_path: Path) -> None:
    for name in ("pvc-u", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    folders = VolumeDirectories(tmp_path)
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
    assert compute_phase(present, owner) == phase


def test_only_provisioned_volumes_are_deleted() -> None:
    made = {"annotations": {PROVISIONED_BY: PROVISIONER}}
    assert is_reclaimable(volume(metadata=made, persistentVolumeReclaimPolicy="Delete"))
    assert not is_reclaimable(volume(metadata=made, persistentVolumeReclaimPolicy="Retain"))
    assert not is_reclaimable(volume(persistentVolumeReclaimPolicy="Delete"))


def test_youngest_default_class_is_used() -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    old = storage_class("old", metadata={"annotations": annotations})
    young = storage_class(
        "young",
        metadata={"annotations": annotations, "creationTimestamp": "2026-02-01T00:00:00Z"},
    )
    assert find_default_class([old, young, storage_class("newest")]) is young


def pod(node: str, *volumes: Any, **metadata: Any) -> Pod:
    about = {"name": "p", "namespace": "n", **ABOUT, **metadata}
    return msgspec.convert(
        {"metadata": about, "spec": {"nodeName": node, "volumes": list(volumes)}}, Pod
    )


def test_claim_is_in_use_by_bound_pods() -> None:
    mounted = {"name": "x", "persistentVolumeClaim": {"claimName": "data"}}
    assert is_used(claim(), [pod("a", mounted)])
    assert not is_used(claim(), [pod("", mounted)])
    assert not is_used(claim(), [pod("a")])
