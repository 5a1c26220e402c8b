"""Simulated GPUs on a real kubelet: the device plugin and the DRA driver give containers what the
scheduler chose, whatever restarts, and whoever removes sockets."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from kilonova.api.gpu.annotations import DEVICES
from kilonova.catalog import load_catalog
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.devices.simulated import build_machine, find_persona
from kilonova.gpu.dra import DEFAULT_DRIVER
from kilonova.gpu.kubelet import KubeletPaths
from tests.harness.realnode.node import RealNode
from tests.harness.server_process import ServerProcess
from tools.image.kilonova_image import VERSION

IMAGE = f"kilonova:{VERSION}"
PATIENCE = 120
"""Seconds for what takes a few on a quiet machine."""
PERSONA = "h100:4"
SMALL = "nvidia.com/mig-1g.10gb"
NS = "/api/v1/namespaces/default"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
PROGRAM = "import json, os, time; print(json.dumps(dict(os.environ)), flush=True); time.sleep(1e6)"
T = TypeVar("T")

# The image is built and the node started within the first test.
pytestmark = pytest.mark.timeout(900)


class GpuNode:
    """The real node, with the plugins in a process beside it."""

    def __init__(self, node: RealNode, folder: Path) -> None:
        self.node = node
        self.folder = folder
        self.paths = KubeletPaths(node.spec.filesystem / "var/lib/kubelet")
        self.cdi = node.spec.filesystem / "run/cdi"
        catalog = load_catalog()
        machine = build_machine(find_persona(PERSONA, catalog), catalog, node=node.spec.name)
        self.uuids = [each.uuid for each in machine.devices]
        self.process: ServerProcess
        self._made: list[str] = []

    def start_plugins(self) -> None:
        self.process = ServerProcess(
            "gpu plugins",
            [
                *(sys.executable, "-m", "tests.harness.realnode.gpu_plugins"),
                f"--kubeconfig={self.node.control_plane.access.kubeconfig}",
                f"--kubelet={self.paths.root}",
                f"--cdi={self.cdi}",
                f"--state={self.folder}",
                f"--node={self.node.spec.name}",
                f"--persona={PERSONA}",
            ],
            self.folder / "plugins.log",
        )

    def request(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.node.control_plane.access.request(method, path, body)
        assert status < 300 or (method, status) in (("DELETE", 404), ("GET", 404)), answer
        return answer if status < 300 else None

    def wait_for(self, what: Callable[[], T | None]) -> T:
        deadline = time.monotonic() + PATIENCE
        while (found := what()) is None or found is False:
            assert time.monotonic() < deadline, (self.folder / "plugins.log").read_text()[-4000:]
            time.sleep(0.1)
        return found

    def wait_for_capacity(self, resource: str, count: int) -> None:
        def is_there() -> bool:
            node = self.request("GET", f"/api/v1/nodes/{self.node.spec.name}")
            return node["status"]["allocatable"].get(resource) == str(count)

        self.wait_for(is_there)

    def create_pod(self, name: str, devices: str | None, **options: Any) -> None:
        self.request("POST", f"{NS}/pods", build_pod(self.node.spec.name, name, devices, **options))
        self._made.append(name)

    def create_claim(self, name: str, class_: str, expression: str) -> None:
        selectors = [{"cel": {"expression": expression}}]
        exactly = {"deviceClassName": class_, "selectors": selectors}
        requests = [{"name": "gpu", "exactly": exactly}]
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
        self.request("POST", CLAIMS, body)

    def get_pod(self, name: str) -> Any:
        return self.request("GET", f"{NS}/pods/{name}")

    def wait_for_environment(self, name: str, container: str = "main") -> dict[str, str]:
        """What a container sees, from its log."""

        def read() -> dict[str, str] | None:
            pod = self.get_pod(name)
            assert pod["status"]["phase"] != "Failed", pod["status"]
            statuses = pod["status"].get("containerStatuses", ())
            if not any(each["name"] == container and each["ready"] for each in statuses):
                return None
            return self.read_log(name, container)

        return self.wait_for(read)

    def read_log(self, name: str, container: str) -> dict[str, str] | None:
        folder = self.node.spec.filesystem / "var/log/pods"
        for file in folder.glob(f"default_{name}_*/{container}/0.log"):
            for line in file.read_text().splitlines():
                _time, _stream, _tag, text = line.split(" ", 3)
                return json.loads(text)
        return None

    def visible(self, name: str, container: str = "main") -> list[str]:
        """The GPUs of a container by index, and MIG instances by UUID."""
        env = self.wait_for_environment(name, container)
        assert env["CUDA_VISIBLE_DEVICES"] == env["NVIDIA_VISIBLE_DEVICES"]
        uuids = env["NVIDIA_VISIBLE_DEVICES"].split(",")
        return [str(self.uuids.index(each)) if each in self.uuids else each for each in uuids]

    def delete_pods(self) -> None:
        for name in self._made:
            self.request("DELETE", f"{NS}/pods/{name}")
        for name in self._made:
            self.wait_for(lambda name=name: self.get_pod(name) is None)
        self._made.clear()

    def specs(self) -> list[str]:
        return sorted(each.name for each in self.cdi.glob("kilonova.dev-gpu_*.json"))

    def find_kubelet(self) -> psutil.Process | None:
        option = f"--kubeconfig={self.node.spec.kubeconfig}"
        processes = psutil.process_iter(["cmdline"])
        return next((each for each in processes if option in (each.info["cmdline"] or ())), None)


@pytest.fixture(scope="module")
def plugins(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuNode]:
    node = GpuNode(real_node, tmp_path_factory.mktemp("plugins"))
    node.start_plugins()
    try:
        yield node
    finally:
        node.process.kill()


@pytest.fixture
def gpus(plugins: GpuNode) -> Iterator[GpuNode]:
    """The node without pods; its plugins are registered."""
    plugins.wait_for_capacity(GPU, 4)
    yield plugins
    plugins.delete_pods()


def build_pod(
    node: str | None,
    name: str,
    devices: str | None,
    *,
    resource: str = GPU,
    counts: tuple[int, ...] = (1,),
    claim: str = "",
) -> Any:
    """A pod with a container for each count, bound to the node as our scheduler does it; with a
    claim, it is not bound yet."""
    containers: list[Any] = [
        {
            "name": "main" if at == 0 else f"main-{at}",
            "image": IMAGE,
            "imagePullPolicy": "Never",
            "command": ["python3", "-c", PROGRAM],
            # As CUDA's images have it: what the plugin says counts.
            "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            "resources": (
                {"claims": [{"name": "gpu"}]} if claim else {"limits": {resource: str(count)}}
            ),
        }
        for at, count in enumerate(counts)
    ]
    spec: Any = {"terminationGracePeriodSeconds": 0, "containers": containers}
    if claim:
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    else:
        spec["nodeName"] = node
    annotations = {} if devices is None else {DEVICES: devices}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": spec}


def test_container_gets_the_devices_of_its_annotation(gpus: GpuNode) -> None:
    gpus.create_pod("two", "3,1", counts=(2,))
    assert gpus.visible("two") == ["3", "1"]
    assert len(gpus.specs()) == 1


def test_containers_of_a_pod_share_its_devices_out(gpus: GpuNode) -> None:
    gpus.create_pod("parts", "2,0,3", counts=(1, 2))
    assert gpus.visible("parts") == ["2"]
    assert gpus.visible("parts", "main-1") == ["0", "3"]


def test_equal_pods_get_their_own_devices_each(gpus: GpuNode) -> None:
    assigned = {"equal-a": "3", "equal-b": "0", "equal-c": "2", "equal-d": "1"}
    for name, devices in assigned.items():
        gpus.create_pod(name, devices)
    assert {name: gpus.visible(name) for name in assigned} == {
        name: [devices] for name, devices in assigned.items()
    }


def test_devices_of_another_pod_are_refused_with_its_name(gpus: GpuNode) -> None:
    gpus.create_pod("first", "2")
    assert gpus.visible("first") == ["2"]
    gpus.create_pod("second", "2")

    def refusal() -> str | None:
        status = gpus.get_pod("second")["status"]
        return status.get("message") if status["phase"] == "Failed" else None

    message = gpus.wait_for(refusal)
    assert "pod default/second is assigned 2: Pod default/first container main has GPU 2" in message


def test_mig_instance_exists_when_the_container_starts(gpus: GpuNode) -> None:
    gpus.wait_for_capacity(SMALL, 28)
    gpus.create_pod("slice", "1:1g.10gb@4", resource=SMALL)
    (uuid,) = gpus.visible("slice")
    assert uuid.startswith("MIG-")


def test_pods_of_another_scheduler_get_free_devices(gpus: GpuNode) -> None:
    gpus.create_pod("assigned", "0")
    gpus.create_pod("any", None, counts=(2,))
    assert gpus.visible("assigned") == ["0"]
    assert "0" not in gpus.visible("any")


def test_claim_is_prepared_for_its_pod_and_released(gpus: GpuNode) -> None:
    """Allocated by Kubernetes' own scheduler, from our ResourceSlices."""
    wanted = f"device.attributes['{DEFAULT_DRIVER}'].profile == '3g.40gb'"
    gpus.create_claim("one", "mig.kilonova.dev", wanted)
    gpus.create_pod("claiming", None, claim="one")
    env = gpus.wait_for_environment("claiming")
    assert env["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    assert env["KILONOVA_GPUS_GPU"] == env["NVIDIA_VISIBLE_DEVICES"]
    (result,) = gpus.request("GET", f"{CLAIMS}/one")["status"]["allocation"]["devices"]["results"]
    assert "-mig-3g40gb-9-" in result["device"]
    gpus.delete_pods()
    gpus.wait_for(lambda: not gpus.specs())
    gpus.request("DELETE", f"{CLAIMS}/one")


def test_devices_are_kept_over_restarts_of_plugin_and_kubelet(gpus: GpuNode) -> None:
    gpus.create_pod("kept-a", "2")
    assert gpus.visible("kept-a") == ["2"]

    watched = count_watches(gpus)
    gpus.process.kill()
    gpus.start_plugins()
    gpus.wait_for(lambda: count_watches(gpus) > watched)
    gpus.create_pod("kept-b", "0")
    assert gpus.visible("kept-b") == ["0"]

    first = gpus.find_kubelet()
    assert first is not None
    watched = count_watches(gpus)
    first.kill()
    gpus.wait_for(lambda: count_watches(gpus) > watched)
    gpus.create_pod("kept-c", "3")
    assert gpus.visible("kept-c") == ["3"]
    for name, device in (("kept-a", "2"), ("kept-b", "0")):
        assert gpus.visible(name) == [device]
        (status,) = gpus.get_pod(name)["status"]["containerStatuses"]
        assert status["restartCount"] == 0


def test_sockets_that_are_removed_are_made_again(gpus: GpuNode) -> None:
    watched = count_watches(gpus)
    sockets = [
        gpus.paths.device_plugin(GPU),
        gpus.paths.plugin_registration(DEFAULT_DRIVER),
        gpus.paths.dra_socket(DEFAULT_DRIVER),
    ]
    for socket in sockets:
        socket.unlink()
    gpus.wait_for(lambda: all(each.exists() for each in sockets))
    gpus.wait_for(lambda: count_watches(gpus) > watched)
    gpus.create_pod("after", "1")
    assert gpus.visible("after") == ["1"]
    gpus.delete_pods()  # kube-scheduler would not know of its GPU
    gpus.create_claim("late", DEFAULT_DRIVER, "true")
    gpus.create_pod("claiming-late", None, claim="late")
    env = gpus.wait_for_environment("claiming-late")
    assert env["NVIDIA_VISIBLE_DEVICES"] in gpus.uuids
    gpus.delete_pods()
    gpus.request("DELETE", f"{CLAIMS}/late")


def test_lost_gpu_is_no_longer_allocatable_and_shown_with_its_pods(gpus: GpuNode) -> None:
    """Last: the GPU stays lost until the plugins start again."""
    gpus.create_claim("third", DEFAULT_DRIVER, f"device.attributes['{DEFAULT_DRIVER}'].index == 3")
    gpus.create_pod("losing", None, claim="third")
    assert gpus.wait_for_environment("losing")["NVIDIA_VISIBLE_DEVICES"] == gpus.uuids[3]
    os.kill(gpus.process.pid, signal.SIGUSR1)
    gpus.wait_for_capacity(GPU, 3)

    def is_tainted() -> bool:
        slices = gpus.request("GET", SLICES)["items"]
        devices = [d for each in slices for d in each["spec"].get("devices") or ()]
        return any(d["name"] == "gpu-3" and d.get("taints") for d in devices)

    def is_shown() -> bool:
        (status,) = gpus.get_pod("losing")["status"]["containerStatuses"]
        resources = status.get("allocatedResourcesStatus", ())
        return any(r["health"] == "Unhealthy" for each in resources for r in each["resources"])

    gpus.wait_for(is_tainted)
    gpus.wait_for(is_shown)
    gpus.delete_pods()
    gpus.request("DELETE", f"{CLAIMS}/third")


def count_watches(gpus: GpuNode) -> int:
    """How often the kubelet began to watch the GPUs: it knows them some milliseconds later."""
    lines = (gpus.folder / "plugins.log").read_text().splitlines()
    return sum("kubelet watches devices" in line and GPU in line for line in lines)
