"""The volumes of each kind of model repository."""

from typing import Any

import msgspec
import pytest

from kilonova.api.serving import ModelRepository
from kilonova.serving.repositories import RepositoryVolumes, build_repository_volumes

IMAGE = "docker.io/kilonova/kilonova:1"


def build(**repository: Any) -> RepositoryVolumes:
    return build_repository_volumes(msgspec.convert(repository, ModelRepository), IMAGE)


def test_no_repository_needs_no_volume() -> None:
    assert build_repository_volumes(None, IMAGE) == RepositoryVolumes()


@pytest.mark.parametrize(
    ("repository", "volume", "mount"),
    [
        (
            {"directory": {"path": "/srv/models"}},
            {"hostPath": {"path": "/srv/models", "type": "Directory"}},
            {},
        ),
        (
            {"nfs": {"server": "nas", "path": "/export/models"}},
            {"nfs": {"server": "nas", "path": "/export/models", "readOnly": True}},
            {},
        ),
        (
            {"persistentVolumeClaim": {"claimName": "models", "subPath": "cms"}},
            {"persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
            {"subPath": "cms"},
        ),
        (
            {"cvmfs": {"mount": "HostPath"}},
            {"hostPath": {"path": "/cvmfs", "type": "Directory"}},
            {"mountPropagation": "HostToContainer"},
        ),
        (
            {"cvmfs": {}},
            {"persistentVolumeClaim": {"claimName": "cvmfs", "readOnly": True}},
            {"mountPropagation": "HostToContainer"},
        ),
    ],
)
def test_file_systems_are_mounted_read_only(repository: Any, volume: Any, mount: Any) -> None:
    """Defect 7 of SuperSONIC: its documented kind `cvmfs` renders a volume without a source."""
    built = build(mountPath="/data", **repository)
    assert built.volumes == ({"name": "models", **volume},)
    assert built.volume_mounts == (
        {"name": "models", "mountPath": "/data", "readOnly": True, **mount},
    )
    assert built.init_containers == ()


def test_cvmfs_by_claim_creates_the_claim_with_its_storage_class() -> None:
    built = build(cvmfs={"storageClassName": "cvmfs-cms", "claimName": "cms"})
    [claim] = built.claims
    assert claim["metadata"] == {"name": "cms"}
    assert claim["spec"] == {
        "accessModes": ["ReadOnlyMany"],
        "resources": {"requests": {"storage": "1"}},
        "storageClassName": "cvmfs-cms",
    }


@pytest.mark.parametrize(
    "repository", [{"cvmfs": {"mount": "HostPath"}}, {"directory": {"path": "/m"}}]
)
def test_other_kinds_create_no_claim(repository: Any) -> None:
    assert build(**repository).claims == ()


def test_object_store_is_downloaded_before_the_server_starts() -> None:
    digest = "sha256:" + "a" * 64
    built = build(
        layout="HuggingFace",
        objectStore={
            "url": "s3://models/llm",
            "endpoint": "https://s3.example.com",
            "credentials": {"name": "s3-reader"},
            "checksum": digest,
            "size": "40Gi",
        },
    )
    assert built.volumes == ({"name": "models", "emptyDir": {"sizeLimit": "40Gi"}},)
    assert built.volume_mounts == ({"name": "models", "mountPath": "/models", "readOnly": True},)
    [download] = built.init_containers
    assert download["image"] == IMAGE
    assert download["command"] == ["kilonova", "models", "pull"]
    assert download["args"] == [
        "s3://models/llm",
        "/models",
        "--layout=HuggingFace",
        f"--checksum={digest}",
        "--max-size=40Gi",
    ]
    assert download["env"] == [{"name": "AWS_ENDPOINT_URL_S3", "value": "https://s3.example.com"}]
    assert download["envFrom"] == [{"secretRef": {"name": "s3-reader"}}]
    assert download["volumeMounts"] == [{"name": "models", "mountPath": "/models"}]


def test_folder_of_the_node_is_mounted_for_its_download_alone() -> None:
    built = build(objectStore={"url": "file:///srv/models"})
    assert [each["name"] for each in built.volumes] == ["models", "models-source"]
    assert built.volumes[1]["hostPath"]["path"] == "/srv/models"
    [download] = built.init_containers
    assert download["args"][:2] == ["file:///models-source", "/models"]
    assert [each["name"] for each in download["volumeMounts"]] == ["models", "models-source"]
    assert [each["name"] for each in built.volume_mounts] == ["models"]
    assert "env" not in download
    assert "envFrom" not in download
