"""A cluster whose console a browser looks at, and what else the tests do to it."""

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
class Place:
    """A cluster of `kilonova up`, and the link to its console."""

    kilonova: Kilonova
    data: Path
    kubectl: Kubectl
    link: str

    @property
    def address(self) -> str:
        """Where the console is, without its token."""
        return self.link.partition("?")[0].rstrip("/")

    def run(self, command: str, stdin: str = "") -> str:
        """What kubectl says to a command that must succeed."""
        outcome = self.kubectl(command, stdin=stdin)
        assert outcome.code == 0, f"kubectl {command}: {outcome.err}"
        return outcome.out

    def apply(self, *objects: dict[str, Any]) -> None:
        """Have kubectl apply these."""
        # Older ones of kubectl do not read several JSON documents with `---` between them.
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.run("apply -f -", stdin=json.dumps(listed))

    def pods(self, gang: str) -> dict[str, str]:
        """The nodes of a gang's pods, by their names."""
        found = json.loads(self.run(f"get pods -l grove.io/podgang={gang} -o json"))["items"]
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in found}

    def until_running(self, *gangs: str) -> None:
        """Wait until every pod of these runs."""
        for gang in gangs:
            self.run(f"wait --for=create podgang/{gang} --timeout=60s")
            running = "--for=jsonpath={.status.phase}=Running"
            self.run(f"wait {running} podgang/{gang} --timeout=60s")

    def until_refused(self, gang: str) -> None:
        """Wait until the scheduler has said that it finds no place."""
        self.run(f"wait --for=create podgang/{gang} --timeout=60s")
        self.run(f"wait --for=condition=Unschedulable podgang/{gang} --timeout=60s")

    def why(self, name: str) -> str:
        """What `kilonova why` prints."""
        done = self.kilonova("why", name, "--data", self.data)
        assert done.code == 0, done.err
        return done.out


def start(kilonova: Kilonova, kubectl: Path, fleet: str, *options: str) -> Place:
    """`kilonova up` in the background, on the data of the last one that had this home."""
    data = kilonova.home / "data"
    nodes = kilonova.home / "fleet.yaml"
    nodes.write_text(fleet)
    done = kilonova.detach(data, "--console", "--no-demo", "--nodes", nodes, *options)
    assert done.code == 0, done.err
    link = kilonova.status(data)["console"]
    return Place(kilonova, data, Kubectl(kubectl, data / "kubeconfig", kilonova.home), link)


def gang(name: str, replicas: int, gpus: int) -> dict[str, Any]:
    """A PodCliqueSet of one clique, whose pods start together or not at all."""
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
