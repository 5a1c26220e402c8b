"""This machine as a node where namespaces are forbidden: what needs no mount runs all the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.process.unprivileged.conftest import NewUser
from tests.local.process.unprivileged.ordinary import OrdinaryUser, until
from tests.local.process.unprivileged.webpods import Hands, hands, page, pod, server, shell

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
    until(lambda: not user.left_behind())


@pytest.fixture
def person(user: OrdinaryUser, kubectl_path: Path, tmp_path: Path) -> Hands:
    return hands(kubectl_path, user.data, tmp_path)


def test_a_pod_without_volumes_runs_and_is_told_of_its_token(person: Hands) -> None:
    person.apply(pod("p", server(8080)))
    person("wait pod/p --for=condition=Ready --timeout=20s")
    assert page(f"{person.get('pod p', '.status.podIP')}:8080") == "p"
    assert person("exec p -- sh -c 'echo $POD_NAME'") == "p\n"
    with person.forwarded("pod/p", 8080) as place:
        assert page(place) == "p"
    until(lambda: "Started" in person.events("p"))
    assert person.events("p")["TokenNotMounted"].startswith(f"no token at {TOKEN}: {WHY}")
    assert person.labels()["kilonova.dev/pod-mounts"] == "forbidden"
    assert person.labels()["kilonova.dev/pod-network"] == "private"


def test_a_pod_with_volumes_waits_and_says_what_to_do(person: Hands) -> None:
    container = shell("ls /app", volumeMounts=[{"name": "code", "mountPath": "/app"}])
    person.apply(pod("files", container, volumes=[{"name": "code", "emptyDir": {}}]))
    reason, message = until(lambda: (said := person.waiting("files"))[0] and said)
    assert reason == "CreateContainerConfigError"
    assert message.startswith(f"container main mounts a volume at /app, but {WHY}")
    assert message.endswith(("start Kilonova again", "or container, or as root"))
    until(lambda: person.events("files").get("Failed") == f"Error: {message}")


def test_a_folder_is_seen_where_it_is(user: OrdinaryUser, person: Hands) -> None:
    models = str(user.home / "models")
    container = shell(f"cat {models}/weights", volumeMounts=[{"name": "m", "mountPath": models}])
    volumes = [{"name": "m", "hostPath": {"path": models}}]
    person.apply(pod("reader", container, restartPolicy="Never", volumes=volumes))
    person("wait pod/reader --for=jsonpath={.status.phase}=Succeeded --timeout=20s")
    assert person("logs reader") == "0.5\n"
