"""Pods of this machine cannot read the keys of their cluster, and resolve their own names."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.local.embedded_cluster import PODS
from tests.local.processnode.kubelet.process_cluster import ProcessCluster, process_cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[ProcessCluster]:
    async with process_cluster(tmp_path / "data") as running:
        yield running


async def output(cluster: ProcessCluster, name: str, script: str, **spec: object) -> list[str]:
    """The lines that a pod writes until its end."""
    await cluster.run(name, "sh", "-c", script, restartPolicy="Never", **spec)
    await cluster.wait_until(name, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"))
    return (await cluster.logs(name)).splitlines()


async def test_a_pod_cannot_read_the_keys_of_its_cluster(cluster: ProcessCluster) -> None:
    files = ("pki/ca.key", "pki/sa.key", "kubeconfig", "store.db", "running.json", "shim")
    paths = [cluster.data / each for each in files]
    script = "; ".join(f"test -e {each} && echo {each}" for each in paths)
    assert await output(cluster, "thief", f"{script}; cat {paths[0]} 2>&1") == [
        f"cat: {paths[0]}: No such file or directory"
    ]
    assert all(each.exists() for each in paths)
    # Nor can a command that is executed in it.
    await cluster.run("shell", "sleep", "1000")
    await cluster.wait_for_phase("shell", "Running")
    process = await cluster.cluster.kubelets.get(cluster.node).execute(
        await cluster.client.get(PODS, "shell", "default"),
        "main",
        ["test", "-e", str(paths[0])],
        stdin=False,
        tty=False,
    )
    assert await process.wait() == 1


async def test_pod_sees_only_its_own_files(cluster: ProcessCluster) -> None:
    await cluster.run("other", "sleep", "1000")
    await cluster.wait_for_phase("other", "Running")
    script = f"pwd; echo kept > note; cat note; ls {cluster.data} {cluster.data}/pods | wc -w"
    home, note, words = await output(cluster, "own", script)
    assert Path(home).is_relative_to(cluster.data / "pods")
    # `data:`, `pods`, `data/pods:` and the pod's own directory.
    assert (note, words) == ("kept", "4")


async def test_a_pod_resolves_its_own_names_and_its_aliases(cluster: ProcessCluster) -> None:
    script = """
        for name in $(hostname) web-0.web.default.svc.cluster.local db db.example localhost; do
            getent ahostsv4 $name | head -1 | cut -d ' ' -f 1
        done
    """
    lines = await output(
        cluster,
        "named",
        script,
        hostname="web-0",
        subdomain="web",
        hostAliases=[{"ip": "127.9.9.9", "hostnames": ["db", "db.example"]}],
    )
    pod = await cluster.wait_for_phase("named", "Succeeded")
    address = pod["status"]["podIP"]
    assert lines == [address, address, "127.9.9.9", "127.9.9.9", "127.0.0.1"]


async def test_a_volume_at_etc_hosts_is_left_alone(cluster: ProcessCluster) -> None:
    volume = {"name": "v", "emptyDir": {}}
    maker = {
        "name": "maker",
        "image": "none",
        "command": ["sh", "-c", "echo own > /v/hosts"],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/etc/hosts", "subPath": "hosts"}]}
    lines = await output(
        cluster,
        "mounted",
        "cat /etc/hosts",
        volumes=[volume],
        initContainers=[maker],
        container=mounted,
    )
    assert lines == ["own"]
