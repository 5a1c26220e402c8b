"""This machine as a node where namespaces are forbidden: pods without mounts still run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.processnode.unprivileged.conftest import NewUser
from tests.local.processnode.unprivileged.ordinary_user import OrdinaryUser, wait_until
from tests.local.processnode.unprivileged.web_pods import (
    KubectlUser,
    kubectl_user,
    pod,
    read_page,
    server,
    shell,
)

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
WHY = "this machine forbids mount namespaces: "


@pytest.fixture(scope="module", params=["namespaces", "mounts"])
def user(new_user: NewUser, request: pytest.FixtureRequest) -> Iterator[OrdinaryUser]:
    """On a machine where none may be made, and on one where they allow nothing."""
    user = new_user(request.param)
    models = user.home / "models"
    models.mkdir()
    (models / "weights").write_text("0.5\n")
    user.up("--allow-host-path", models)
    yield user
    assert user("down", "--data", user.data).code == 0
    wait_until(lambda: not user.remaining_processes())


@pytest.fixture
def cluster_user(user: OrdinaryUser, kubectl_path: Path, tmp_path: Path) -> KubectlUser:
    return kubectl_user(kubectl_path, user.data, tmp_path)


def test_pod_without_volumes_runs_and_its_missing_token_is_reported(
    cluster_user: KubectlUser,
) -> None:
    cluster_user.apply(pod("p", server(8080)))
    cluster_user("wait pod/p --for=condition=Ready --timeout=20s")
    assert read_page(f"{cluster_user.get('pod p', '.status.podIP')}:8080") == "p"
    assert cluster_user("exec p -- sh -c 'echo $POD_NAME'") == "p\n"
    with cluster_user.forwarded("pod/p", 8080) as place:
        assert read_page(place) == "p"
    wait_until(lambda: "Started" in cluster_user.events("p"))
    assert cluster_user.events("p")["TokenNotMounted"].startswith(f"no token at {TOKEN}: {WHY}")
    assert cluster_user.labels()["kilonova.dev/pod-mounts"] == "forbidden"
    assert cluster_user.labels()["kilonova.dev/pod-network"] == "private"


def test_pod_with_volumes_waits_and_reports_what_to_do(cluster_user: KubectlUser) -> None:
    container = shell("ls /app", volumeMounts=[{"name": "code", "mountPath": "/app"}])
    cluster_user.apply(pod("files", container, volumes=[{"name": "code", "emptyDir": {}}]))
    reason, message = wait_until(
        lambda: (output := cluster_user.waiting_reason("files"))[0] and output
    )
    assert reason == "CreateContainerConfigError"
    assert message.startswith(f"container main mounts a volume at /app, but {WHY}")
    assert message.endswith(("start Kilonova again", "or container, or as root"))
    wait_until(lambda: cluster_user.events("files").get("Failed") == f"Error: {message}")


def test_host_path_is_visible_at_its_own_path(
    user: OrdinaryUser, cluster_user: KubectlUser
) -> None:
    models = str(user.home / "models")
    container = shell(f"cat {models}/weights", volumeMounts=[{"name": "m", "mountPath": models}])
    volumes = [{"name": "m", "hostPath": {"path": models}}]
    cluster_user.apply(pod("reader", container, restartPolicy="Never", volumes=volumes))
    cluster_user("wait pod/reader --for=jsonpath={.status.phase}=Succeeded --timeout=20s")
    assert cluster_user("logs reader") == "0.5\n"
