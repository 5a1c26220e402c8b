"""What `kilonova serve -f` reads."""

import io
import sys
from pathlib import Path

import pytest

from kilonova.component.failure import CommandFailed
from kilonova.serving.commands.apply.manifests import ServeManifests, read_manifests

SERVICE = """
apiVersion: serving.kilonova.dev/v1alpha1
kind: InferenceService
metadata: {name: web}
spec: {servers: [{name: a, image: x}]}
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models, namespace: other}
spec: {}
"""
VALUES = """
triton:
  modelRepository: {enabled: true, mountPath: /models, storageType: pvc, pvc: {claimName: m}}
keda: {enabled: true, minReplicaCount: 0, maxReplicaCount: 4}
"""


def read(folder: Path, *texts: str, release: str | None = None) -> ServeManifests:
    paths: list[str] = []
    for number, text in enumerate(texts):
        file = folder / f"{number}.yaml"
        file.write_text(text)
        paths.append(str(file))
    return read_manifests(paths, "mine", release)


def list_references(found: ServeManifests) -> list[tuple[str, str]]:
    return [(each.reference, each.namespace) for each in found.objects]


def test_services_come_after_what_they_refer_to(tmp_path: Path) -> None:
    found = read(tmp_path, f"{SERVICE}---{CLAIM}---\n")
    assert list_references(found) == [
        ("persistentvolumeclaim/models", "other"),
        ("inferenceservice/web", "mine"),
    ]


def test_files_of_a_folder_and_items_of_a_list_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(SERVICE)
    (tmp_path / "b.json").write_text(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap",'
        ' "metadata": {"name": "c"}}]}'
    )
    (tmp_path / "notes.txt").write_text("not YAML: [")
    found = read_manifests([str(tmp_path)], "mine")
    assert [name for name, _ in list_references(found)] == ["configmap/c", "inferenceservice/web"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(SERVICE))
    assert list_references(read_manifests(["-"], "mine")) == [("inferenceservice/web", "mine")]


@pytest.mark.parametrize(("release", "name"), [(None, "supersonic"), ("cms", "cms")])
def test_file_without_kind_is_the_values_of_a_release(
    tmp_path: Path, release: str | None, name: str
) -> None:
    found = read(tmp_path, VALUES, release=release)
    (service,) = found.services
    assert (service.name, service.namespace) == (name, "mine")
    (group,) = service.body["spec"]["servers"]
    assert group["autoscaling"]["minReplicas"] == 0


def test_values_files_are_merged_as_helm_does(tmp_path: Path) -> None:
    later = "triton: {replicas: 3, args: [b]}\nkeda: null\n"
    found = read(tmp_path, "triton: {image: a, args: [a]}\n", later, release="cms")
    (service,) = found.services
    (group,) = service.body["spec"]["servers"]
    assert (service.name, group["image"], group["replicas"]) == ("cms", "a", 3)
    assert group["args"] == ["b"]
    with pytest.raises(CommandFailed, match=r"0.yaml, .*1.yaml cannot be served as it is"):
        read(tmp_path, "triton: {replicas: 1}\n", "triton: {bogus: 1}\n")


def test_key_that_cannot_be_honoured_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"0.yaml cannot be served as it is:\n  triton\.bogus"):
        read(tmp_path, "triton: {bogus: 1}\n")


def test_name_replaces_that_of_a_manifest(tmp_path: Path) -> None:
    assert read(tmp_path, SERVICE, release="api").services[0].name == "api"
    with pytest.raises(CommandFailed, match="there are several: web, web"):
        read(tmp_path, SERVICE, SERVICE, release="api")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no InferenceService and no values file"),
        (CLAIM, "there is no InferenceService and no values file"),
        ("- a\n", "0.yaml, document 1: write KEY: VALUE lines"),
        ("a: [", "0.yaml is not YAML"),
        (SERVICE.replace("name: web", "x: y"), "metadata.name is missing"),
        ("kind: Pod\napiVersion: v1\n", r"Pod \(v1\) is not applied .* use `kubectl apply`"),
        ("kind: InferenceService\n", r"InferenceService \(None\) is not applied"),
    ],
)
def test_file_that_cannot_be_served_is_explained(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(CommandFailed, match=problem):
        read(tmp_path, text)


def test_missing_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"none\.yaml cannot be read: No such file"):
        read_manifests([str(tmp_path / "none.yaml")], "mine")
    with pytest.raises(CommandFailed, match=r"has no file that ends with \.yaml"):
        read_manifests([str(tmp_path)], "mine")
