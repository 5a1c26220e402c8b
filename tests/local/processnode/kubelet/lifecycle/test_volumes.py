"""Variables, volumes, tokens and GPUs of pods of the process node."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kilonova.api.gpu.annotations import DEVICES, Gpu, MigInstance
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import CONFIG_MAPS, PODS, SECRETS
from tests.local.processnode.kubelet.process_cluster import (
    ProcessCluster,
    is_ready,
    process_cluster,
    state_of,
)

MIG_INSTANCES = (MigInstance("MIG-a", "1g.18gb", 0), MigInstance("MIG-b", "1g.18gb", 2))
GPUS = (Gpu(), Gpu(), Gpu(), Gpu(mig_enabled=True, instances=MIG_INSTANCES))


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    async with process_cluster(
        tmp_path / "data", gpus=GPUS, allowed_host_paths=(allowed,)
    ) as running:
        yield running


async def put_config_map(cluster: ProcessCluster, name: str, **data: str) -> None:
    await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": data}, "default")


def mounted(name: str, path: str, **more: Any) -> Any:
    return {"volumeMounts": [{"name": name, "mountPath": path, **more}]}


async def output(cluster: ProcessCluster, name: str) -> list[str]:
    await cluster.wait_for_phase(name, "Succeeded")
    return (await cluster.logs(name)).splitlines()


async def test_pod_starts_when_its_missing_object_is_created(cluster: ProcessCluster) -> None:
    ref = {"configMapKeyRef": {"name": "c", "key": "k"}}
    env = [{"name": "A", "valueFrom": ref}]
    await cluster.run("p", "sh", "-c", "echo $A", container={"env": env}, restartPolicy="Never")
    reason = "CreateContainerConfigError"
    pod = await cluster.wait_until("p", lambda pod: state_of(pod)[1].get("reason") == reason)
    assert state_of(pod)[1]["message"] == 'configmap "c" not found'
    assert await cluster.wait_for_event("p", "Failed") == 'Error: configmap "c" not found'
    await put_config_map(cluster, "c", k="found")
    assert await output(cluster, "p") == ["found"]


async def test_pod_has_its_own_environment_and_none_of_kilonova(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILONOVA_SECRET_OF_TESTS", "x")
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    ]
    await cluster.run("p", "env", container={"env": env}, restartPolicy="Never")
    found = dict(line.split("=", 1) for line in await output(cluster, "p"))
    pod = await cluster.wait_for_phase("p", "Succeeded")
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
    await cluster.wait_for_log("p", "one")
    await cluster.client.patch(CONFIG_MAPS, "c", {"data": {"k": "two"}}, "default")
    await cluster.wait_for_phase("p", "Succeeded")
    assert await cluster.logs("p") == "one\ncame\n"


async def test_missing_secret_delays_a_pod(cluster: ProcessCluster) -> None:
    await cluster.run(
        "p",
        "cat",
        "/secrets/k",
        container=mounted("v", "/secrets"),
        volumes=[{"name": "v", "secret": {"secretName": "s"}}],
        restartPolicy="Never",
    )
    expected = 'MountVolume.SetUp failed for volume "v" : secret "s" not found'
    assert await cluster.wait_for_event("p", "FailedMount") == expected
    pod = await cluster.wait_until("p", lambda pod: state_of(pod)[0] == "waiting")
    assert state_of(pod) == ("waiting", {"reason": "ContainerCreating"})
    secret = {"metadata": {"name": "s"}, "data": {"k": b64encode(b"hidden").decode()}}
    await cluster.client.create(SECRETS, secret, "default")
    assert await output(cluster, "p") == ["hidden"]


async def test_containers_share_empty_dir_volumes(cluster: ProcessCluster) -> None:
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
    await cluster.wait_for_deletion("p")
    await asyncio.wait_for(_wait_until_empty(cluster.data / "pods"), 10)


async def _wait_until_empty(folder: Path) -> None:
    while list(folder.iterdir()):
        await asyncio.sleep(0.02)


async def test_host_paths_must_be_allowed(cluster: ProcessCluster) -> None:
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
    message = await cluster.wait_for_event("bad", "FailedMount")
    assert f"start Kilonova with --allow-host-path {cluster.data}" in message


async def test_data_directory_is_hidden_in_an_allowed_host_path(tmp_path: Path) -> None:
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
            message = await cluster.wait_for_event(name, "FailedMount")
            assert f"hostPath {path} is in the data directory of this cluster" in message
        await cluster.run(
            "part",
            "true",
            container=mounted("v", "/machine", subPath="link"),
            volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}],
        )
        reason = "CreateContainerConfigError"
        await cluster.wait_until("part", lambda pod: state_of(pod)[1].get("reason") == reason)


async def test_unsupported_volumes_are_rejected_with_alternatives(cluster: ProcessCluster) -> None:
    nfs = {"server": "example.com", "path": "/"}
    await cluster.run("p", "true", volumes=[{"name": "v", "nfs": nfs}])
    message = await cluster.wait_for_event("p", "FailedMount")
    assert "nfs volumes are not supported on this node: use emptyDir" in message


async def test_missing_claim_is_named(cluster: ProcessCluster) -> None:
    claim = {"claimName": "c"}
    await cluster.run("p", "true", volumes=[{"name": "v", "persistentVolumeClaim": claim}])
    message = await cluster.wait_for_event("p", "FailedMount")
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


async def test_gpus_are_assigned_to_pods(cluster: ProcessCluster) -> None:
    for name, count in (("a", 2), ("b", 1)):
        await cluster.run(
            name,
            "sh",
            "-c",
            "echo =$CUDA_VISIBLE_DEVICES=; exec sleep 1000",
            container={"resources": {"limits": {"nvidia.com/gpu": count}}},
        )
        await cluster.wait_until(name, is_ready)
    logs = [await cluster.wait_for_log(name, "=\n") for name in ("a", "b")]
    assert logs == ["=0,1=\n", "=2=\n"]
    await cluster.run("c", "true", container={"resources": {"limits": {"nvidia.com/gpu": 9}}})
    pod = await cluster.wait_for_phase("c", "Failed")
    assert pod["status"]["reason"] == "OutOfnvidia.com/gpu"
    assert "requested: 9" in pod["status"]["message"]


async def test_pod_gets_the_gpus_that_the_scheduler_assigned(cluster: ProcessCluster) -> None:
    await cluster.run(
        "p",
        "sh",
        "-c",
        "echo =$CUDA_VISIBLE_DEVICES=",
        container={"resources": {"limits": {"nvidia.com/gpu": 1}}},
        metadata={"annotations": {DEVICES: "2"}},
        restartPolicy="Never",
    )
    assert await output(cluster, "p") == ["=2="]


async def test_pods_see_their_share_or_mig_instance(cluster: ProcessCluster) -> None:
    mig = {"nvidia.com/mig-1g.18gb": 1}
    cases: dict[str, tuple[str, dict[str, int], str]] = {
        "share": ("1:500", {}, "1"),
        "assigned-instance": ("3:1g.18gb@2", mig, "MIG-b"),
        "free-instance": ("", mig, "MIG-a"),
        "none": ("", {}, ""),
    }
    for name, (assigned, resources, _) in cases.items():
        await cluster.run(
            name,
            "sh",
            "-c",
            "echo =$CUDA_VISIBLE_DEVICES=; exec sleep 1000",
            container={"resources": {"limits": resources}},
            metadata={"annotations": {DEVICES: assigned}},
        )
        await cluster.wait_until(name, is_ready)
    seen = {name: await cluster.wait_for_log(name, "=\n") for name in cases}
    assert seen == {name: f"={visible}=\n" for name, (_, _, visible) in cases.items()}


async def test_pod_whose_sidecars_need_more_gpus_than_the_node_has_fails(
    cluster: ProcessCluster,
) -> None:
    two = {"command": ["sleep", "9"], "resources": {"limits": {"nvidia.com/gpu": 2}}}
    sidecars = [
        {"name": name, "image": "none", "restartPolicy": "Always", **two} for name in ("s", "t")
    ]
    await cluster.run("p", "true", initContainers=sidecars)
    pod = await cluster.wait_for_phase("p", "Failed")
    assert "requested: 4" in pod["status"]["message"]


CLAIMS = unstructured_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)


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
        await cluster.wait_for_phase(name, "Succeeded")
    assert (await cluster.logs("reader")).splitlines() == ["first"]
    bound = await cluster.client.get(CLAIMS, "kept", "default")
    assert (tmp_path / "data" / "volumes" / bound["spec"]["volumeName"] / "file").exists()


async def test_ephemeral_claim_is_deleted_with_its_pod(cluster: ProcessCluster) -> None:
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
