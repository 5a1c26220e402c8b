"""Pods, from what the API server holds of them to what they ask for.

GPUs are asked for by `nvidia.com/gpu` and `nvidia.com/mig-PROFILE`, or as a share by annotations.
A pod with an annotation that nobody can read is not placed, and is told why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kilonova.api import gpus as wire
from kilonova.api.meta import shared
from kilonova.scheduler.core.asks import (
    GpuAsk,
    Preference,
    Shape,
    Toleration,
    host_port,
)
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.mig import profile_of
from kilonova.scheduler.core.snapshot import GPU, PODS
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.amounts import MOST, amounts_of
from kilonova.scheduler.reading.peers import Namespaces, peers_of
from kilonova.scheduler.reading.resizes import is_infeasible, requests_in_use, statuses_of
from kilonova.scheduler.reading.selectors import node_term_of, node_terms_of

KAI_FRACTION = "gpu-fraction"
KAI_MEMORY = "gpu-memory"

_NO_NAMESPACES: Namespaces = {}
_BOUND_OWNERS = frozenset({"Job", "DaemonSet", "Node"})


class Misread(ValueError):
    """What is wrong with what a pod asks for, and how to put it right."""

    reason = "Misread"

    def __init__(self, field: str, value: str, problem: str) -> None:
        super().__init__(f"{field}: {value!r} {problem}")
        self.field = field
        self.value = value


def member_of(pod: Pod, namespaces: Namespaces = _NO_NAMESPACES) -> Member:
    """A pod as a member of a gang; `Misread` if nobody can say what it asks for."""
    return Member(
        pod.key,
        shared(shape_of(pod, namespaces)),
        pod.metadata.labels,
        leaving=pod.metadata.deletion_timestamp is not None,
        returns=returns(pod),
    )


def returns(pod: Pod) -> bool:
    """Whether another pod is made in a pod's place when it is evicted, which may stand elsewhere
    and loses nothing: a Job counts a failure, a DaemonSet's pods and volumes belong to nodes."""
    owner = pod.metadata.controller
    if owner is None or owner.kind in _BOUND_OWNERS:
        return False
    return all(volume.claim_name(pod.metadata.name) is None for volume in pod.spec.volumes)


def shape_of(pod: Pod, namespaces: Namespaces = _NO_NAMESPACES) -> Shape:
    """What a pod asks for; `Misread` if nobody can say."""
    spec = pod.spec
    amounts = requests_of(pod)
    ask = _gpu_ask(amounts, pod.metadata.annotations)
    for name, amount in _ports(pod):
        amounts[name] = max(amount, amounts.get(name, 0))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required if affinity is not None else None
    return Shape(
        requests=tuple(sorted((name, amount) for name, amount in amounts.items() if amount)),
        gpu=ask,
        selector=tuple(sorted(spec.node_selector.items())),
        one_of=(() if required is None else (node_terms_of(required),)),
        preferred=tuple(
            (each.weight, node_term_of(each.preference))
            for each in (affinity.preferred if affinity is not None else ())
        ),
        tolerations=tuple(
            Toleration(
                each.key,
                "Exists" if each.operator == "Exists" else "Equal",
                each.value,
                each.effect,
            )
            for each in spec.tolerations
        ),
        peers=peers_of(pod, namespaces),
    )


def requests_of(pod: Pod) -> dict[str, int]:
    """The most that a pod needs at any time of its life.

    Init containers run one after the other, each beside the sidecars started before it; then
    all containers and sidecars run together. What the pod asks for as a whole counts instead.
    While containers are resized in place, what they have counts, too (`resizes`).
    """
    statuses = statuses_of(pod)
    infeasible = bool(statuses) and is_infeasible(pod)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        amounts = requests_in_use(container, statuses, infeasible=infeasible)
        if container.restart_policy == "Always":
            _add(sidecars, amounts)
        else:
            for name, amount in amounts.items():
                peak[name] = max(peak.get(name, 0), amount + sidecars.get(name, 0))
    total = dict(sidecars)
    for each in pod.spec.containers:
        _add(total, requests_in_use(each, statuses, infeasible=infeasible))
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    total.update(amounts_of(pod.spec.resources.requests))
    _add(total, amounts_of(pod.spec.overhead))
    total[PODS] = 1
    # Containers may each ask for the most, and are not to be more together.
    return {name: min(amount, MOST) for name, amount in total.items()}


