"""Stories of claims beside a genuine kube-controller-manager: the same ends.

There is no scheduler and no kubelet: the story itself allocates devices, binds and ends pods.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.harness.embedded import EmbeddedServer
from tests.local.controllers.policy.test_beside_kubernetes import Side, normal

CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in ("garbage-collector", "namespace", "serviceaccount", "resourceclaim")
)
CLAIMS = "resource.k8s.io/v1/resourceclaims"
TEMPLATES = "resource.k8s.io/v1/resourceclaimtemplates"
PROTECTION = "resource.kubernetes.io/delete-protection"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Access]]:
    """Kubernetes first."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    folder = tmp_path_factory.mktemp("beside-claims")
    options = ("--port", "0", f"--controllers={CONTROLLERS}")
    plane_folder: Path = folder / "kubernetes"
    plane_folder.mkdir()
    with (
        ControlPlane.start(plane_folder, controllers=CONTROLLERS) as plane,
        EmbeddedServer.start(folder / "embedded", *options) as embedded,
    ):
        yield [plane.access, embedded.access]


def use(side: Side, name: str, claim: Any) -> str:
    """Create a pod that uses a claim; its uid."""
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **claim}]}
    made = side.create("pods", {"metadata": {"name": name}, "spec": spec})
    return made["metadata"]["uid"]


def generated(side: Side, name: str) -> str:
    def statuses() -> list[Any]:
        return side.get("pods", name)["status"].get("resourceClaimStatuses", [])

    side.until(lambda: bool(statuses()))
    return statuses()[0]["resourceClaimName"]


def allocate(side: Side, claim: str, **users: str) -> None:
    side.patch(CLAIMS, claim, {"metadata": {"finalizers": [PROTECTION]}})
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "x"}
    reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in users.items()]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    side.patch(CLAIMS, claim, {"status": status}, "status")


def bind(side: Side, name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    side.ask(
        "POST", side.path("pods", name, "binding"), {"metadata": {"name": name}, "target": target}
    )


def remove(side: Side, name: str) -> None:
    """Delete a pod at once: one that only ended Kubernetes may reserve its claim for again."""
    side.ask("DELETE", side.path("pods", name) + "?gracePeriodSeconds=0")


def claims(side: Side) -> list[Any]:
    return side.ask("GET", side.path(CLAIMS))["items"]


def shown(obj: Any) -> Any:
    """An object without what differs between any two."""
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in ("managedFields", "resourceVersion", "namespace", "uid", "creationTimestamp")
    }
    return normal({**obj, "metadata": metadata})


def generated_claim(side: Side) -> Any:
    inherited = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    template = {"metadata": {"name": "t"}, "spec": {"metadata": inherited, "spec": SPEC}}
    side.create(TEMPLATES, template)
    uid = use(side, "p", {"resourceClaimTemplateName": "t"})
    name = generated(side, "p")
    first = shown(side.get(CLAIMS, name))
    allocate(side, name, p=uid)
    bind(side, "p")
    side.end({"metadata": {"name": "p"}}, "Succeeded")
    side.until(lambda: name not in [each["metadata"]["name"] for each in claims(side)])
    return first, side.said("p")


def missing_template(side: Side) -> Any:
    use(side, "p", {"resourceClaimTemplateName": "t"})
    side.until(lambda: bool(side.said("p")))
    said = side.said("p")[0]
    side.create(TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": SPEC}})
    return said, shown(side.get(CLAIMS, generated(side, "p")))


def shared_claim(side: Side) -> Any:
    side.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC})
    users = {name: use(side, name, {"resourceClaimName": "ours"}) for name in ("p", "q")}
    allocate(side, "ours", **users)
    bind(side, "p")
    bind(side, "q")
    remove(side, "p")
    side.until(lambda: len(side.get(CLAIMS, "ours")["status"]["reservedFor"]) == 1)
    between = shown(side.get(CLAIMS, "ours"))
    remove(side, "q")
    side.until(lambda: "finalizers" not in side.get(CLAIMS, "ours")["metadata"])
    return between, shown(side.get(CLAIMS, "ours"))


def pod_bound_by_hand(side: Side) -> Any:
    side.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC})
    allocate(side, "ours")
    use(side, "p", {"resourceClaimName": "ours"})
    bind(side, "p")
    side.until(lambda: bool(side.get(CLAIMS, "ours")["status"].get("reservedFor")))
    return shown(side.get(CLAIMS, "ours"))


def claim_deleted_while_unused(side: Side) -> Any:
    side.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC})
    allocate(side, "ours")
    side.ask("DELETE", side.path(CLAIMS, "ours"))
    side.until(lambda: not claims(side))
    return []


STORIES = (
    generated_claim,
    missing_template,
    shared_claim,
    pod_bound_by_hand,
    claim_deleted_while_unused,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_same_end(sides: list[Access], story: Callable[[Side], Any]) -> None:
    namespace = story.__name__.replace("_", "-")
    expected, actual = (story(Side(access, namespace)) for access in sides)
    assert actual == expected
