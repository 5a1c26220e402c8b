"""The examples of PodCliqueSets do what their comments say, on the cluster of `kilonova up`."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova
from tests.harness.kubectl import Kubectl

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "workloads"
_INDENT = "#   "
_ALWAYS_THERE = {
    "ConfigMap kube-root-ca.crt",
    "Endpoints kubernetes",
    "EndpointSlice kubernetes",
    "Service kubernetes",
    "ServiceAccount default",
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path) -> Iterator[Kubectl]:
    """kubectl on a cluster as `make up` starts it."""
    kilonova = Kilonova(tmp_path_factory.mktemp("home"))
    data = kilonova.home / "data"
    kilonova.ends_with_the_test(data)
    done = kilonova("up", "--detach", "--wait", "--port", "0", "--data", data)
    assert done.code == 0, done.err
    yield Kubectl(kubectl_path, data / "kubeconfig", kilonova.home)
    kilonova("down", "--data", data)
    kilonova.end()


def commands(example: Path) -> str:
    """The commands of the comment on top, but for those that go on until they are stopped."""
    top = example.read_text().partition("apiVersion:")[0].splitlines()
    lines = (line.removeprefix(_INDENT) for line in top if line.startswith(_INDENT))
    return "\n".join(line for line in lines if "--watch" not in line)


def left_over(kubectl: Kubectl) -> set[str]:
    """Everything in the namespace but what every namespace has."""
    kinds = kubectl("api-resources --verbs=list --namespaced -o name").out.split()
    asked = ",".join(kind for kind in kinds if not kind.startswith("events"))
    found = json.loads(kubectl(f"get {asked} -o json").out)["items"]
    return {f"{each['kind']} {each['metadata']['name']}" for each in found} - _ALWAYS_THERE


@pytest.mark.parametrize("name", sorted(each.name for each in FOLDER.iterdir()))
def test_the_commands_of_an_example_work_as_written(kubectl: Kubectl, name: str) -> None:
    example = FOLDER / name
    typed = commands(example)
    assert f"kubectl apply -f examples/workloads/{name}" in typed
    environment = kubectl.environment({"KUBECONFIG": str(kubectl.kubeconfig)})
    environment["PATH"] = f"{kubectl.binary.parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", typed],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "condition met" in done.stdout
    cleared = kubectl(f"delete --ignore-not-found --timeout=30s -f {example}")
    assert cleared.code == 0, cleared.err
    deadline = time.monotonic() + 30
    while left := left_over(kubectl):
        assert time.monotonic() < deadline, f"left over: {left}"
        time.sleep(0.2)


def test_the_example_on_this_machine_has_really_computed(kubectl: Kubectl) -> None:
    assert kubectl(f"apply -f {FOLDER / 'on-this-machine.yaml'}").code == 0
    ready = "{.status.availableReplicas}=1"
    assert kubectl(f"wait pcs/squares --for=jsonpath={ready} --timeout=60s").code == 0
    front = kubectl("get pods -l grove.io/podclique=squares-0-front -o name").out.strip()
    answer = kubectl(f"exec {front} -c front -- python3 /app/ask.py 1000").out
    assert answer == "333833500 by squares-0-worker-0 squares-0-worker-1\n"
    kubectl(f"delete --timeout=30s -f {FOLDER / 'on-this-machine.yaml'}")
