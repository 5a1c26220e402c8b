"""Which container an Allocate is for: a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from kilonova.catalog.resource_names import GPU
from kilonova.gpu.deviceplugin.matching import Candidate, KubeletRequest, find_container
from kilonova.gpu.deviceplugin.pods import NodePod
from kilonova.gpu.kubelet.holdings import HolderKind, Holding
from kilonova.gpu.kubelet.pod_resources import KubeletView
from tests.gpu.deviceplugin.node_pods import ended, make_pod

OLD = "2026-01-01T00:00:00Z"
NEW = "2026-01-01T00:00:01Z"
MIG = "nvidia.com/mig-1g.10gb"
A = make_pod("a", "0", created=NEW)
B = make_pod("b", "1", created=OLD)


def held(pod: NodePod, container: str = "c0", resource: str = GPU) -> Holding:
    return Holding(HolderKind.POD, pod.uid, "ns", pod.name, (), container, resource)


def known(*pods: NodePod, having: Sequence[tuple[NodePod, str]] = ()) -> KubeletView:
    """The kubelet knows pods, and these containers have their devices."""
    return {
        ("ns", pod.name): {
            (container, GPU): frozenset({"x"}) for owner, container in having if owner is pod
        }
        for pod in pods
    }


@dataclass
class Case:
    name: str
    pods: Sequence[NodePod]
    expected: str | None
    view: KubeletView | None = None
    holdings: Sequence[Holding] = ()
    count: int = 1
    ids: frozenset[str] = frozenset()
    preferred: dict[str, str] = field(default_factory=dict[str, str])
    resource: str = GPU


CASES = [
    Case("the only pod", [A], "a/c0"),
    Case("no pod", [], None),
    Case("another count", [A], None, count=2),
    Case("another resource", [A], None, resource=MIG),
    Case("a pod that has ended", [ended(A)], None),
    Case("of equal pods the one that the kubelet knows", [A, B], "a/c0", known(A)),
    Case("of equal pods the one without devices", [A, B], "a/c0", known(A, B, having=[(B, "c0")])),
    Case("none that the kubelet knows", [A, B], None, known()),
    Case("without the kubelet's view the oldest", [A, B], "b/c0"),
    Case("without it one that is not served", [A, B], "a/c0", holdings=[held(B)]),
    Case("without it none if all are served", [A], None, holdings=[held(A)]),
    Case(
        "without it the pod whose devices the kubelet picked",
        [A, B],
        "a/c0",
        ids=frozenset({"GPU-0"}),
        preferred={"a": "GPU-0", "b": "GPU-1"},
    ),
    Case(
        # Its devices were taken, and the kubelet picked others.
        "by view even if the kubelet picked the devices of another pod",
        [A, B],
        "a/c0",
        known(A),
        ids=frozenset({"GPU-1"}),
        preferred={"a": "GPU-0", "b": "GPU-1"},
    ),
    Case("asked again after the kubelet lost the answer", [A], "a/c0", known(A), [held(A)]),
    Case(
        "a pod that was rejected elsewhere comes after one that waits",
        [B, A],
        "a/c0",
        known(A, B),
        [held(B)],
    ),
    Case(
        "the next container of the pod that is being admitted",
        [B, make_pod("two", "2,3", 1, 1, created=NEW)],
        "two/c1",
        holdings=[held(make_pod("two", ""), "c0")],
    ),
    Case("containers in order", [make_pod("two", "2,3", 1, 1)], "two/c0"),
    Case(
        "containers by their count",
        [make_pod("two", "1,2,3", 1, 2)],
        "two/c1",
        count=2,
    ),
    Case(
        # The pod resources API does not list init containers.
        "the main container after the init container",
        [make_pod("i", "0", init=1)],
        "i/c0",
        known(make_pod("i", "0", init=1)),
        [held(make_pod("i", ""), "init")],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_find_container(case: Case) -> None:
    def prefer(candidate: Candidate) -> frozenset[str]:
        name = case.preferred.get(candidate.pod.name)
        return frozenset({name} if name else ())

    request = KubeletRequest(case.resource, case.count, case.ids)
    found = find_container(request, case.pods, case.holdings, case.view, prefer)
    assert (f"{found.pod.name}/{found.container.name}" if found else None) == case.expected
