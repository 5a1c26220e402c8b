"""The service account of a pod, and the volume with its token."""

import asyncio
from typing import Any

import pytest

from kilonova.kube import Forbidden
from kilonova.local.apiserver.admission.plugins.service_account import MOUNT_PATH, mount_token
from kilonova.local.clock import IdGenerator
from tests.local.embedded_cluster import ACCOUNTS, PODS, pod, run_cluster


def mounts(spec: Any) -> list[list[str]]:
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    return [
        [mount["name"].rpartition("-")[0] or mount["name"] for mount in each["volumeMounts"]]
        for each in containers
    ]


def test_every_container_mounts_the_token_volume() -> None:
    spec: Any = {"initContainers": [{"name": "i"}], "containers": [{"name": "a"}, {"name": "b"}]}
    mount_token(spec, IdGenerator())
    assert mounts(spec) == [["kube-api-access"]] * 3
    (volume,) = spec["volumes"]
    token, authority, namespace = volume["projected"]["sources"]
    assert token["serviceAccountToken"] == {"expirationSeconds": 3607, "path": "token"}
    assert authority["configMap"]["name"] == "kube-root-ca.crt"
    assert namespace["downwardAPI"]["items"][0]["path"] == "namespace"


def test_existing_mount_at_the_token_path_is_kept() -> None:
    own = {"name": "mine", "mountPath": MOUNT_PATH}
    spec: Any = {"containers": [{"name": "a", "volumeMounts": [own]}]}
    mount_token(spec, IdGenerator())
    assert mounts(spec) == [["mine"]]
    assert "volumes" not in spec


def test_existing_token_volume_is_used() -> None:
    spec: Any = {"containers": [{"name": "a"}], "volumes": [{"name": "kube-api-access-mine"}]}
    mount_token(spec, IdGenerator())
    assert spec["containers"][0]["volumeMounts"][0]["name"] == "kube-api-access-mine"
    assert len(spec["volumes"]) == 1


@pytest.mark.looptime
async def test_pod_waits_for_the_default_account() -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        creating = asyncio.create_task(client.create(PODS, pod("early"), "default"))
        await asyncio.sleep(1)
        assert not creating.done()
        await client.create(ACCOUNTS, {"metadata": {"name": "default"}}, "default")
        assert (await creating)["spec"]["serviceAccountName"] == "default"


@pytest.mark.looptime
@pytest.mark.parametrize("name", ["default", "other"])
async def test_pod_with_missing_account_is_rejected(name: str) -> None:
    async with run_cluster(controllers="") as cluster:
        client = cluster.client("test")
        message = f'service account default/{name}: serviceaccount "{name}" not found'
        with pytest.raises(Forbidden, match=message):
            await client.create(PODS, pod("alone", serviceAccountName=name), "default")
