"""This machine as a node where pods cannot have a network of their own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.process.unprivileged.conftest import NewUser
from tests.local.process.unprivileged.ordinary import free_port, until
from tests.local.process.unprivileged.webpods import (
    Hands,
    deployment,
    hands,
    page,
    pod,
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
def person(
    new_user: NewUser, kubectl_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hands]:
    """At a cluster with a web service of one replica."""
    user = new_user("network")
    user.up()
    person = hands(kubectl_path, user.data, tmp_path_factory.mktemp("kubectl"))
    person.apply(service(free_port(), PORT, node_port=free_port(30000, 32767)))
    person.apply(deployment(server(PORT), 1))
    person("rollout status deployment/web --timeout=30s")
    yield person
    assert user("down", "--data", user.data).code == 0
    until(lambda: not user.left_behind())


def test_a_server_is_reached_at_its_pods_address_and_through_its_service(person: Hands) -> None:
    name = person.get("pods", ".items[0].metadata.name")
    assert page(f"{person.get('pods', '.items[0].status.podIP')}:{PORT}") == name
    ip = until(lambda: person.get("service web", ".status.loadBalancer.ingress[0].ip"))
    port = person.get("service web", ".spec.ports[0].port")
    assert page(f"{ip}:{port}") == name
    assert person.labels()["kilonova.dev/pod-network"] == "shared"


def test_variables_lead_pods_to_services_and_to_the_api(person: Hands) -> None:
    name = person.get("pods", ".items[0].metadata.name")
    container = server(LOCAL_PORT, "127.0.0.1", readinessProbe=None)
    person.apply(pod("caller", container))
    person("wait pod/caller --for=condition=Ready --timeout=20s")
    said = person(["exec", "caller", "--", sys.executable, "-c", ASK_API])
    assert said == f"200\n{name}\n"
    until(lambda: "listening" in person("logs caller"))
    with person.forwarded("pod/caller", LOCAL_PORT) as place:
        assert page(place) == "caller", "as in Kubernetes, also where it listens at localhost only"


def test_a_second_server_at_the_same_port_fails_and_says_why(person: Hands) -> None:
    person.apply(pod("second", server(PORT), restartPolicy="Never"))
    person("wait pod/second --for=jsonpath={.status.phase}=Failed --timeout=20s")
    assert "Address already in use" in person("logs second")
