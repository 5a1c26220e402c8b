"""PodCliqueSets on `kilonova up`, through kubectl alone."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl

_FLEET = "nodes: [{name: n, count: 6, start: 20ms, stop: 20ms}]"

_CLIQUE = """
    - name: {name}
      spec:
        roleName: {role}
        replicas: {replicas}
        {more}
        podSpec: {{containers: [{{name: main, image: {image}}}]}}"""


def clique(
    name: str, replicas: int = 1, more: str = "", *, role: str = "", image: str = "img:1"
) -> str:
    """A clique in a manifest."""
    return _CLIQUE.format(
        name=name, role=role or name, replicas=replicas, more=more, image=f'"{image}"'
    )


def manifest(name: str, *cliques: str, more: str = "") -> str:
    """The manifest of a PodCliqueSet."""
    return f"""
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {{name: {name}}}
spec:
  replicas: 1
  template:
    {more}
    cliques:{"".join(cliques)}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    directory = tmp_path_factory.mktemp("workloads")
    fleet = directory / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--operator", "--scheduler", "--nodes", str(fleet))
    with EmbeddedServer.start(directory / "data", *options) as server:
        yield server


@pytest.fixture
def kubectl(kubectl_path: Path, server: EmbeddedServer, tmp_path: Path) -> Kubectl:
    kubectl = Kubectl(kubectl_path, server.access.kubeconfig, tmp_path)
    run(kubectl, "wait --for=condition=Ready node --all --timeout=30s")
    return kubectl


def run(kubectl: Kubectl, command: str, stdin: str = "") -> str:
    done = kubectl(command, stdin=stdin)
    assert done.code == 0, f"{command}: {done.err}"
    return done.out


def field(kubectl: Kubectl, resource: str, path: str) -> str:
    return run(kubectl, f"get {resource} -o jsonpath={{{path}}}")


def wait_for_field(kubectl: Kubectl, resource: str, path: str, value: int) -> None:
    """Run `kubectl wait` for the value of a field."""
    run(kubectl, f"wait {resource} --for=jsonpath={{{path}}}={value} --timeout=30s")


