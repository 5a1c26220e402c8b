"""Which container an `Allocate` is for. Pure.

The request has a resource and the ids that the kubelet picked, and nothing else. These facts of the
kubelet narrow it down:

- it admits one pod at a time, and within a pod one container after the other, init containers
  first: a pod of which some containers have their devices comes before all others;
- its pod resources API lists the pod that is being admitted, none that comes later, and none that
  was rejected. So of pods that request the same, all but one already have their devices;
- it asks again, for a container that it has asked for before, if it ended before it could write
  down the answer. The answer must be the same.

If the API does not answer, the pods that are not served yet are candidates, and the ids that the
kubelet was asked to prefer, then age, decide: pods of one batch are admitted by age.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from kilonova.gpu.deviceplugin.pods import ContainerNeed, NodePod
from kilonova.gpu.kubelet.holdings import HolderKind, Holding
from kilonova.gpu.kubelet.pod_resources import KubeletView


class KubeletRequest(msgspec.Struct, frozen=True):
    """What the kubelet asks for: so many devices of a resource, these by its own count."""

    resource: str
    count: int
    ids: frozenset[str] = frozenset()
    """Empty where it asks for a preference."""


class Candidate(msgspec.Struct, frozen=True):
    """A container that the request may be for."""

    pod: NodePod
    container: ContainerNeed


def find_container(
    request: KubeletRequest,
    pods: Iterable[NodePod],
    holdings: Sequence[Holding],
    view: KubeletView | None,
    preferred_ids: Callable[[Candidate], Collection[str]] = lambda _: (),
) -> Candidate | None:
    """The container that a request is for; None if no pod of the node requests that.

    `preferred_ids` are the ids of the devices that a container is assigned.
    """
    served = {each.key for each in holdings if each.kind is HolderKind.POD}
    started = {each.uid for each in holdings if each.kind is HolderKind.POD}

    def rank(each: Candidate) -> tuple[object, ...]:
        is_served = (each.pod.uid, each.container.name, request.resource) in served
        is_begun = each.pod.uid in started and not is_served
        is_preferred = bool(request.ids) and request.ids == frozenset(preferred_ids(each))
        age = each.pod.created, each.pod.namespace, each.pod.name
        return is_served, not is_begun, not is_preferred, age

    candidates = [
        each
        for each in _find_candidates(request, pods)
        if _may_be_asked(each, request.resource, served, view)
    ]
    if not candidates:
        return None
    # The first container of the pod: containers of one pod are listed in the kubelet's order.
    return min(candidates, key=rank)


def _find_candidates(request: KubeletRequest, pods: Iterable[NodePod]) -> Iterator[Candidate]:
    for pod in pods:
        if not pod.is_terminal:
            for container in pod.containers:
                if container.amounts.get(request.resource) == request.count:
                    yield Candidate(pod, container)


def _may_be_asked(
    candidate: Candidate,
    resource: str,
    served: Collection[tuple[str, str, str]],
    view: KubeletView | None,
) -> bool:
    pod, name = candidate.pod, candidate.container.name
    if view is None:
        return (pod.uid, name, resource) not in served
    known = view.get((pod.namespace, pod.name))
    return known is not None and not known.get((name, resource))
