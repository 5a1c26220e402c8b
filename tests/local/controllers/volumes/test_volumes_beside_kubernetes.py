"""Stories of storage beside a genuine kube-controller-manager: the same ends."""

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
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Access]]:
    """Kubernetes first."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    folder: Path = tmp_path_factory.mktemp("beside-volumes")
    options = ("--port", "0", f"--controllers={CONTROLLERS}")
    (folder / "kubernetes").mkdir()
    with (
        ControlPlane.start(folder / "kubernetes", controllers=CONTROLLERS) as plane,
        EmbeddedServer.start(folder / "embedded", *options) as embedded,
    ):
        yield [plane.access, embedded.access]


def volume(side: Side, name: str, size: str, **spec: Any) -> None:
    made = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": side.namespace,
        "hostPath": {"path": "/srv"},
        **spec,
    }
    named = f"{side.namespace}-{name}"
    side.ask("POST", "/api/v1/persistentvolumes", {"metadata": {"name": named}, "spec": made})
    side.until(lambda: volume_of(side, name)["status"]["phase"] == "Available")


def volume_of(side: Side, name: str) -> Any:
    return side.ask("GET", f"/api/v1/persistentvolumes/{side.namespace}-{name}")


def claim(side: Side, name: str = "c", **spec: Any) -> None:
    wanted = {**SPEC, "storageClassName": side.namespace, **spec}
    side.create(CLAIMS, {"metadata": {"name": name}, "spec": wanted})


def until_phase(side: Side, phase: str, name: str = "c") -> Any:
    side.until(lambda: side.get(CLAIMS, name)["status"]["phase"] == phase)
    return side.get(CLAIMS, name)


def shown(obj: Any) -> Any:
    """An object without what differs between any two."""
    hidden = ("managedFields", "resourceVersion", "uid", "creationTimestamp")
    metadata = {key: each for key, each in obj["metadata"].items() if key not in hidden}
    spec = {**obj["spec"]}
    if "claimRef" in spec:
        spec["claimRef"] = {**spec["claimRef"], "resourceVersion": ""}
    return normal({**obj, "metadata": metadata, "spec": spec})


def smallest_volume(side: Side) -> Any:
    volume(side, "big", "9Gi")
    volume(side, "fit", "2Gi")
    claim(side)
    bound = shown(until_phase(side, "Bound"))
    side.until(lambda: volume_of(side, "fit")["status"]["phase"] == "Bound")
    return bound, shown(volume_of(side, "fit")), shown(volume_of(side, "big"))


def volume_by_name(side: Side) -> Any:
    volume(side, "a", "2Gi")
    claim(side, volumeName=f"{side.namespace}-a")
    return shown(until_phase(side, "Bound")), shown(volume_of(side, "a"))["spec"]


def volume_set_aside(side: Side) -> Any:
    volume(side, "a", "2Gi", claimRef={"namespace": side.namespace, "name": "c"})
    claim(side)
    bound = shown(until_phase(side, "Bound"))
    side.until(lambda: volume_of(side, "a")["status"]["phase"] == "Bound")
    return bound, shown(volume_of(side, "a"))


def kept_volume(side: Side) -> Any:
    volume(side, "a", "2Gi")
    claim(side)
    until_phase(side, "Bound")
    side.until(lambda: volume_of(side, "a")["status"]["phase"] == "Bound")
    side.ask("DELETE", side.path(CLAIMS, "c"))
    side.until(lambda: volume_of(side, "a")["status"]["phase"] == "Released")
    return shown(volume_of(side, "a"))


def lost_volume(side: Side) -> Any:
    volume(side, "a", "2Gi")
    claim(side)
    until_phase(side, "Bound")
    name = f"/api/v1/persistentvolumes/{side.namespace}-a"
    side.until(lambda: volume_of(side, "a")["status"]["phase"] == "Bound")
    side.ask("DELETE", name)
    still = "deletionTimestamp" in volume_of(side, "a")["metadata"]
    side.ask("PATCH", name, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    lost = until_phase(side, "Lost")
    side.until(lambda: bool(side.said("c")))
    return still, lost["status"]["phase"], side.said("c")


def no_class(side: Side) -> Any:
    claim(side)
    side.until(lambda: bool(side.said("c")))
    claim(side, "d", storageClassName="")
    side.until(lambda: bool(side.said("d")))
    return side.said("c")[0], side.said("d")[0]


def class_of_another(side: Side) -> Any:
    body = {"metadata": {"name": side.namespace}, "provisioner": "example.com/x"}
    side.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    claim(side)
    side.until(lambda: bool(side.said("c")))
    return side.said("c")[0], shown(side.get(CLAIMS, "c"))


def class_that_waits(side: Side) -> Any:
    body = {
        "metadata": {"name": side.namespace},
        "provisioner": "example.com/x",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    side.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    volume(side, "a", "2Gi")
    claim(side)
    side.until(lambda: bool(side.said("c")))
    return side.said("c")[0], shown(side.get(CLAIMS, "c"))


def ephemeral_volume(side: Side) -> Any:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**SPEC, "storageClassName": "x"}}
    spec = {
        "containers": [{"name": "main", "image": "i"}],
        "volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}],
    }
    side.create("pods", {"metadata": {"name": "p"}, "spec": spec})
    path = side.path(CLAIMS, "p-v")
    side.until(lambda: side.access.ask("GET", path)[0] == 200)
    return shown(side.get(CLAIMS, "p-v"))


STORIES = (
    smallest_volume,
    volume_by_name,
    volume_set_aside,
    kept_volume,
    lost_volume,
    no_class,
    class_of_another,
    class_that_waits,
    ephemeral_volume,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_same_end(sides: list[Access], story: Callable[[Side], Any]) -> None:
    namespace = story.__name__.replace("_", "-")
    expected, actual = (story(Side(access, namespace)) for access in sides)
    assert actual == expected
