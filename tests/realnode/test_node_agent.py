"""`kilonova run agent` on a real kubelet: it publishes the node, gives a container the MIG instance
that the scheduler chose, goes on after it was killed, and prepares a claim."""

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kilonova.api.gpu.annotations import AGENT, TOPOLOGY, Topology, parse_topology
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.dra import DEFAULT_DRIVER, build_device_classes
from tests.harness.realnode.node import RealNode
from tests.harness.server_process import ServerProcess
from tests.realnode.test_gpu_plugins import CLAIMS, PERSONA, SMALL, GpuNode

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
INSTANCE = ("1g.10gb", 4)

pytestmark = pytest.mark.timeout(900)


class AgentNode(GpuNode):
    """The real node, with an agent beside it."""

    def start_plugins(self) -> None:
        command = [sys.executable, "-P", "-m", "kilonova.cli", "run", "agent"]
        self.process = ServerProcess(
            "agent",
            [
                *command,
                f"--kubeconfig={self.node.control_plane.access.kubeconfig}",
                f"--node-name={self.node.spec.name}",
                f"--backend=simulated:{PERSONA}",
                f"--state-dir={self.folder / 'state'}",
                f"--kubelet-dir={self.paths.root}",
                f"--cdi-dir={self.cdi}",
                "--health-port=0",
                "--port=0",
            ],
            self.folder / "plugins.log",
        )

    def read_node(self) -> Any:
        return self.request("GET", f"/api/v1/nodes/{self.node.spec.name}")

    def read_topology(self) -> Topology | None:
        annotations = self.read_node()["metadata"].get("annotations", {})
        topology = parse_topology(annotations.get(TOPOLOGY, "{}"))
        return topology if AGENT in annotations and isinstance(topology, Topology) else None

    def instances(self) -> dict[int, list[tuple[str, int]]]:
        topology = self.wait_for(self.read_topology)
        return {
            index: [(each.profile, each.start) for each in gpu.instances]
            for index, gpu in enumerate(topology.gpus)
            if gpu.instances
        }

    def start_pod(self, name: str, devices: str) -> list[str]:
        """What a pod sees. Until the plugin is registered again, the kubelet rejects pods."""
        for number in itertools.count():
            attempt = f"{name}-{number}"
            self.create_pod(attempt, devices)
            phase = self.wait_for(lambda attempt=attempt: self.find_end(attempt))
            if phase == "Running":
                return self.visible(attempt)
            assert number < 20
            time.sleep(1)
        raise AssertionError("unreachable")

    def find_end(self, name: str) -> str | None:
        phase = self.get_pod(name)["status"]["phase"]
        return phase if phase in ("Running", "Failed") else None


@pytest.fixture(scope="module")
def agent_node(
    real_node: RealNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentNode]:
    node = AgentNode(real_node, tmp_path_factory.mktemp("agent"))
    for each in build_device_classes(DEFAULT_DRIVER):
        node.request("POST", CLASSES, each)
    node.start_plugins()
    try:
        yield node
    finally:
        node.process.kill()


def test_agent_serves_pods_and_claims_and_survives_a_kill(agent_node: AgentNode) -> None:
    node = agent_node
    node.wait_for_capacity(GPU, 4)
    node.wait_for_capacity(SMALL, 28)
    assert node.read_node()["metadata"]["labels"]["nvidia.com/gpu.product"].startswith(
        "NVIDIA-H100"
    )

    node.create_pod("slice", "1:1g.10gb@4", resource=SMALL)
    (uuid,) = node.visible("slice")
    assert uuid.startswith("MIG-")
    node.wait_for(lambda: node.instances() == {1: [INSTANCE]} or None)

    node.create_pod("whole", "3")
    assert node.visible("whole") == ["3"]

    # Simulated hardware ends with its process: the next agent makes the instance again.
    node.process.kill()
    node.start_plugins()
    node.wait_for_capacity(GPU, 4)
    node.wait_for(lambda: node.instances() == {1: [INSTANCE]} or None)
    assert node.start_pod("next", "0") == ["0"]
    # Kubernetes' own scheduler, which allocates the claim, does not know what these pods have.
    node.delete_pods()
    node.wait_for(lambda: not node.specs() or None)

    expression = f"device.attributes['{DEFAULT_DRIVER}'].profile == '3g.40gb'"
    exactly = {
        "deviceClassName": "mig.kilonova.dev",
        "selectors": [{"cel": {"expression": expression}}],
    }
    requests = [{"name": "slice", "exactly": exactly}]
    claim = {"metadata": {"name": "one"}, "spec": {"devices": {"requests": requests}}}
    node.request("POST", CLAIMS, claim)
    node.create_pod("claiming", None, claim="one")
    env = node.wait_for_environment("claiming")
    assert env["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    made = [each for instances in node.instances().values() for each in instances]
    assert "3g.40gb" in [profile for profile, _ in made]

    node.delete_pods()
    node.wait_for(lambda: not node.specs() or None)
    node.request("DELETE", f"{CLAIMS}/one")
    text = (node.folder / "plugins.log").read_text()
    assert "Traceback" not in text
