"""Volumes made from objects: their files, and how they change."""

import os
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.processnode.kubelet.environment.downward_api import FieldContext
from kilonova.local.processnode.kubelet.pods.addresses import AddressAllocator, select_pod_network
from kilonova.local.processnode.kubelet.volumes.atomic_writer import write_directory
from kilonova.local.processnode.kubelet.volumes.projection import (
    VolumeError,
    VolumeFile,
    VolumeInputs,
    build_volume_files,
    find_references,
    find_token_requests,
)
from tests.local.processnode.kubelet.kubelet_pods import pod
from tests.local.processnode.kubelet.test_environment import Objects

OBJECTS = Objects(c={"a": "1", "b": "2"}, s={"k": "v"})


def files(volume: Any) -> dict[str, VolumeFile]:
    around = FieldContext("127.64.1.2", "127.0.0.1", {"cpu": "4"})
    subject = pod("main", metadata={"labels": {"x": "y"}})
    material = VolumeInputs(OBJECTS, around, lambda name, index: f"token-{name}-{index}")
    return build_volume_files(subject, {"name": "v", **volume}, material)


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (
            {"configMap": {"name": "c"}},
            {"a": VolumeFile(b"1", 0o644), "b": VolumeFile(b"2", 0o644)},
        ),
        (
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "x/y", "mode": 256}]}},
            {"x/y": VolumeFile(b"1", 0o400)},
        ),
        ({"configMap": {"name": "z", "optional": True}}, {}),
        ({"secret": {"secretName": "s", "defaultMode": 256}}, {"k": VolumeFile(b"v", 0o400)}),
        (
            {
                "downwardAPI": {
                    "items": [
                        {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}},
                        {
                            "path": "c",
                            "resourceFieldRef": {
                                "containerName": "main",
                                "resource": "limits.cpu",
                            },
                        },
                    ]
                }
            },
            {"l": VolumeFile(b'x="y"', 0o644), "c": VolumeFile(b"4", 0o644)},
        ),
        (
            {
                "projected": {
                    "defaultMode": 420,
                    "sources": [
                        {"configMap": {"name": "c", "items": [{"key": "a", "path": "ca.crt"}]}},
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                        {"secret": {"name": "s"}},
                    ],
                }
            },
            {
                "ca.crt": VolumeFile(b"1", 0o644),
                "token": VolumeFile(b"token-v-1", 0o644),
                "k": VolumeFile(b"v", 0o644),
            },
        ),
    ],
)
def test_files(volume: Any, expected: dict[str, VolumeFile]) -> None:
    assert files(volume) == expected


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "z"}}, 'configmap "z" not found'),
        ({"secret": {"secretName": "z"}}, 'secret "z" not found'),
        (
            {"configMap": {"name": "c", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
    ],
)
def test_missing_object_fails_the_volume(volume: Any, message: str) -> None:
    with pytest.raises(VolumeError) as error:
        files(volume)
    assert str(error.value) == message


def test_tokens_and_references_are_found() -> None:
    projected: Any = {
        "name": "v",
        "projected": {
            "sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "t"}}]
        },
    }
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
    subject = pod(
        {"name": "main", "env": env, "envFrom": [{"secretRef": {"name": "e"}}]},
        volumes=[projected, {"name": "w", "configMap": {"name": "d"}}],
    )
    assert find_token_requests(projected) == [(1, {"path": "t"})]
    assert find_references(subject) == {
        ("secret", "s"),
        ("secret", "e"),
        ("configMap", "c"),
        ("configMap", "d"),
    }


def test_directory_changes_atomically(tmp_path: Path) -> None:
    assert write_directory(tmp_path, {"a": VolumeFile(b"1", 0o644), "d/e": VolumeFile(b"2", 0o600)})
    first = os.readlink(tmp_path / "..data")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "d" / "e").stat().st_mode & 0o777 == 0o600
    assert not write_directory(
        tmp_path, {"a": VolumeFile(b"1", 0o644), "d/e": VolumeFile(b"2", 0o600)}
    )
    held = os.open(tmp_path / "a", os.O_RDONLY)
    assert write_directory(tmp_path, {"a": VolumeFile(b"3", 0o644)})
    assert os.read(held, 9) == b"1"
    os.close(held)
    assert (tmp_path / "a").read_bytes() == b"3"
    assert os.readlink(tmp_path / "..data") != first
    assert sorted(each.name for each in tmp_path.iterdir() if each.name[:2] != "..") == ["a"]
    assert not (tmp_path / first).exists()


def test_data_directories_have_networks_of_their_own(tmp_path: Path) -> None:
    first, second = select_pod_network(tmp_path / "one"), select_pod_network(tmp_path / "two")
    assert first == select_pod_network(tmp_path / "one")
    assert first != second
    assert 64 <= int(str(first).split(".")[1]) < 96


def test_addresses_are_stable_and_reused_last(tmp_path: Path) -> None:
    addresses = AddressAllocator(select_pod_network(tmp_path))
    first = addresses.allocate("u")
    assert first is not None
    assert addresses.allocate("u") == first
    assert not addresses.reserve("v", first)
    addresses.release("u")
    assert addresses.allocate("v") != first
    taken = {addresses.allocate(f"p{number}") for number in range(253)}
    assert len(taken) == 253
    assert addresses.allocate("one too many") is None
