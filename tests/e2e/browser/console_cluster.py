"""A cluster with a console for browser tests, and helpers to change it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import Kilonova
from tests.harness.kubectl import Kubectl

SMALL_FLEET = """
nodes:
- name: h100
  count: 4
  gpu: {model: NVIDIA-H100-80GB-HBM3, count: 8, memory: 80Gi}
  zones: [zone-a]
  racks: 2
  start: 10ms-50ms
  stop: 10ms-50ms
- name: cpu
  count: 2
  start: 10ms-50ms
  stop: 10ms-50ms
"""


@dataclass(frozen=True)
class ConsoleCluster:
    """A cluster of `kilonova up`, and the link to its console."""

    kilonova: Kilonova
    data: Path
    kubectl: Kubectl
    link: str

    @property
    def address(self) -> str:
        """The console's URL without its token."""
        return self.link.partition("?")[0].rstrip("/")

    def run_kubectl(self, command: str, stdin: str = "") -> str:
        """The output of a kubectl command that must succeed."""
        result = self.kubectl(command, stdin=stdin)
        assert result.code == 0, f"kubectl {command}: {result.err}"
        return result.out

    def apply(self, *objects: dict[str, Any]) -> None:
        """Apply objects with kubectl."""
        # Older kubectl does not read several JSON documents separated by `---`.
        object_list = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.run_kubectl("apply -f -", stdin=json.dumps(object_list))

    def nodes_of_pods(self, gang: str) -> dict[str, str]:
        """The nodes of a gang's pods, by pod name."""
        found = json.loads(self.run_kubectl(f"get pods -l grove.io/podgang={gang} -o json"))[
            "items"
        ]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in found}

    def wait_running(self, *gangs: str) -> None:
        """Wait until these gangs are running."""
        for gang in gangs:
            self.run_kubectl(f"wait --for=create podgang/{gang} --timeout=60s")
            running = "--for=jsonpath={.status.phase}=Running"
            self.run_kubectl(f"wait {running} podgang/{gang} --timeout=60s")

    def wait_unschedulable(self, gang: str) -> None:
        """Wait until the scheduler has reported the gang as unschedulable."""
        self.run_kubectl(f"wait --for=create podgang/{gang} --timeout=60s")
        self.run_kubectl(f"wait --for=condition=Unschedulable podgang/{gang} --timeout=60s")

    def wait_queue_status(self, queue: str, path: str, value: str) -> None:
        """Wait until the scheduler has written a value to the status of a queue."""
        self.run_kubectl(f"wait --for=create queue/{queue} --timeout=60s")
        self.run_kubectl(f"wait '--for=jsonpath={{.status.{path}}}={value}' queue/{queue}")

    def explain(self, name: str) -> str:
        """The output of `kilonova why`."""
        done = self.kilonova("why", name, "--data", self.data)
        assert done.code == 0, done.err
        return done.out


def start_cluster(kilonova: Kilonova, kubectl: Path, fleet: str, *options: str) -> ConsoleCluster:
    """Start `kilonova up` in the background, reusing the data directory of this home."""
    data = kilonova.home / "data"
    nodes = kilonova.home / "fleet.yaml"
    nodes.write_text(fleet)
    done = kilonova.detach(data, "--console", "--no-demo", "--nodes", nodes, *options)
    assert done.code == 0, done.err
    link = kilonova.status(data)["console"]
    return ConsoleCluster(
        kilonova, data, Kubectl(kubectl, data / "kubeconfig", kilonova.home), link
    )


def gang(name: str, replicas: int, gpus: int) -> dict[str, Any]:
    """A PodCliqueSet of one clique, which is one gang."""
    container = {
        "name": "main",
        "image": "registry.example.com/worker",
        "resources": {"limits": {"nvidia.com/gpu": gpus} if gpus else {}},
    }
    clique = {
        "roleName": "worker",
        "replicas": replicas,
        "podSpec": {"schedulerName": "kilonova-scheduler", "containers": [container]},
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": clique}]}},
    }
