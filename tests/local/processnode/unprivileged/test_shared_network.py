"""This machine as a node where pods cannot have a network of their own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.processnode.unprivileged.conftest import NewUser
from tests.local.processnode.unprivileged.ordinary_user import free_port, wait_until
from tests.local.processnode.unprivileged.web_pods import (
    KubectlUser,
    deployment,
    kubectl_user,
    pod,
    read_page,
    server,
    service,
)

PORT = free_port(10000, 15000)
LOCAL_PORT = free_port(15000, 20000)
ASK_API = """
import os, ssl, urllib.request as u
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
api = os.environ["KUBERNETES_SERVICE_HOST"] + ":" + os.environ["KUBERNETES_SERVICE_PORT"]
token = {"Authorization": "Bearer " + open(folder + "token").read()}
trusted = ssl.create_default_context(cafile=folder + "ca.crt")
print(u.urlopen(u.Request(f"https://{api}/apis", headers=token), context=trusted).status)
web = os.environ["WEB_SERVICE_HOST"] + ":" + os.environ["WEB_SERVICE_PORT"]
print(u.urlopen(f"http://{web}/").read().decode())
"""


@pytest.fixture(scope="module")
def cluster_user(
    new_user: NewUser, kubectl_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubectlUser]:
    """A user with a cluster and a web service of one replica."""
    user = new_user("network")
    user.up()
    cluster_user = kubectl_user(kubectl_path, user.data, tmp_path_factory.mktemp("kubectl"))
    cluster_user.apply(service(free_port(), PORT, node_port=free_port(30000, 32767)))
    cluster_user.apply(deployment(server(PORT), 1))
    cluster_user("rollout status deployment/web --timeout=30s")
    yield cluster_user
    assert user("down", "--data", user.data).code == 0
    wait_until(lambda: not user.remaining_processes())


def test_a_server_is_reached_at_its_pods_address_and_through_its_service(
    cluster_user: KubectlUser,
) -> None:
    name = cluster_user.get("pods", ".items[0].metadata.name")
    assert read_page(f"{cluster_user.get('pods', '.items[0].status.podIP')}:{PORT}") == name
    ip = wait_until(lambda: cluster_user.get("service web", ".status.loadBalancer.ingress[0].ip"))
    port = cluster_user.get("service web", ".spec.ports[0].port")
    assert read_page(f"{ip}:{port}") == name
    assert cluster_user.labels()["kilonova.dev/pod-network"] == "shared"


def test_variables_lead_pods_to_services_and_to_the_api(cluster_user: KubectlUser) -> None:
    name = cluster_user.get("pods", ".items[0].metadata.name")
    container = server(LOCAL_PORT, "127.0.0.1", readinessProbe=None)
    cluster_user.apply(pod("caller", container))
    cluster_user("wait pod/caller --for=condition=Ready --timeout=20s")
    output = cluster_user(["exec", "caller", "--", sys.executable, "-c", ASK_API])
    assert output == f"200\n{name}\n"
    wait_until(lambda: "listening" in cluster_user("logs caller"))
    with cluster_user.forwarded("pod/caller", LOCAL_PORT) as place:
        assert read_page(place) == "caller", (
            "as in Kubernetes, also where it listens at localhost only"
        )


def test_second_server_on_the_same_port_fails(cluster_user: KubectlUser) -> None:
    cluster_user.apply(pod("second", server(PORT), restartPolicy="Never"))
    cluster_user("wait pod/second --for=jsonpath={.status.phase}=Failed --timeout=20s")
    assert "Address already in use" in cluster_user("logs second")
