"""Scenarios of storage compared with kube-controller-manager: the same final state."""

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
    for name in (
        "garbage-collector",
        "namespace",
        "serviceaccount",
        "persistentvolume-binder",
        "persistentvolumeclaim-protection",
        "persistentvolume-protection",
        "ephemeral-volume",
    )
)
CLAIMS = "persistentvolumeclaims"
SPEC: Any = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(scope="module")
def sides(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[ServerAccess]]:
    """Kubernetes first."""
    folder: Path = tmp_path_factory.mktemp("beside-volumes")
    options = ("--port", "0", f"--controllers={CONTROLLERS}")
    (folder / "kubernetes").mkdir()
    with (
        ControlPlane.start(folder / "kubernetes", controllers=CONTROLLERS) as plane,
        EmbeddedServer.start(folder / "embedded", *options) as embedded,
    ):
        yield [plane.access, embedded.access]


def volume(side: ControlPlaneSide, name: str, size: str, **spec: Any) -> None:
    made = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": side.namespace,
        "hostPath": {"path": "/srv"},
        **spec,
    }
    named = f"{side.namespace}-{name}"
    side.ask("POST", "/api/v1/persistentvolumes", {"metadata": {"name": named}, "spec": made})
    side.wait_until(lambda: volume_of(side, name)["status"]["phase"] == "Available")


def volume_of(side: ControlPlaneSide, name: str) -> Any:
    return side.ask("GET", f"/api/v1/persistentvolumes/{side.namespace}-{name}")


def claim(side: ControlPlaneSide, name: str = "c", **spec: Any) -> None:
    desired = {**SPEC, "storageClassName": side.namespace, **spec}
    side.create(CLAIMS, {"metadata": {"name": name}, "spec": desired})


def wait_for_phase(side: ControlPlaneSide, phase: str, name: str = "c") -> Any:
    side.wait_until(lambda: side.get(CLAIMS, name)["status"]["phase"] == phase)
    return side.get(CLAIMS, name)


def normalize_object(obj: Any) -> Any:
    """An object without what differs between any two runs."""
    hidden = ("managedFields", "resourceVersion", "uid", "creationTimestamp")
    metadata = {key: each for key, each in obj["metadata"].items() if key not in hidden}
    spec = {**obj["spec"]}
    if "claimRef" in spec:
        spec["claimRef"] = {**spec["claimRef"], "resourceVersion": ""}
    return normalize({**obj, "metadata": metadata, "spec": spec})


def smallest_volume(side: ControlPlaneSide) -> Any:
    volume(side, "big", "9Gi")
    volume(side, "fit", "2Gi")
    claim(side)
    bound = normalize_object(wait_for_phase(side, "Bound"))
    side.wait_until(lambda: volume_of(side, "fit")["status"]["phase"] == "Bound")
    return bound, normalize_object(volume_of(side, "fit")), normalize_object(volume_of(side, "big"))


def volume_by_name(side: ControlPlaneSide) -> Any:
    volume(side, "a", "2Gi")
    claim(side, volumeName=f"{side.namespace}-a")
    return normalize_object(wait_for_phase(side, "Bound")), normalize_object(volume_of(side, "a"))[
        "spec"
    ]


def reserved_volume(side: ControlPlaneSide) -> Any:
    volume(side, "a", "2Gi", claimRef={"namespace": side.namespace, "name": "c"})
    claim(side)
    bound = normalize_object(wait_for_phase(side, "Bound"))
    side.wait_until(lambda: volume_of(side, "a")["status"]["phase"] == "Bound")
    return bound, normalize_object(volume_of(side, "a"))


def retained_volume(side: ControlPlaneSide) -> Any:
    volume(side, "a", "2Gi")
    claim(side)
    wait_for_phase(side, "Bound")
    side.wait_until(lambda: volume_of(side, "a")["status"]["phase"] == "Bound")
    side.ask("DELETE", side.path(CLAIMS, "c"))
    side.wait_until(lambda: volume_of(side, "a")["status"]["phase"] == "Released")
    return normalize_object(volume_of(side, "a"))


def lost_volume(side: ControlPlaneSide) -> Any:
    volume(side, "a", "2Gi")
    claim(side)
    wait_for_phase(side, "Bound")
    name = f"/api/v1/persistentvolumes/{side.namespace}-a"
    side.wait_until(lambda: volume_of(side, "a")["status"]["phase"] == "Bound")
    side.ask("DELETE", name)
    still = "deletionTimestamp" in volume_of(side, "a")["metadata"]
    side.ask("PATCH", name, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    lost = wait_for_phase(side, "Lost")
    side.wait_until(lambda: bool(side.read_events("c")))
    return still, lost["status"]["phase"], side.read_events("c")


def no_class(side: ControlPlaneSide) -> Any:
    claim(side)
    side.wait_until(lambda: bool(side.read_events("c")))
    claim(side, "d", storageClassName="")
    side.wait_until(lambda: bool(side.read_events("d")))
    return side.read_events("c")[0], side.read_events("d")[0]


def class_of_another(side: ControlPlaneSide) -> Any:
    body = {"metadata": {"name": side.namespace}, "provisioner": "example.com/x"}
    side.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    claim(side)
    side.wait_until(lambda: bool(side.read_events("c")))
    return side.read_events("c")[0], normalize_object(side.get(CLAIMS, "c"))


def class_that_waits(side: ControlPlaneSide) -> Any:
    body = {
        "metadata": {"name": side.namespace},
        "provisioner": "example.com/x",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    side.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    volume(side, "a", "2Gi")
    claim(side)
    side.wait_until(lambda: bool(side.read_events("c")))
    return side.read_events("c")[0], normalize_object(side.get(CLAIMS, "c"))


def ephemeral_volume(side: ControlPlaneSide) -> Any:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**SPEC, "storageClassName": "x"}}
    spec = {
        "containers": [{"name": "main", "image": "i"}],
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}],
    }
    side.create("pods", {"metadata": {"name": "p"}, "spec": spec})
    path = side.path(CLAIMS, "p-v")
    side.wait_until(lambda: side.access.request("GET", path)[0] == 200)
    return normalize_object(side.get(CLAIMS, "p-v"))


SCENARIOS = (
    smallest_volume,
    volume_by_name,
    reserved_volume,
    retained_volume,
    lost_volume,
    no_class,
    class_of_another,
    class_that_waits,
    ephemeral_volume,
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_same_final_state_as_kubernetes(
    sides: list[ServerAccess], scenario: Callable[[ControlPlaneSide], Any]
) -> None:
    namespace = scenario.__name__.replace("_", "-")
    expected, actual = (scenario(ControlPlaneSide(access, namespace)) for access in sides)
    assert actual == expected
