"""This machine as the node of an ordinary user, who may make user namespaces."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.process.unprivileged.conftest import NewUser
from tests.local.process.unprivileged.ordinary import NOBODY, OrdinaryUser, free_port, until
from tests.local.process.unprivileged.webpods import (
    Hands,
    deployment,
    hands,
    page,
    pod,
    server,
    service,
    shell,
)

UID = NOBODY if os.geteuid() == 0 else os.geteuid()


@pytest.fixture(scope="module")
def person(
    new_user: NewUser, kubectl_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hands]:
    """At a cluster with a web service of two replicas."""
    user = new_user()
    user.up()
    person = hands(kubectl_path, user.data, tmp_path_factory.mktemp("kubectl"))
    # Elsewhere 8080 may be taken; here each replica has one of its own.
    door = service(free_port(), 8080, node_port=free_port(30000, 32767))
    person.apply(deployment(server(8080), 2), door)
    yield person
    assert user("down", "--data", user.data).code == 0
    until(lambda: not user.left_behind())


def pods(person: Hands) -> list[str]:
    found = person("get pods -l app=web -o jsonpath={.items[*].metadata.name}")
    return sorted(found.split())


def test_the_node_tells_what_pods_can_have(person: Hands) -> None:
    labels = until(lambda: (found := person.labels()).get("kilonova.dev/pod-network") and found)
    assert labels["kilonova.dev/pod-network"] == "private"
    assert labels["kilonova.dev/pod-mounts"] == "allowed"
    assert labels["kilonova.dev/pod-limits"] in ("kept", "ignored")


def test_a_service_is_reached_wherever_it_is_said_to_be(person: Hands) -> None:
    person("rollout status deployment/web --timeout=30s")
    ip = until(lambda: person.get("service web", ".status.loadBalancer.ingress[0].ip"))
    assert ip == person.get("service web", ".spec.clusterIP").replace("10.", "127.", 1)
    port, node_port = (
        person.get("service web", f".spec.ports[0].{name}") for name in ("port", "nodePort")
    )
    names = pods(person)
    assert len(names) == 2
    assert sorted({page(f"{ip}:{port}") for _ in range(30)}) == names
    assert page(f"127.0.0.1:{node_port}") in names
    for name in names:
        assert page(f"{person.get(f'pod {name}', '.status.podIP')}:8080") == name
    with person.forwarded("service/web", int(port)) as place:
        assert page(place) in names
    name = names[0]
    call = "import os, urllib.request as u; print(u.urlopen(os.environ['WEB']).read().decode())"
    command = ["exec", name, "--", "env", f"WEB=http://web:{port}/", "python3", "-c", call]
    assert person(command).strip() in names


def test_exec_with_a_terminal_and_following_logs(person: Hands) -> None:
    person("rollout status deployment/web --timeout=30s")
    ours, theirs = pty.openpty()
    asked = "test -t 0 && test -t 1 && echo $(id -u) in $(hostname)"
    kubectl = person.kubectl
    done = subprocess.run(
        [*kubectl.prefix(), "exec", "-it", "deployment/web", "--", "sh", "-c", asked],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=kubectl.environment(),
        timeout=30,
        check=False,
    )
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert os.read(ours, 1000).decode().startswith(f"{UID} in web-")
    os.close(ours)
    command = [*kubectl.prefix(), "logs", "-f", "deployment/web"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, env=kubectl.environment())
    assert following.stdout is not None
    assert following.stdout.readline() == b"listening\n"
    following.terminate()
    following.communicate()


def test_volumes_and_the_token_are_where_pods_look_for_them(person: Hands) -> None:
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
    person(["create", "secret", "generic", "s", "--from-literal=password=hush\n"])
    person(["create", "configmap", "c", "--from-literal=key=value\n"])
    person.apply(pod("files", container, restartPolicy="Never", volumes=volumes))
    person("wait pod/files --for=jsonpath={.status.phase}=Succeeded --timeout=20s")
    assert person("logs files") == "hush\nvalue\ntoken\n"
    ended = ".status.containerStatuses[0].state.terminated.message"
    assert person.get("pod files", ended) == "bye\n"


def test_another_user_is_waited_for_with_the_reason(person: Hands) -> None:
    other = {"runAsUser": UID + 1 if UID < NOBODY else 1000}
    person.apply(pod("other", shell("id", securityContext=other)))
    reason, message = until(lambda: (said := person.waiting("other"))[0] and said)
    assert reason == "CreateContainerConfigError"
    wanted = other["runAsUser"]
    assert f"has runAsUser {wanted}, but Kilonova runs as {UID} and is not root" in message
    assert "leave runAsUser out, or start Kilonova as root" in message


def test_limits_that_are_not_kept_are_told_of(person: Hands) -> None:
    limits = {"limits": {"memory": "64Mi"}}
    person.apply(pod("limited", shell("exec sleep 1000", resources=limits)))
    person("wait pod/limited --for=condition=Ready --timeout=20s")
    kept = until(lambda: person.labels().get("kilonova.dev/pod-limits")) == "kept"
    until(lambda: "Started" in person.events("limited"))
    told = person.events("limited").get("LimitsNotKept", "")
    assert told.startswith("" if kept else "memory may exceed the limit: Kilonova may make no")


def test_usage_is_measured_and_a_drained_node_is_empty(person: Hands) -> None:
    before = pods(person)
    until(lambda: before[0] in person.kubectl("top pods").out, within=40)
    node = person("get nodes -o name").strip()
    person(f"drain {node} --force --delete-emptydir-data --timeout=30s")
    assert not set(before) & set(pods(person))
    person(f"uncordon {node}")
    person("rollout status deployment/web --timeout=30s")


def test_pods_outlive_a_crash_and_a_stop_and_end_with_down(
    new_user: NewUser, kubectl_path: Path, tmp_path: Path
) -> None:
    user = new_user()
    user.up()
    person = hands(kubectl_path, user.data, tmp_path)
    person.apply(pod("p", server(8080)))
    person("wait pod/p --for=condition=Ready --timeout=20s")
    place = f"{person.get('pod p', '.status.podIP')}:8080"
    container = ".status.containerStatuses[0]"
    since = person.get("pod p", f"{container}.state.running.startedAt")
    os.kill(user.pid(), 9)
    assert page(place) == "p"
    come_back(user, person, since)
    assert user("down", "--keep-pods", "--data", user.data).code == 0
    assert page(place) == "p"
    come_back(user, person, since)
    assert page(place) == "p"
    assert person.get("pod p", f"{container}.restartCount") == "0"
    done = user("down", "--data", user.data)
    assert done.err.startswith("Ending 1 pod on this machine")
    until(lambda: not user.left_behind())


def come_back(user: OrdinaryUser, person: Hands, since: str) -> None:
    """Start again, and find the same process."""
    user.up()
    person("wait pod/p --for=condition=Ready --timeout=20s")
    assert person.get("pod p", ".status.containerStatuses[0].state.running.startedAt") == since
    assert person("exec p -- echo hello") == "hello\n"


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
def test_a_folder_of_somebody_else_is_refused_in_one_line(new_user: NewUser, command: str) -> None:
    user = new_user()
    theirs = user.folder / "theirs"
    theirs.mkdir(mode=0o700)
    theirs.chmod(0o700 if os.geteuid() == 0 else 0)
    done = user(command, "--data", theirs / "data")
    assert (done.code, len(done.err.splitlines())) == (1, 1), done.err
    assert done.err.startswith(f"kilonova: {theirs / 'data'}")
    assert done.err.endswith(": Permission denied\n")
