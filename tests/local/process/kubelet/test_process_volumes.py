"""What pods of the process node are given: variables, volumes, tokens, GPUs."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube.resource import plain
from tests.local.embedded_cluster import CONFIG_MAPS, PODS, SECRETS
from tests.local.process.kubelet.process_cluster import (
    ProcessCluster,
    is_ready,
    process_cluster,
    state_of,
)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    async with process_cluster(
        tmp_path / "data", gpus=(0, 1, 2), allowed_host_paths=(allowed,)
    ) as running:
        yield running


async def put_config_map(cluster: ProcessCluster, name: str, **data: str) -> None:
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, "default")


def mounted(name: str, path: str, **more: Any) -> Any:
    return {"volumeMounts": [{"name": name, "mountPath": path, **more}]}


async def output(cluster: ProcessCluster, name: str) -> list[str]:
    await cluster.until_phase(name, "Succeeded")
    return (await cluster.logs(name)).splitlines()


async def test_a_pod_starts_when_what_it_lacks_appears(cluster: ProcessCluster) -> None:
    ref = {"configMapKeyRef": {"name": "c", "key": "k"}}
    env = [{"name": "A", "valueFrom": ref}]
    await cluster.run("p", "sh", "-c", "echo $A", container={"env": env}, restartPolicy="Never")
    reason = "CreateContainerConfigError"
    pod = await cluster.until("p", lambda pod: state_of(pod)[1].get("reason") == reason)
    assert state_of(pod)[1]["message"] == 'configmap "c" not found'
    assert await cluster.until_event("p", "Failed") == 'Error: configmap "c" not found'
    await put_config_map(cluster, "c", k="found")
    assert await output(cluster, "p") == ["found"]


async def test_a_pod_knows_itself_and_nothing_of_kilonova(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILONOVA_SECRET_OF_TESTS", "x")
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    await cluster.run("p", "env", container={"env": env}, restartPolicy="Never")
    found = dict(line.split("=", 1) for line in await output(cluster, "p"))
    pod = await cluster.until_phase("p", "Succeeded")
    assert found["IP"] == pod["status"]["podIP"]
    assert (found["NODE"], found["HOSTNAME"]) == (cluster.node, "p")
    assert found["KUBERNETES_SERVICE_HOST"]
    assert found["CUDA_VISIBLE_DEVICES"] == ""
    assert "KILONOVA_SECRET_OF_TESTS" not in found


async def test_a_change_of_a_config_map_arrives_in_a_running_pod(cluster: ProcessCluster) -> None:
    await put_config_map(cluster, "c", k="one")
    script = (
        "cat /etc/made-up/k; echo; until grep -q two /etc/made-up/k; do sleep 0.05; done; echo came"
    )
    await cluster.run(
        "p",
        "sh",
        "-c",
        script,
        container=mounted("v", "/etc/made-up", readOnly=True),
        volumes=[{"name": "v", "configMap": {"name": "c"}}],
        restartPolicy="Never",
    )
    await cluster.until_log("p", "one")
    await cluster.client.patch(CONFIG_MAPS, "c", {"data": {"k": "two"}}, "default")
    await cluster.until_phase("p", "Succeeded")
    assert await cluster.logs("p") == "one\ncame\n"


async def test_a_missing_secret_holds_a_pod_back(cluster: ProcessCluster) -> None:
    await cluster.run(
        "p",
        "cat",
        "/secrets/k",
        container=mounted("v", "/secrets"),
        volumes=[{"name": "v", "secret": {"secretName": "s"}}],
        restartPolicy="Never",
    )
    expected = 'MountVolume.SetUp failed for volume "v" : secret "s" not found'
    assert await cluster.until_event("p", "FailedMount") == expected
    pod = await cluster.until("p", lambda pod: state_of(pod)[0] == "waiting")
    assert state_of(pod) == ("waiting", {"reason": "ContainerCreating"})
    secret = {"metadata": {"name": "s"}, "data": {"k": b64encode(b"hidden").decode()}}
    await cluster.client.create(SECRETS, secret, "default")
    assert await output(cluster, "p") == ["hidden"]


async def test_containers_share_empty_folders(cluster: ProcessCluster) -> None:
    mounts = [
        {"name": "disk", "mountPath": "/shared"},
        {"name": "memory", "mountPath": "/quick", "subPathExpr": "of-$(POD)"},
    ]
    env = [{"name": "POD", "value": "p"}]

    def shell(name: str, script: str) -> Any:
        command = ["sh", "-c", script]
        return {"name": name, "command": command, "volumeMounts": mounts, "env": env}

    await cluster.create(
        "p",
        shell("main", "cat /shared/a /quick/b"),
        initContainers=[{"image": "none", **shell("i", "echo 1 > /shared/a; echo 2 > /quick/b")}],
        volumes=[
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
        ],
        restartPolicy="Never",
    )
    assert await output(cluster, "p") == ["1", "2"]
    await cluster.client.delete(PODS, "p", "default")
    await cluster.until_gone("p")
    await asyncio.wait_for(_until_empty(cluster.data / "pods"), 10)


async def _until_empty(folder: Path) -> None:
    while list(folder.iterdir()):
        await asyncio.sleep(0.02)


async def test_paths_of_the_machine_need_permission(cluster: ProcessCluster) -> None:
    allowed = cluster.data.parent / "allowed"
    (allowed / "file").write_text("seen\n")
    for name, path in (("good", str(allowed)), ("bad", str(cluster.data))):
        await cluster.run(
            name,
            "cat",
            "/machine/file",
            container=mounted("v", "/machine"),
            volumes=[{"name": "v", "hostPath": {"path": path}}],
            restartPolicy="Never",
        )
    assert await output(cluster, "good") == ["seen"]
    message = await cluster.until_event("bad", "FailedMount")
    assert f"start Kilonova with --allow-host-path {cluster.data}" in message


async def test_the_data_folder_is_not_seen_through_a_path_that_is_allowed(tmp_path: Path) -> None:
    async with process_cluster(tmp_path / "data", allowed_host_paths=(tmp_path,)) as cluster:
        (tmp_path / "file").write_text("seen\n")
        (tmp_path / "link").symlink_to(cluster.data)
        (cluster.data / "ca.key").write_text("secret\n")
        await cluster.run(
            "around",
            *("sh", "-c", "cat /machine/file; cat /machine/*/ca.key 2>/dev/null || echo hidden"),
            container=mounted("v", "/machine"),
            volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}],
            restartPolicy="Never",
        )
        assert await output(cluster, "around") == ["seen", "hidden"]
        for name, path in (("inside", cluster.data), ("link", tmp_path / "link")):
            await cluster.run(
                name, "true", volumes=[{"name": "v", "hostPath": {"path": str(path)}}]
            )
            message = await cluster.until_event(name, "FailedMount")
            assert f"hostPath {path} is in the data folder of this cluster" in message
        await cluster.run(
            "part",
            "true",
            container=mounted("v", "/machine", subPath="link"),
            volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}],
        )
        reason = "CreateContainerConfigError"
        await cluster.until("part", lambda pod: state_of(pod)[1].get("reason") == reason)


async def test_other_volumes_are_refused_clearly(cluster: ProcessCluster) -> None:
    nfs = {"server": "example.com", "path": "/"}
    await cluster.run("p", "true", volumes=[{"name": "v", "nfs": nfs}])
    message = await cluster.until_event("p", "FailedMount")
    assert "nfs volumes are not served by this node: use emptyDir" in message


async def test_a_claim_that_is_not_there_is_named(cluster: ProcessCluster) -> None:
    claim = {"claimName": "c"}
    await cluster.run("p", "true", volumes=[{"name": "v", "persistentVolumeClaim": claim}])
    message = await cluster.until_event("p", "FailedMount")
    assert 'persistentvolumeclaims "c" not found' in message


async def test_the_token_of_a_pod_works_against_the_api(cluster: ProcessCluster) -> None:
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [
                    {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                ]
            }
        },
    ]
    script = (
        "import ssl, urllib.request as u\n"
        "d = '/var/run/secrets/kubernetes.io/serviceaccount/'\n"
        "h = {'Authorization': 'Bearer ' + open(d + 'token').read()}\n"
        "c = ssl.create_default_context(cafile=d + 'ca.crt')\n"
        f"r = u.Request('{cluster.cluster.url}/apis/authentication.k8s.io/v1/selfsubjectreviews',"
        'b\'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}\','
        "{**h, 'Content-Type': 'application/json'})\n"
        "print(open(d + 'namespace').read(), u.urlopen(r, context=c).read().decode())\n"
    )
    await cluster.run(
        "p",
        "python3",
        "-c",
        script,
        container=mounted("t", "/var/run/secrets/kubernetes.io/serviceaccount", readOnly=True),
        volumes=[{"name": "t", "projected": {"sources": sources}}],
        restartPolicy="Never",
    )
    (line,) = await output(cluster, "p")
    assert line.startswith("default ")
    assert "system:serviceaccount:default:default" in line


async def test_gpus_are_shared_out(cluster: ProcessCluster) -> None:
    for name, count in (("a", 2), ("b", 1)):
        await cluster.run(
            name,
            "sh",
            "-c",
            "echo =$CUDA_VISIBLE_DEVICES=; exec sleep 1000",
            container={"resources": {"limits": {"nvidia.com/gpu": count}}},
        )
        await cluster.until(name, is_ready)
    logs = [await cluster.until_log(name, "=\n") for name in ("a", "b")]
    assert logs == ["=0,1=\n", "=2=\n"]
    await cluster.run("c", "true", container={"resources": {"limits": {"nvidia.com/gpu": 9}}})
    pod = await cluster.until_phase("c", "Failed")
    assert pod["status"]["reason"] == "OutOfnvidia.com/gpu"
    assert "requested: 9" in pod["status"]["message"]


CLAIMS = plain("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)


async def test_a_claim_outlives_the_pods_that_use_it(
    cluster: ProcessCluster, tmp_path: Path
) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await cluster.client.create(CLAIMS, {"metadata": {"name": "kept"}, "spec": spec}, "default")
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "kept"}}]
    for name, script in (("writer", "echo first > /data/file"), ("reader", "cat /data/file")):
        await cluster.run(
            name,
            "sh",
            "-c",
            script,
            container=mounted("data", "/data"),
            volumes=volumes,
            nodeName="",
            restartPolicy="Never",
        )
        await cluster.until_phase(name, "Succeeded")
    assert (await cluster.logs("reader")).splitlines() == ["first"]
    bound = await cluster.client.get(CLAIMS, "kept", "default")
    assert (tmp_path / "data" / "volumes" / bound["spec"]["volumeName"] / "file").exists()


async def test_a_claim_of_the_pods_own_goes_with_it(cluster: ProcessCluster) -> None:
    template = {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    }
    await cluster.run(
        "p",
        "sh",
        "-c",
        "touch /scratch/file && ls /scratch",
        container=mounted("scratch", "/scratch"),
        volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}],
        nodeName="",
        restartPolicy="Never",
    )
    assert await output(cluster, "p") == ["file"]
    assert await cluster.client.get(CLAIMS, "p-scratch", "default")
