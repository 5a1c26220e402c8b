"""Examples of PodCliqueSets do what their comments say, on the cluster of `kilonova up`."""

import json
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.cli.command import Kilonova
from tests.harness.kubectl import Kubectl

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "examples" / "workloads"
_INDENT = "#   "
_ALWAYS_PRESENT = {
    ("ConfigMap", "kube-root-ca.crt"),
    ("Endpoints", "kubernetes"),
    ("EndpointSlice", "kubernetes"),
    ("Service", "kubernetes"),
    ("ServiceAccount", "default"),
}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory, kubectl_path: Path) -> Iterator[Kubectl]:
    """kubectl on a cluster as `make up` starts it."""
    kilonova = Kilonova(tmp_path_factory.mktemp("home"))
    data = kilonova.home / "data"
    kilonova.stop_after_test(data)
    done = kilonova("up", "--detach", "--wait", "--port", "0", "--data", data)
    assert done.code == 0, done.err
    yield Kubectl(kubectl_path, data / "kubeconfig", kilonova.home)
    kilonova("down", "--data", data)
    kilonova.stop_all()


def commands(example: Path) -> str:
    """The commands in the comment at the top, except watches."""
    top = example.read_text().partition("apiVersion:")[0].splitlines()
    lines = (line.removeprefix(_INDENT) for line in top if line.startswith(_INDENT))
    return "\n".join(line for line in lines if "--watch" not in line)


@pytest.fixture(scope="module")
def namespaced_kinds(kubectl: Kubectl) -> list[str]:
    """All kinds of objects in namespaces, except events."""
    kinds = kubectl("api-resources --verbs=list --namespaced -o name").out.split()
    return [kind for kind in kinds if not kind.startswith("events")]


def left_over(kubectl: Kubectl, kinds: Iterable[str]) -> set[tuple[str, str]]:
    """Kinds and names of all objects in the namespace that are not in every namespace."""
    found = json.loads(kubectl(f"get {','.join(kinds)} -o json").out)["items"]
    return {(each["kind"], each["metadata"]["name"]) for each in found} - _ALWAYS_PRESENT


@pytest.mark.parametrize("name", sorted(each.name for each in DIRECTORY.iterdir()))
def test_commands_of_an_example_work_as_written(
    kubectl: Kubectl, namespaced_kinds: list[str], name: str
) -> None:
    example = DIRECTORY / name
    script = commands(example)
    assert f"kubectl apply -f examples/workloads/{name}" in script
    environment = kubectl.build_environment({"KUBECONFIG": str(kubectl.kubeconfig)})
    environment["PATH"] = f"{kubectl.binary.parent}:{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
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
    deleted = kubectl(f"delete --ignore-not-found --timeout=30s -f {example}")
    assert deleted.code == 0, deleted.err
    deadline = time.monotonic() + 30
    # All kinds until none is left; meanwhile only those of which there were some.
    while remaining := left_over(kubectl, namespaced_kinds):
        while remaining := left_over(kubectl, {kind for kind, _ in remaining}):
            assert time.monotonic() < deadline, f"left over: {remaining}"
            time.sleep(0.2)


def test_example_on_this_machine_computes_its_result(kubectl: Kubectl) -> None:
    assert kubectl(f"apply -f {DIRECTORY / 'on-this-machine.yaml'}").code == 0
    ready = "{.status.availableReplicas}=1"
    assert kubectl(f"wait pcs/squares --for=jsonpath={ready} --timeout=60s").code == 0
    front = kubectl("get pods -l grove.io/podclique=squares-0-front -o name").out.strip()
    answer = kubectl(f"exec {front} -c front -- python3 /app/ask.py 1000").out
    assert answer == "333833500 by squares-0-worker-0 squares-0-worker-1\n"
    kubectl(f"delete --timeout=30s -f {DIRECTORY / 'on-this-machine.yaml'}")