def _ports(pod: Pod) -> Iterator[tuple[str, int]]:
    """What the ports take that containers use of the node for as long as the pod runs."""
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    for container in (*pod.spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                yield from host_port(port.host_port, port.protocol, port.host_ip).items()


def _add(into: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + amount


def _gpu_ask(amounts: dict[str, int], annotations: Mapping[str, str]) -> GpuAsk | None:
    """The GPUs asked for. MIG instances leave the amounts: how they count depends on the node."""
    profiles = {name: profile for name in amounts if (profile := profile_of(name)) is not None}
    asked = [*sorted(profiles), *([GPU] if amounts.get(GPU) else [])]
    if len(asked) > 1:
        problem = "are several kinds of GPUs: a pod may ask for one"
        raise Misread("resources.requests", ", ".join(asked), problem)
    wishes = _wishes(annotations)
    for name in (wire.MILLI, KAI_FRACTION, KAI_MEMORY):
        text = annotations.get(name)
        if text is not None:
            if asked:
                problem = f"asks for a share beside {asked[0]}: leave one of them out"
                raise Misread(annotation_field(name), text, problem)
            return _share(name, text, wishes)
    for name, profile in profiles.items():
        return replace(wishes, count=amounts.pop(name), profile=profile)
    return replace(wishes, count=amounts[GPU]) if asked else None


def _share(name: str, text: str, wishes: GpuAsk) -> GpuAsk:
    if name == KAI_MEMORY:
        memory = _number(KAI_MEMORY, text)
        return replace(wishes, count=1, milli=0, memory=max(memory, wishes.memory))
    milli = _milli(text) if name == wire.MILLI else _fraction(text)
    if milli is None:
        raise Misread(annotation_field(name), text, _EXPECTED[name])
    return replace(wishes, count=1, milli=milli)


def _wishes(annotations: Mapping[str, str]) -> GpuAsk:
    """What the devices should be like, and how they should stand to each other."""
    preference = annotations.get(wire.TOPOLOGY, Preference.NONE)
    if preference not in list(Preference):
        raise Misread(annotation_field(wire.TOPOLOGY), preference, _EXPECTED[wire.TOPOLOGY])
    models = annotations.get(wire.MODEL, "").split(",")
    return GpuAsk(
        count=0,
        memory=_number(wire.MIN_MEMORY, annotations.get(wire.MIN_MEMORY)),
        models=tuple(model.strip() for model in models if model.strip()),
        architecture=annotations.get(wire.ARCHITECTURE, "").strip(),
        preference=Preference(preference),
        bandwidth=_number(wire.MIN_BANDWIDTH, annotations.get(wire.MIN_BANDWIDTH)),
    )


def _number(name: str, text: str | None) -> int:
    if text is None:
        return 0
    if not _positive(text):
        raise Misread(annotation_field(name), text, _EXPECTED[name])
    return int(text)


def annotation_field(name: str) -> str:
    """How an annotation is named in an error."""
    return f"metadata.annotations[{name}]"


def _milli(text: str) -> int | None:
    return int(text) if _positive(text) and int(text) <= WHOLE else None


def _fraction(text: str) -> int | None:
    try:
        milli = round(float(text) * WHOLE)
    except (ValueError, OverflowError):
        return None
    return milli if 0 < milli <= WHOLE else None


def _positive(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31


_EXPECTED = {
    wire.MILLI: f"is no share of a GPU: write 1 to {WHOLE}",
    KAI_FRACTION: "is no share of a GPU: write a number above 0, up to 1",
    KAI_MEMORY: "is no memory of a GPU: write MiB",
    wire.MIN_MEMORY: "is no memory of a GPU: write MiB",
    wire.MIN_BANDWIDTH: "is no bandwidth: write GB/s",
    wire.TOPOLOGY: f"is no wish about GPUs: write one of {', '.join(Preference)}",
}