def wait_until(check: Callable[[], bool], *, within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not check():
        assert time.monotonic() < deadline, f"timed out after {within:g} s"
        time.sleep(0.1)


def pods_of(kubectl: Kubectl, clique: str) -> set[str]:
    selector = f"get pods -l grove.io/podclique={clique} -o jsonpath={{.items[*].metadata.name}}"
    return set(run(kubectl, selector).split())


def objects_of(kubectl: Kubectl, set_name: str) -> list[str]:
    """All objects whose names start with that of a set, except Events."""
    kinds = run(kubectl, "api-resources --verbs=list --namespaced -o name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith("events"))
    found = json.loads(run(kubectl, f"get {listed} -o json"))["items"]
    names = (f"{each['kind']} {each['metadata']['name']}" for each in found)
    return [each for each in names if each.partition(" ")[2].startswith(set_name)]


_GROUPS = (
    "podCliqueScalingGroups: [{name: unit, cliqueNames: [leader, worker], replicas: 2, "
    "minAvailable: 1}]"
)


def test_lifecycle_of_a_set(kubectl: Kubectl) -> None:
    cliques = clique("front", 2, "minAvailable: 1"), clique("leader"), clique("worker", 2)
    order = "cliqueStartupType: CliqueStartupTypeInOrder\n    "
    run(kubectl, "apply -f -", manifest("story", *cliques, more=order + _GROUPS))
    wait_for_field(kubectl, "pcs/story", ".status.availableReplicas", 1)
    wait_for_field(kubectl, "pcsg/story-0-unit", ".status.availableReplicas", 2)
    names = run(kubectl, "get pcs,pcsg,pclq,pg -o name").split()
    assert {each.partition("/")[2] for each in names} == {
        "story",
        "story-0",
        "story-0-front",
        "story-0-unit",
        "story-0-unit-0",
        *(f"story-0-unit-{index}-{name}" for index in (0, 1) for name in ("leader", "worker")),
    }

    run(kubectl, "scale pclq/story-0-front --replicas=3")
    run(kubectl, "scale pcsg/story-0-unit --replicas=3")
    run(kubectl, "scale pcs/story --replicas=2")
    wait_for_field(kubectl, "pclq/story-0-front", ".status.readyReplicas", 3)
    wait_for_field(kubectl, "pcsg/story-0-unit", ".status.availableReplicas", 3)
    wait_for_field(kubectl, "pcs/story", ".status.availableReplicas", 2)
    assert field(kubectl, "pclq/story-1-front", ".spec.replicas") == "2", "as in the template"

    before = {name: pods_of(kubectl, name) for name in ("story-0-front", "story-0-unit-0-leader")}
    run(kubectl, "apply -f -", manifest("story", *_with_new_image(), more=order + _GROUPS))
    run(kubectl, "wait pcs/story --for=condition=UpdateInProgress=False --timeout=30s")
    assert field(kubectl, "pcs/story", ".spec.replicas") == "1", "as in the manifest"
    wait_for_field(kubectl, "pcs/story", ".status.updatedReplicas", 1)
    assert not pods_of(kubectl, "story-0-front") & before["story-0-front"]
    assert pods_of(kubectl, "story-0-unit-0-leader") == before["story-0-unit-0-leader"]
    images = field(kubectl, "pods -l grove.io/podclique=story-0-front", ".items[*]..image")
    assert set(images.split()) == {"img:2"}
    assert field(kubectl, "pclq/story-0-front", ".spec.replicas") == "3", "the scale is kept"

    node = field(kubectl, "pods -l grove.io/podclique=story-0-front", ".items[0].spec.nodeName")
    lost = set(field(kubectl, f"pods --field-selector spec.nodeName={node}", "..name").split())
    run(kubectl, f"taint node {node} node.kubernetes.io/out-of-service=shutdown:NoExecute")
    wait_until(lambda: not lost & set(field(kubectl, "pods", ".items[*].metadata.name").split()))
    wait_for_field(kubectl, "pclq/story-0-front", ".status.readyReplicas", 3)
    wait_for_field(kubectl, "pcsg/story-0-unit", ".status.availableReplicas", 3)
    assert node not in field(kubectl, "pods", ".items[*].spec.nodeName").split()
    run(kubectl, f"taint node {node} node.kubernetes.io/out-of-service-")

    run(kubectl, "delete pcs/story --timeout=30s")
    wait_until(lambda: objects_of(kubectl, "story") == [])


def _with_new_image() -> tuple[str, ...]:
    front = clique("front", 2, "minAvailable: 1", image="img:2")
    return front, clique("leader"), clique("worker", 2)


def test_server_rejections_are_reported_on_the_clique_until_fixed(
    kubectl: Kubectl,
) -> None:
    run(kubectl, "apply -f -", manifest("nameless", clique("a", image="")))
    errors = ".status.lastErrors[*]"
    wait_until(lambda: "ERR_SYNC_PODS" in field(kubectl, "pclq/nameless-0-a", errors))
    assert "image: Required value" in field(kubectl, "pclq/nameless-0-a", errors)
    wait_until(lambda: "PodCreateFailed" in run(kubectl, "events --for pclq/nameless-0-a"))
    run(kubectl, "apply -f -", manifest("nameless", clique("a")))
    wait_for_field(kubectl, "pcs/nameless", ".status.availableReplicas", 1)
    wait_until(lambda: field(kubectl, "pclq/nameless-0-a", errors) == "")
    run(kubectl, "delete pcs/nameless --timeout=30s")


_EXPLICIT = "cliqueStartupType: CliqueStartupTypeExplicit"

INVALID = {
    "dependency cycle": (
        manifest(
            "bad",
            clique("a", 1, "startsAfter: [b]"),
            clique("b", 1, "startsAfter: [a]"),
            more=_EXPLICIT,
        ),
        'cliques[0].spec.startsAfter: Invalid value: "b": startup dependencies must not form a '
        "cycle: a → b → a",
    ),
    "unknown clique": (
        manifest("bad", clique("a", 1, "startsAfter: [nope]"), more=_EXPLICIT),
        'cliques[0].spec.startsAfter[0]: Not found: "nope"',
    ),
    "minAvailable above replicas": (
        manifest("bad", clique("a", 2, "minAvailable: 3")),
        "cliques[0].spec.minAvailable: Invalid value: 3: must not be greater than replicas (2)",
    ),
    "duplicate role": (
        manifest("bad", clique("a"), clique("b", role="a")),
        'cliques[1].spec.roleName: Duplicate value: "a"',
    ),
    "name too long": (
        manifest("bad", clique("n" * 46)),
        "must have at most 45 characters",
    ),
    "clique in two groups": (
        manifest(
            "bad",
            clique("a"),
            more="podCliqueScalingGroups: [{name: g, cliqueNames: [a]}, "
            "{name: h, cliqueNames: [a]}]",
        ),
        'podCliqueScalingGroups[1].cliqueNames[0]: Duplicate value: "a": is already in scaling '
        'group "g"',
    ),
    "unknown topology": (
        manifest(
            "bad",
            clique("a"),
            more="topologyConstraint: {topologyName: nope, pack: {required: rack}}",
        ),
        'topologyConstraint.topologyName: Not found: "nope"',
    ),
    "unknown field": (
        manifest("bad", clique("a"), more="cliqes: []"),
        'unknown field "spec.template.cliqes"',
    ),
    "unknown startup type": (
        manifest("bad", clique("a"), more="cliqueStartupType: InOrder"),
        'Unsupported value: "InOrder"',
    ),
}


@pytest.mark.parametrize("case", INVALID)
def test_invalid_manifest_is_rejected_with_field_value_and_rule(
    kubectl: Kubectl, case: str
) -> None:
    text, expected = INVALID[case]
    done = kubectl("apply -f -", stdin=text)
    assert done.code == 1
    assert expected in done.err


def test_kubectl_reports_which_set_is_rejected(kubectl: Kubectl) -> None:
    bad = manifest("second", clique("a", 2, "minAvailable: 3"))
    done = kubectl("apply -f -", stdin=f"{manifest('first', clique('a'))}---{bad}")
    assert done.code == 1
    assert done.out == "podcliqueset.grove.io/first created\n"
    assert done.err.startswith('The PodCliqueSet "second" is invalid')
    run(kubectl, "delete pcs/first --timeout=30s")


def test_cliques_of_a_set_are_immutable(kubectl: Kubectl) -> None:
    run(kubectl, "apply -f -", manifest("fixed", clique("a")))
    done = kubectl("apply -f -", stdin=manifest("fixed", clique("b")))
    assert 'spec.template.cliques: Forbidden: "a" cannot be removed' in done.err
    run(kubectl, "delete pcs/fixed --timeout=30s")
