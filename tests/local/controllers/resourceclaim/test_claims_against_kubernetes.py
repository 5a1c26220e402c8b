"""Scenarios of claims compared with kube-controller-manager: the same final state.

There is no scheduler and no kubelet: the scenario itself allocates devices, binds and ends pods.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.harness.embedded_server import EmbeddedServer
from tests.local.controllers.test_against_kube_controller_manager import ControlPlaneSide, normalize

CONTROLLERS = ",".join(
    f"{name}-controller"
    for name in ("garbage-collector", "namespace", "serviceaccount", "resourceclaim")
)
CLAIMS = "resource.k8s.io/v1/resourceclaims"
TEMPLATES = "resource.k8s.io/v1/resourceclaimtemplates"
PROTECTION = "resource.kubernetes.io/delete-protection"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture(scope="module")
def sides(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ServerAccess]]:
    """Kubernetes first."""
    folder = tmp_path_factory.mktemp("beside-claims")
    options = ("--port", "0", f"--controllers={CONTROLLERS}")
    plane_folder: Path = folder / "kubernetes"
    plane_folder.mkdir()
    with (
        ControlPlane.start(plane_folder, controllers=CONTROLLERS) as plane,
        EmbeddedServer.start(folder / "embedded", *options) as embedded,
    ):
        yield [plane.access, embedded.access]


def use(side: ControlPlaneSide, name: str, claim: Any) -> str:
    """Create a pod that uses a claim; its uid."""
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **claim}]}
    made = side.create("pods", {"metadata": {"name": name}, "spec": spec})
    return made["metadata"]["uid"]


def generated(side: ControlPlaneSide, name: str) -> str:
    def statuses() -> list[Any]:
        return side.get("pods", name)["status"].get("resourceClaimStatuses", [])

    side.wait_until(lambda: bool(statuses()))
    return statuses()[0]["resourceClaimName"]


def allocate(side: ControlPlaneSide, claim: str, **users: str) -> None:
    side.patch(CLAIMS, claim, {"metadata": {"finalizers": [PROTECTION]}})
    result = {"request": "gpu", "driver": "d", "pool": "p", "device": "x"}
    reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in users.items()]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    side.patch(CLAIMS, claim, {"status": status}, "status")


def bind(side: ControlPlaneSide, name: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    side.ask(
        "POST", side.path("pods", name, "binding"), {"metadata": {"name": name}, "target": target}
    )


def remove(side: ControlPlaneSide, name: str) -> None:
    """Delete a pod at once: Kubernetes may reserve a claim again for a pod that only ended."""
    side.ask("DELETE", side.path("pods", name) + "?gracePeriodSeconds=0")


def claims(side: ControlPlaneSide) -> list[Any]:
    return side.ask("GET", side.path(CLAIMS))["items"]


def normalize_object(obj: Any) -> Any:
    """An object without what differs between any two runs."""
    metadata = {
        name: value
        for name, value in obj["metadata"].items()
        if name not in ("managedFields", "resourceVersion", "namespace", "uid", "creationTimestamp")
    }
    return normalize({**obj, "metadata": metadata})


def generated_claim(side: ControlPlaneSide) -> Any:
    inherited = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    template = {"metadata": {"name": "t"}, "spec": {"metadata": inherited, "spec": SPEC}}
    side.create(TEMPLATES, template)
    uid = use(side, "p", {"resourceClaimTemplateName": "t"})
    name = generated(side, "p")
    first = normalize_object(side.get(CLAIMS, name))
    allocate(side, name, p=uid)
    bind(side, "p")
    side.end({"metadata": {"name": "p"}}, "Succeeded")
    side.wait_until(lambda: name not in [each["metadata"]["name"] for each in claims(side)])
    return first, side.read_events("p")


def missing_template(side: ControlPlaneSide) -> Any:
    use(side, "p", {"resourceClaimTemplateName": "t"})
    side.wait_until(lambda: bool(side.read_events("p")))
    output = side.read_events("p")[0]
    side.create(TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": SPEC}})
    return output, normalize_object(side.get(CLAIMS, generated(side, "p")))


def shared_claim(side: ControlPlaneSide) -> Any:
    side.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC})
    users = {name: use(side, name, {"resourceClaimName": "ours"}) for name in ("p", "q")}
    allocate(side, "ours", **users)
    bind(side, "p")
    bind(side, "q")
    remove(side, "p")
    side.wait_until(lambda: len(side.get(CLAIMS, "ours")["status"]["reservedFor"]) == 1)
    between = normalize_object(side.get(CLAIMS, "ours"))
    remove(side, "q")
    side.wait_until(lambda: "finalizers" not in side.get(CLAIMS, "ours")["metadata"])
    return between, normalize_object(side.get(CLAIMS, "ours"))


def pod_bound_by_hand(side: ControlPlaneSide) -> Any:
    side.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC})
    allocate(side, "ours")
    use(side, "p", {"resourceClaimName": "ours"})
    bind(side, "p")
    side.wait_until(lambda: bool(side.get(CLAIMS, "ours")["status"].get("reservedFor")))
    return normalize_object(side.get(CLAIMS, "ours"))


def claim_deleted_while_unused(side: ControlPlaneSide) -> Any:
    side.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC})
    allocate(side, "ours")
    side.ask("DELETE", side.path(CLAIMS, "ours"))
    side.wait_until(lambda: not claims(side))
    return []


SCENARIOS = (
    generated_claim,
    missing_template,
    shared_claim,
    pod_bound_by_hand,
    claim_deleted_while_unused,
)


@pytest.mark.parametrize("run_scenario", SCENARIOS, ids=lambda run_scenario: run_scenario.__name__)
def test_same_final_state_as_kubernetes(
    sides: list[ServerAccess], run_scenario: Callable[[ControlPlaneSide], Any]
) -> None:
    namespace = run_scenario.__name__.replace("_", "-")
    expected, actual = (run_scenario(ControlPlaneSide(access, namespace)) for access in sides)
    assert actual == expected
