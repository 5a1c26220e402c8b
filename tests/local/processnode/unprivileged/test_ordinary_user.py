"""This machine as the node of an unprivileged user, who may create user namespaces."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.processnode.unprivileged.conftest import NewUser
from tests.local.processnode.unprivileged.ordinary_user import (
    NOBODY,
    OrdinaryUser,
    free_port,
    wait_until,
)
from tests.local.processnode.unprivileged.web_pods import (
    KubectlUser,
    deployment,
    kubectl_user,
    pod,
    read_page,
    server,
    service,
    shell,
)

UID = NOBODY if os.geteuid() == 0 else os.geteuid()


@pytest.fixture(scope="module")
def cluster_user(
    new_user: NewUser, kubectl_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubectlUser]:
    """A user with a cluster and a web service of two replicas."""
    user = new_user()
    user.up()
    cluster_user = kubectl_user(kubectl_path, user.data, tmp_path_factory.mktemp("kubectl"))
    # Elsewhere 8080 may be taken; here each replica has one of its own.
    listener = service(free_port(), 8080, node_port=free_port(30000, 32767))
    cluster_user.apply(deployment(server(8080), 2), listener)
    yield cluster_user
    assert user("down", "--data", user.data).code == 0
    wait_until(lambda: not user.remaining_processes())


def pods(cluster_user: KubectlUser) -> list[str]:
    found = cluster_user("get pods -l app=web -o jsonpath={.items[*].metadata.name}")
    return sorted(found.split())


def test_node_labels_describe_capabilities(cluster_user: KubectlUser) -> None:
    labels = wait_until(
        lambda: (found := cluster_user.labels()).get("kilonova.dev/pod-network") and found
    )
    assert labels["kilonova.dev/pod-network"] == "private"
    assert labels["kilonova.dev/pod-mounts"] == "allowed"
    assert labels["kilonova.dev/pod-limits"] in ("kept", "ignored")


def test_service_is_reached_at_all_its_addresses(cluster_user: KubectlUser) -> None:
    cluster_user("rollout status deployment/web --timeout=30s")
    ip = wait_until(lambda: cluster_user.get("service web", ".status.loadBalancer.ingress[0].ip"))
    assert ip == cluster_user.get("service web", ".spec.clusterIP").replace("10.", "127.", 1)
    port, node_port = (
        cluster_user.get("service web", f".spec.ports[0].{name}") for name in ("port", "nodePort")
    )
    names = pods(cluster_user)
    assert len(names) == 2
    assert sorted({read_page(f"{ip}:{port}") for _ in range(30)}) == names
    assert read_page(f"127.0.0.1:{node_port}") in names
    for name in names:
        assert read_page(f"{cluster_user.get(f'pod {name}', '.status.podIP')}:8080") == name
    with cluster_user.forwarded("service/web", int(port)) as place:
        assert read_page(place) in names
    name = names[0]
    call = "import os, urllib.request as u; print(u.urlopen(os.environ['WEB']).read().decode())"
    command = ["exec", name, "--", "env", f"WEB=http://web:{port}/", "python3", "-c", call]
    assert cluster_user(command).strip() in names


def test_exec_with_a_terminal_and_following_logs(cluster_user: KubectlUser) -> None:
    cluster_user("rollout status deployment/web --timeout=30s")
    ours, theirs = pty.openpty()
    asked = "test -t 0 && test -t 1 && echo $(id -u) in $(hostname)"
    kubectl = cluster_user.kubectl
    done = subprocess.run(
        [*kubectl.build_prefix(), "exec", "-it", "deployment/web", "--", "sh", "-c", asked],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=kubectl.build_environment(),
        timeout=30,
        check=False,
    )
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert os.read(ours, 1000).decode().startswith(f"{UID} in web-")
    os.close(ours)
    command = [*kubectl.build_prefix(), "logs", "-f", "deployment/web"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, env=kubectl.build_environment())
    assert following.stdout is not None
    assert following.stdout.readline() == b"listening\n"
    following.terminate()
    following.communicate()


def test_volumes_and_the_token_are_mounted(cluster_user: KubectlUser) -> None:
    look = (
        "cat /made-up/password /etc/of-a-pod/key; "
        "test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo token; "
        "touch /scratch-of-a-pod/file && echo bye > /dev/termination-log"
    )
    mounts = {"s": "/made-up", "c": "/etc/of-a-pod", "e": "/scratch-of-a-pod"}
    container = shell(
        look, volumeMounts=[{"name": name, "mountPath": path} for name, path in mounts.items()]
    )
    volumes = [
        {"name": "s", "secret": {"secretName": "s"}},
        {"name": "c", "configMap": {"name": "c"}},
        {"name": "e", "emptyDir": {}},
    ]
    cluster_user(["create", "secret", "generic", "s", "--from-literal=password=hush\n"])
    cluster_user(["create", "configmap", "c", "--from-literal=key=value\n"])
    cluster_user.apply(pod("files", container, restartPolicy="Never", volumes=volumes))
    cluster_user("wait pod/files --for=jsonpath={.status.phase}=Succeeded --timeout=20s")
    assert cluster_user("logs files") == "hush\nvalue\ntoken\n"
    ended = ".status.containerStatuses[0].state.terminated.message"
    assert cluster_user.get("pod files", ended) == "bye\n"


def test_run_as_another_user_waits_with_the_reason(cluster_user: KubectlUser) -> None:
    other = {"runAsUser": UID + 1 if UID < NOBODY else 1000}
    cluster_user.apply(pod("other", shell("id", securityContext=other)))
    reason, message = wait_until(
        lambda: (output := cluster_user.waiting_reason("other"))[0] and output
    )
    assert reason == "CreateContainerConfigError"
    expected = other["runAsUser"]
    assert f"has runAsUser {expected}, but Kilonova runs as {UID} and is not root" in message
    assert "omit runAsUser, or start Kilonova as root" in message


def test_limits_that_are_not_enforced_are_reported(cluster_user: KubectlUser) -> None:
    limits = {"limits": {"memory": "64Mi"}}
    cluster_user.apply(pod("limited", shell("exec sleep 1000", resources=limits)))
    cluster_user("wait pod/limited --for=condition=Ready --timeout=20s")
    enforced = wait_until(lambda: cluster_user.labels().get("kilonova.dev/pod-limits")) == "kept"
    wait_until(lambda: "Started" in cluster_user.events("limited"))
    message = cluster_user.events("limited").get("LimitsNotEnforced", "")
    assert message.startswith("" if enforced else "memory limits are not enforced: Kilonova")


def test_usage_is_measured_and_a_drained_node_is_empty(cluster_user: KubectlUser) -> None:
    before = pods(cluster_user)
    wait_until(lambda: before[0] in cluster_user.kubectl("top pods").out, within=40)
    node = cluster_user("get nodes -o name").strip()
    cluster_user(f"drain {node} --force --delete-emptydir-data --timeout=30s")
    assert not set(before) & set(pods(cluster_user))
    cluster_user(f"uncordon {node}")
    cluster_user("rollout status deployment/web --timeout=30s")


def test_pods_outlive_a_crash_and_a_stop_and_end_with_down(
    new_user: NewUser, kubectl_path: Path, tmp_path: Path
) -> None:
    user = new_user()
    user.up()
    cluster_user = kubectl_user(kubectl_path, user.data, tmp_path)
    cluster_user.apply(pod("p", server(8080)))
    cluster_user("wait pod/p --for=condition=Ready --timeout=20s")
    place = f"{cluster_user.get('pod p', '.status.podIP')}:8080"
    container = ".status.containerStatuses[0]"
    since = cluster_user.get("pod p", f"{container}.state.running.startedAt")
    os.kill(user.pid(), 9)
    assert read_page(place) == "p"
    come_back(user, cluster_user, since)
    assert user("down", "--keep-pods", "--data", user.data).code == 0
    assert read_page(place) == "p"
    come_back(user, cluster_user, since)
    assert read_page(place) == "p"
    assert cluster_user.get("pod p", f"{container}.restartCount") == "0"
    done = user("down", "--data", user.data)
    assert done.err.startswith("Terminating 1 pod on this machine")
    wait_until(lambda: not user.remaining_processes())


def come_back(user: OrdinaryUser, cluster_user: KubectlUser, since: str) -> None:
    """Start again, and find the same process."""
    user.up()
    cluster_user("wait pod/p --for=condition=Ready --timeout=20s")
    assert (
        cluster_user.get("pod p", ".status.containerStatuses[0].state.running.startedAt") == since
    )
    assert cluster_user("exec p -- echo hello") == "hello\n"


def test_a_wipe_removes_what_a_pod_has_closed(new_user: NewUser) -> None:
    user = new_user()
    user.up("--no-console")
    closed = user.data / "volumes" / "claim" / "closed"
    closed.mkdir(parents=True)
    (closed / "file").write_text("read only")
    elsewhere = user.home / "elsewhere"
    elsewhere.mkdir()
    (closed / "link").symlink_to(elsewhere)
    for each in (closed.parent.parent, closed.parent, closed, closed / "file"):
        os.chown(each, *(user.data.stat().st_uid, user.data.stat().st_gid))
    closed.chmod(0o555)
    elsewhere.chmod(0o555)
    done = user("down", "--wipe", "--yes", "--data", user.data)
    assert done.code == 0, done.err
    assert not user.data.exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o555


@pytest.mark.parametrize("command", ["status", "nodes", "doctor", "down"])
def test_data_directory_of_another_user_is_rejected_in_one_line(
    new_user: NewUser, command: str
) -> None:
    user = new_user()
    theirs = user.folder / "theirs"
    theirs.mkdir(mode=0o700)
    theirs.chmod(0o700 if os.geteuid() == 0 else 0)
    done = user(command, "--data", theirs / "data")
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert done.err.startswith(f"kilonova: {theirs / 'data'}")
    assert done.err.endswith(": Permission denied\n")
