"""Volumes made from objects: their files, and how they change."""

import os
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.nodes.process.kubelet.addresses import Addresses, pod_network
from kilonova.local.nodes.process.kubelet.atomicfolder import write_files
from kilonova.local.nodes.process.kubelet.fields import Surroundings
from kilonova.local.nodes.process.kubelet.payloads import (
    File,
    Material,
    VolumeError,
    files_of,
    references,
    token_requests,
)
from tests.local.process.kubelet.kubelet_pods import pod
from tests.local.process.kubelet.test_kubelet_environment import Objects

OBJECTS = Objects(c={"a": "1", "b": "2"}, s={"k": "v"})


def files(volume: Any) -> dict[str, File]:
    around = Surroundings("127.64.1.2", "127.0.0.1", {"cpu": "4"})
    subject = pod("main", metadata={"labels": {"x": "y"}})
    material = Material(OBJECTS, around, lambda name, index: f"token-{name}-{index}")
    return files_of(subject, {"name": "v", **volume}, material)


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"configMap": {"name": "c"}}, {"a": File(b"1", 0o644), "b": File(b"2", 0o644)}),
        (
            {"configMap": {"name": "c", "items": [{"key": "a", "path": "x/y", "mode": 256}]}},
            {"x/y": File(b"1", 0o400)},
        ),
        ({"configMap": {"name": "z", "optional": True}}, {}),
        ({"secret": {"secretName": "s", "defaultMode": 256}}, {"k": File(b"v", 0o400)}),
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
            {"l": File(b'x="y"', 0o644), "c": File(b"4", 0o644)},
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
                "ca.crt": File(b"1", 0o644),
                "token": File(b"token-v-1", 0o644),
                "k": File(b"v", 0o644),
            },
        ),
    ],
)
def test_files(volume: Any, expected: dict[str, File]) -> None:
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
def test_what_is_missing_stops_a_volume(volume: Any, message: str) -> None:
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
    assert token_requests(projected) == [(1, {"path": "t"})]
    assert references(subject) == {
        ("secret", "s"),
        ("secret", "e"),
        ("configMap", "c"),
        ("configMap", "d"),
    }


def test_a_folder_changes_at_once(tmp_path: Path) -> None:
    assert write_files(tmp_path, {"a": File(b"1", 0o644), "d/e": File(b"2", 0o600)})
    first = os.readlink(tmp_path / "..data")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "d" / "e").stat().st_mode & 0o777 == 0o600
    assert not write_files(tmp_path, {"a": File(b"1", 0o644), "d/e": File(b"2", 0o600)})
    held = os.open(tmp_path / "a", os.O_RDONLY)
    assert write_files(tmp_path, {"a": File(b"3", 0o644)})
    assert os.read(held, 9) == b"1"
    os.close(held)
    assert (tmp_path / "a").read_bytes() == b"3"
    assert os.readlink(tmp_path / "..data") != first
    assert sorted(each.name for each in tmp_path.iterdir() if each.name[:2] != "..") == ["a"]
    assert not (tmp_path / first).exists()


def test_data_folders_have_networks_of_their_own(tmp_path: Path) -> None:
    first, second = pod_network(tmp_path / "one"), pod_network(tmp_path / "two")
    assert first == pod_network(tmp_path / "one")
    assert first != second
    assert 64 <= int(str(first).split(".")[1]) < 96


def test_addresses_are_kept_and_come_back_late(tmp_path: Path) -> None:
    addresses = Addresses(pod_network(tmp_path))
    first = addresses.take("u")
    assert first is not None
    assert addresses.take("u") == first
    assert not addresses.keep("v", first)
    addresses.free("u")
    assert addresses.take("v") != first
    taken = {addresses.take(f"p{number}") for number in range(253)}
    assert len(taken) == 253
    assert addresses.take("one too many") is None
