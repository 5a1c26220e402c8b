"""PodCliqueSets as people use them: kubectl on `kilonova up`, and nothing else."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.embedded import EmbeddedServer
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
    """A clique of a manifest."""
    return _CLIQUE.format(
        name=name, role=role or name, replicas=replicas, more=more, image=f'"{image}"'
    )


def manifest(name: str, *cliques: str, more: str = "") -> str:
    """A PodCliqueSet as people write it."""
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
    folder = tmp_path_factory.mktemp("workloads")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--operator", "--scheduler", "--nodes", str(fleet))
    with EmbeddedServer.start(folder / "data", *options) as server:
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


def field(kubectl: Kubectl, what: str, path: str) -> str:
    return run(kubectl, f"get {what} -o jsonpath={{{path}}}")


def becomes(kubectl: Kubectl, what: str, path: str, value: int) -> None:
    """Wait as a person would."""
    run(kubectl, f"wait {what} --for=jsonpath={{{path}}}={value} --timeout=30s")


def eventually(check: Callable[[], bool], *, within: float = 30.0) -> None:
    deadline = time.monotonic() + within
    while not check():
        assert time.monotonic() < deadline, f"not so after {within:g} s"
        time.sleep(0.1)


def pods_of(kubectl: Kubectl, clique: str) -> set[str]:
    selector = f"get pods -l grove.io/podclique={clique} -o jsonpath={{.items[*].metadata.name}}"
    return set(run(kubectl, selector).split())


def objects_of(kubectl: Kubectl, set_name: str) -> list[str]:
    """Everything that is there because of a set, but for what was told of it."""
    kinds = run(kubectl, "api-resources --verbs=list --namespaced -o name").split()
    asked = ",".join(kind for kind in kinds if not kind.startswith("events"))
    found = json.loads(run(kubectl, f"get {asked} -o json"))["items"]
    names = (f"{each['kind']} {each['metadata']['name']}" for each in found)
    return [each for each in names if each.partition(" ")[2].startswith(set_name)]


_GROUPS = (
    "podCliqueScalingGroups: [{name: unit, cliqueNames: [leader, worker], replicas: 2, "
    "minAvailable: 1}]"
)


def test_a_set_is_followed_from_apply_to_nothing_left(kubectl: Kubectl) -> None:
    cliques = clique("front", 2, "minAvailable: 1"), clique("leader"), clique("worker", 2)
    order = "cliqueStartupType: CliqueStartupTypeInOrder\n    "
    run(kubectl, "apply -f -", manifest("story", *cliques, more=order + _GROUPS))
    becomes(kubectl, "pcs/story", ".status.availableReplicas", 1)
    becomes(kubectl, "pcsg/story-0-unit", ".status.availableReplicas", 2)
    shown = run(kubectl, "get pcs,pcsg,pclq,pg -o name").split()
    assert {each.partition("/")[2] for each in shown} == {
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
    becomes(kubectl, "pclq/story-0-front", ".status.readyReplicas", 3)
    becomes(kubectl, "pcsg/story-0-unit", ".status.availableReplicas", 3)
    becomes(kubectl, "pcs/story", ".status.availableReplicas", 2)
    assert field(kubectl, "pclq/story-1-front", ".spec.replicas") == "2", "as in the template"

    before = {name: pods_of(kubectl, name) for name in ("story-0-front", "story-0-unit-0-leader")}
    run(kubectl, "apply -f -", manifest("story", *_with_new_image(), more=order + _GROUPS))
    run(kubectl, "wait pcs/story --for=condition=UpdateInProgress=False --timeout=30s")
    assert field(kubectl, "pcs/story", ".spec.replicas") == "1", "the file said so"
    becomes(kubectl, "pcs/story", ".status.updatedReplicas", 1)
    assert not pods_of(kubectl, "story-0-front") & before["story-0-front"]
    assert pods_of(kubectl, "story-0-unit-0-leader") == before["story-0-unit-0-leader"]
    images = field(kubectl, "pods -l grove.io/podclique=story-0-front", ".items[*]..image")
    assert set(images.split()) == {"img:2"}
    assert field(kubectl, "pclq/story-0-front", ".spec.replicas") == "3", "scaled as it was"

    node = field(kubectl, "pods -l grove.io/podclique=story-0-front", ".items[0].spec.nodeName")
    lost = set(field(kubectl, f"pods --field-selector spec.nodeName={node}", "..name").split())
    run(kubectl, f"taint node {node} node.kubernetes.io/out-of-service=shutdown:NoExecute")
    eventually(lambda: not lost & set(field(kubectl, "pods", ".items[*].metadata.name").split()))
    becomes(kubectl, "pclq/story-0-front", ".status.readyReplicas", 3)
    becomes(kubectl, "pcsg/story-0-unit", ".status.availableReplicas", 3)
    assert node not in field(kubectl, "pods", ".items[*].spec.nodeName").split()
    run(kubectl, f"taint node {node} node.kubernetes.io/out-of-service-")

    run(kubectl, "delete pcs/story --timeout=30s")
    eventually(lambda: objects_of(kubectl, "story") == [])


def _with_new_image() -> tuple[str, ...]:
    front = clique("front", 2, "minAvailable: 1", image="img:2")
    return front, clique("leader"), clique("worker", 2)


def test_what_the_server_refuses_is_told_on_the_clique_until_it_is_mended(
    kubectl: Kubectl,
) -> None:
    run(kubectl, "apply -f -", manifest("nameless", clique("a", image="")))
    told = ".status.lastErrors[*]"
    eventually(lambda: "ERR_SYNC_PODS" in field(kubectl, "pclq/nameless-0-a", told))
    assert "image: Required value" in field(kubectl, "pclq/nameless-0-a", told)
    eventually(lambda: "PodCreateFailed" in run(kubectl, "events --for pclq/nameless-0-a"))
    run(kubectl, "apply -f -", manifest("nameless", clique("a")))
    becomes(kubectl, "pcs/nameless", ".status.availableReplicas", 1)
    eventually(lambda: field(kubectl, "pclq/nameless-0-a", told) == "")
    run(kubectl, "delete pcs/nameless --timeout=30s")


_EXPLICIT = "cliqueStartupType: CliqueStartupTypeExplicit"

BAD = {
    "a circle": (
        manifest(
            "bad",
            clique("a", 1, "startsAfter: [b]"),
            clique("b", 1, "startsAfter: [a]"),
            more=_EXPLICIT,
        ),
        'cliques[0].spec.startsAfter: Invalid value: "b": cliques must not wait for each other '
        "in a circle: a → b → a",
    ),
    "an unknown clique": (
        manifest("bad", clique("a", 1, "startsAfter: [nope]"), more=_EXPLICIT),
        'cliques[0].spec.startsAfter[0]: Not found: "nope"',
    ),
    "more needed than there are": (
        manifest("bad", clique("a", 2, "minAvailable: 3")),
        "cliques[0].spec.minAvailable: Invalid value: 3: must not be greater than replicas (2)",
    ),
    "a role twice": (
        manifest("bad", clique("a"), clique("b", role="a")),
        'cliques[1].spec.roleName: Duplicate value: "a"',
    ),
    "a name that is too long": (
        manifest("bad", clique("n" * 46)),
        "must be at most 45 characters",
    ),
    "a clique in two groups": (
        manifest(
            "bad",
            clique("a"),
            more="podCliqueScalingGroups: [{name: g, cliqueNames: [a]}, "
            "{name: h, cliqueNames: [a]}]",
        ),
        'podCliqueScalingGroups[1].cliqueNames[0]: Duplicate value: "a": is in scaling group "g"',
    ),
    "a topology that is not there": (
        manifest(
            "bad",
            clique("a"),
            more="topologyConstraint: {topologyName: nope, pack: {required: rack}}",
        ),
        'topologyConstraint.topologyName: Not found: "nope"',
    ),
    "an unknown field": (
        manifest("bad", clique("a"), more="cliqes: []"),
        'unknown field "spec.template.cliqes"',
    ),
    "no order of this name": (
        manifest("bad", clique("a"), more="cliqueStartupType: InOrder"),
        'Unsupported value: "InOrder"',
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_manifest_is_refused_by_field_value_and_rule(kubectl: Kubectl, case: str) -> None:
    text, expected = BAD[case]
    done = kubectl("apply -f -", stdin=text)
    assert done.code == 1
    assert expected in done.err


def test_kubectl_says_which_of_several_sets_is_refused(kubectl: Kubectl) -> None:
    bad = manifest("second", clique("a", 2, "minAvailable: 3"))
    done = kubectl("apply -f -", stdin=f"{manifest('first', clique('a'))}---{bad}")
    assert done.code == 1
    assert done.out == "podcliqueset.grove.io/first created\n"
    assert done.err.startswith('The PodCliqueSet "second" is invalid')
    run(kubectl, "delete pcs/first --timeout=30s")


def test_what_a_set_consists_of_cannot_be_changed(kubectl: Kubectl) -> None:
    run(kubectl, "apply -f -", manifest("fixed", clique("a")))
    done = kubectl("apply -f -", stdin=manifest("fixed", clique("b")))
    assert 'spec.template.cliques: Forbidden: "a" cannot be removed' in done.err
    run(kubectl, "delete pcs/fixed --timeout=30s")
